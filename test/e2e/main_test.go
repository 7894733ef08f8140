// Package e2e runs the programs of this project against real control planes.
// One cluster of 20 nodes carries the story of the demo; a smaller, faster one
// carries the scenarios, each with a DaemonSet of its own; one of a thousand nodes
// shows what only a fleet can.
package e2e

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/topsops/gcu-operator/test/harness"
)

// interrupted ends when somebody presses Ctrl-C, so that clusters are taken down.
var interrupted context.Context

func TestMain(m *testing.M) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	interrupted = ctx
	code := m.Run()
	stop()
	os.Exit(code)
}

// testContext ends a little before the test's deadline and on Ctrl-C.
func testContext(t *testing.T, timeout time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(interrupted, timeout)
	t.Cleanup(cancel)
	return ctx
}

// startCluster starts a test cluster that ends with the test.
func startCluster(ctx context.Context, t *testing.T, args ...string) *harness.Cluster {
	t.Helper()
	project, err := harness.FindProject()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := project.Program("testcluster"); err != nil {
		t.Fatalf("%v (run make test)", err)
	}
	// Not t.TempDir: its path may be too long for a socket, and its removal would race with logs.
	parent, err := os.MkdirTemp("", "gcu-e2e-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the logs are kept in %s", parent)
			return
		}
		if err := os.RemoveAll(parent); err != nil {
			t.Error(err)
		}
	})
	cluster, err := harness.StartCluster(ctx, project, filepath.Join(parent, "cluster"), testWriter{t}, args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			keepLogs(t, cluster.Dir, parent)
		}
		if err := cluster.Stop(testWriter{t}); err != nil {
			t.Error(err)
		}
	})
	return cluster
}

// keepLogs saves the programs' logs from a cluster folder that is about to go.
func keepLogs(t *testing.T, from, to string) {
	logs, err := filepath.Glob(filepath.Join(from, "*.log"))
	if err != nil {
		t.Error(err)
	}
	for _, log := range logs {
		if err := os.Rename(log, filepath.Join(to, filepath.Base(log))); err != nil {
			t.Error(err)
		}
	}
}

// testWriter passes on what a program says to the test's log.
type testWriter struct{ t *testing.T }

func (w testWriter) Write(p []byte) (int, error) {
	fmt.Fprint(os.Stderr, string(p))
	return len(p), nil
}
