package exporter

import (
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/topsops/gcu-operator/test/standin/gcu"
)

func TestTheDocumentedMetricsAreServed(t *testing.T) {
	node := gcu.Node{Root: t.TempDir()}
	if err := Run(t.Context(), node, nil); !errors.Is(err, gcu.ErrNoCard) {
		t.Fatalf("without a card: %v", err)
	}
	for _, path := range []string{node.Card(0), node.Card(1), node.VersionFile()} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte("1.0.0\n"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	answer := httptest.NewRecorder()
	handler(node).ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
	body := answer.Body.String()
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"enflame_gcu_exporter_up 1",
		`enflame_gcu_count{host="` + host + `"} 2`,
		`enflame_gcu_health{host="` + host + `",minor_number="1",name="standin",uuid="GCU-1"} 2`,
		`enflame_gcu_info{fw_version="1.0.0",host="` + host + `",minor_number="0",name="standin",uuid="GCU-0"} 1`,
	} {
		if !strings.Contains(body, line+"\n") {
			t.Errorf("no line %s in:\n%s", line, body)
		}
	}
}
