package nodes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/topsops/gcu-operator/test/harness"
)

// enabled is set by make test-nodes: go test ./... starts no real nodes.
const enabled = "TEST_NODES"

const notTested = "NOT TESTED: the operator as pods on real kubelets: evictions, device plugin, OTA at the node, cut links, power loss, rollback"

// interrupted ends when somebody presses Ctrl-C, so that the cluster is taken down.
var interrupted context.Context

func TestMain(m *testing.M) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	interrupted = ctx
	log.SetLogger(logr.Discard()) // of controller-runtime, whose clients have nothing to tell
	code := m.Run()
	stop()
	os.Exit(code)
}

// startCluster starts a cluster of real nodes that ends with the test, with all images
// and with the operator in it.
func startCluster(ctx context.Context, t *testing.T) *harness.Cluster {
	t.Helper()
	if os.Getenv(enabled) == "" {
		t.Skip(notTested + " (make test-nodes runs it)")
	}
	if runtime.GOOS != "linux" || os.Getuid() != 0 {
		t.Skip(notTested + " (it needs Linux and root)")
	}
	project, err := harness.FindProject()
	check(t, err)
	parent, err := os.MkdirTemp("", "gcu-nodes-")
	check(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the logs are kept in %s", parent)
			return
		}
		check(t, os.RemoveAll(parent))
	})
	cluster, err := harness.StartCluster(ctx, project, filepath.Join(parent, "cluster"), os.Stderr,
		"--real-nodes", fmt.Sprint(len(allNodes)), "--docker-node", allNodes[2])
	check(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			keepLogs(t, cluster.Dir, parent)
		}
		if err := cluster.Stop(os.Stderr); err != nil {
			t.Error(err)
		}
	})
	check(t, cluster.LoadImages(ctx, os.Stderr, project.Path("bin", "images", "operator.tar"), project.Path("bin", "images", "standins.tar")))
	return cluster
}

// keepLogs saves logs from a cluster folder that is about to go.
func keepLogs(t *testing.T, from, to string) {
	err := os.Rename(filepath.Join(from, "logs"), filepath.Join(to, "logs"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
