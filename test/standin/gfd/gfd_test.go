package gfd

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/topsops/gcu-operator/test/standin/gcu"
)

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestFeaturesAreThereAsLongAsItRuns(t *testing.T) {
	node, directory := gcu.Node{Root: t.TempDir()}, t.TempDir()
	if err := Run(t.Context(), node, directory, time.Hour); !errors.Is(err, gcu.ErrNoCard) {
		t.Fatalf("without a card: %v", err)
	}
	for _, path := range []string{node.Card(0), node.VersionFile()} {
		check(t, os.MkdirAll(filepath.Dir(path), 0o755))
		check(t, os.WriteFile(path, []byte("1.0.0\n"), 0o600))
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, node, directory, time.Millisecond) }()
	var text []byte
	for deadline := time.Now().Add(time.Minute); len(text) == 0; {
		text, _ = os.ReadFile(filepath.Join(directory, file)) // not yet there
		if time.Now().After(deadline) {
			t.Fatal("no features are written")
		}
	}
	for _, line := range []string{"enflame.com/gcu.count=1\n", "enflame.com/gcu.driverVer=1.0.0\n"} {
		if !strings.Contains(string(text), line) {
			t.Errorf("no %q in %s", line, text)
		}
	}
	cancel()
	check(t, <-ended)
	left, err := os.ReadDir(directory)
	check(t, err)
	if len(left) != 0 {
		t.Errorf("left is %v", left)
	}
}
