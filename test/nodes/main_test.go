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
	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/topsops/gcu-operator/test/harness"
	"github.com/topsops/gcu-operator/test/need"
)

// enabled is the variable set by make test-nodes: go test ./... starts no real nodes.
const enabled = "TEST_NODES"

// lostAfter is the node monitor grace period.
const lostAfter = "12s"

// interrupted is done on Ctrl-C, so that the cluster is removed.
var interrupted context.Context

func TestMain(m *testing.M) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	interrupted = ctx
	log.SetLogger(logr.Discard()) // silences controller-runtime's clients
	code := m.Run()
	stop()
	os.Exit(code)
}

// needRealNodes skips a test if real nodes are not possible, or fails it if they were
// requested.
func needRealNodes(t *testing.T) {
	t.Helper()
	if os.Getenv(enabled) == "" {
		need.Skip(t, "the operator as pods on real kubelets: evictions, device plugin, OTA at the node, cut links, power loss, rollback (make test-nodes runs it)")
	}
	if runtime.GOOS != "linux" || os.Getuid() != 0 {
		t.Fatalf("%s is set, and real nodes need Linux and root", enabled)
	}
}

// startCluster starts a cluster of real nodes with all images, and removes it at the end
// of the test.
func startCluster(ctx context.Context, t *testing.T) *harness.Cluster {
	t.Helper()
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
		"--real-nodes", fmt.Sprint(len(allNodes)), "--docker-node", dockerNode, "--node-monitor-grace-period", lostAfter, "--node-lease-duration", "8s")
	check(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			keepLogs(t, cluster.Dir, parent)
		}
		if err := cluster.Stop(os.Stderr); err != nil {
			t.Error(err)
		}
	})
	check(t, loadImages(ctx, cluster, allNodes...))
	return cluster
}

// loadImages loads the images of the operator and the stand-ins into nodes.
func loadImages(ctx context.Context, c *harness.Cluster, nodes ...string) error {
	loading, ctx := errgroup.WithContext(ctx)
	for _, node := range nodes {
		loading.Go(func() error {
			return c.LoadImages(ctx, os.Stderr, "--node", node, c.Project.Path("bin", "images", "operator.tar"), c.Project.Path("bin", "images", "standins.tar"))
		})
	}
	return loading.Wait()
}

// keepLogs saves logs from a cluster folder before it is removed.
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
