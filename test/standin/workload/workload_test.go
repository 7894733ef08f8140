package workload

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/topsops/gcu-operator/test/standin/gcu"
)

func TestWorkloadNeedsCardsAndTimeToStop(t *testing.T) {
	node := gcu.Node{Root: t.TempDir()}
	if err := Run(t.Context(), node, 0); !errors.Is(err, gcu.ErrNoCard) {
		t.Fatalf("without a card: %v", err)
	}
	for _, path := range []string{node.Card(0), node.VersionFile()} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte("1.0.0\n"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		begin := time.Now()
		if err := Run(ctx, node, time.Minute); err != nil {
			t.Error(err)
		}
		if took := time.Since(begin); took != time.Minute {
			t.Errorf("it ended after %s", took)
		}
	})
}
