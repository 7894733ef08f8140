package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/test/freeport"
	"github.com/topsops/gcu-operator/test/harness"
	demo "github.com/topsops/gcu-operator/test/story"
)

const (
	// stageNodes is the number of nodes of a story, spread evenly over zones.
	stageNodes = 6
	stageZones = 3
	// stages is the number of stories that run in parallel.
	stages = 8
	// stageLabel names the stage that a node belongs to.
	stageLabel = "example.com/stage"
	// gcuLabel is on a node that has a GCU.
	gcuLabel = "feature.node.kubernetes.io/pci-1200_1e36.present"

	// storyTime limits a story, including the wait for its stage.
	storyTime = 20 * time.Minute
	// settleTime is the timeout of one step of a story: six operations, one after the other, take six minutes on a busy machine.
	settleTime = 10 * time.Minute
)

// controlPlane is a cluster that starts when a test first needs it.
type controlPlane struct {
	nodes int
	// prepare makes the cluster ready for its tests.
	prepare func(c *controlPlane, ctx context.Context) error

	once    sync.Once
	err     error
	parent  string
	cluster *harness.Cluster
	// manager is shared by all tests; nil if each has its own.
	manager *harness.Process
	// address is its REST address, blueprints and logs are its folders.
	address, blueprints, logs string
	// like is a node as no story has changed it.
	like corev1.Node
	// free are the unused stages.
	free chan string
}

var (
	// crowd is for stories that run in parallel.
	crowd = &controlPlane{nodes: stages * stageNodes, prepare: (*controlPlane).prepareCrowd, free: stageNames(stages)}
	// single is for stories that need a whole cluster.
	single = &controlPlane{nodes: demo.Nodes, prepare: (*controlPlane).prepareSingle, free: stageNames(1)}
	// fragile is for outages of the control plane, one at a time.
	fragile = &controlPlane{nodes: outageNodes, prepare: (*controlPlane).prepareFragile, free: stageNames(1)}
)

func stageNames(n int) chan string {
	free := make(chan string, n)
	for i := range n {
		free <- strconv.Itoa(i + 1)
	}
	return free
}

// start starts the cluster unless it runs.
func (c *controlPlane) start(t *testing.T) {
	t.Helper()
	c.once.Do(func() { c.err = c.up(interrupted) })
	if c.err != nil {
		t.Fatal(c.err)
	}
}

func (c *controlPlane) up(ctx context.Context) error {
	project, err := harness.FindProject()
	if err != nil {
		return err
	}
	// Not t.TempDir, whose path may be too long for a socket.
	if c.parent, err = os.MkdirTemp("", "gcu-e2e-"); err != nil {
		return err
	}
	// The grace period is long, so that nodes do not become NotReady on a busy machine:
	// their pods would become unavailable, and pods that a story made Ready would stay so.
	c.cluster, err = harness.StartCluster(ctx, project, filepath.Join(c.parent, "cluster"), os.Stderr, "--nodes", strconv.Itoa(c.nodes),
		"--zones", strconv.Itoa(stageZones), "--pod-ready-delay", "300ms", "--pod-ready-jitter", "200ms", "--node-monitor-grace-period", "24s", "--node-lease-duration", "8s")
	if err != nil {
		return err
	}
	return c.prepare(c, ctx)
}

func (c *controlPlane) prepareCrowd(ctx context.Context) error {
	err := errors.Join(c.cluster.Install(ctx), c.assignStages(ctx, stages), c.cluster.Client.Get(ctx, client.ObjectKey{Name: nodeName(0)}, &c.like))
	if err != nil {
		return err
	}
	if c.address, err = freeport.Address(); err != nil {
		return err
	}
	c.blueprints, c.logs = filepath.Join(c.parent, "blueprints"), filepath.Join(c.parent, "api-logs")
	if err := errors.Join(os.Mkdir(c.blueprints, 0o755), os.Mkdir(c.logs, 0o755)); err != nil {
		return err
	}
	// There is no other manager, and an expired lease on a slow machine must not end it.
	c.manager, err = c.cluster.StartManager(ctx, "--leader-elect=false", "--upgrade-api-bind-address", c.address, "--upgrade-api-auth=none",
		"--blueprint-dir", c.blueprints, "--upgrade-api-log-dir", c.logs)
	return err
}

func (c *controlPlane) prepareSingle(ctx context.Context) error { return c.assignStages(ctx, 1) }

// assignStages labels the nodes of stages.
func (c *controlPlane) assignStages(ctx context.Context, n int) error {
	var patching errgroup.Group
	patching.SetLimit(stages)
	for i := range n * stageNodes {
		patching.Go(func() error {
			node := &corev1.Node{}
			node.Name = nodeName(i)
			patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`, stageLabel, strconv.Itoa(i/stageNodes+1))
			return c.cluster.Client.Patch(ctx, node, client.RawPatch(types.MergePatchType, patch))
		})
	}
	return patching.Wait()
}

// nodeName is the name of a node, counted from 0.
func nodeName(i int) string { return fmt.Sprintf("node-%04d", i+1) }

// stop stops the cluster, and keeps the logs of the programs if a test has failed.
func (c *controlPlane) stop(failed bool) error {
	if c.parent == "" {
		return nil
	}
	var errs []error
	if c.manager != nil {
		if c.manager.Ended() {
			errs = append(errs, fmt.Errorf("the manager of all stories has ended, see %s", c.parent))
		}
		errs = append(errs, c.manager.Stop())
	}
	if failed = failed || errors.Join(errs...) != nil; failed && c.cluster != nil {
		errs = append(errs, keepLogs(c.cluster.Dir, c.parent))
	}
	if c.cluster != nil {
		errs = append(errs, c.cluster.Stop(os.Stderr))
	}
	if failed {
		fmt.Fprintf(os.Stderr, "the logs are kept in %s\n", c.parent)
		return errors.Join(errs...)
	}
	return errors.Join(append(errs, os.RemoveAll(c.parent))...)
}

// keepLogs saves the programs' logs from a cluster folder before it is removed.
func keepLogs(from, to string) error {
	logs, err := filepath.Glob(filepath.Join(from, "*.log"))
	for _, log := range logs {
		err = errors.Join(err, os.Rename(log, filepath.Join(to, filepath.Base(log))))
	}
	return err
}

// stage is a story's share of a cluster: nodes of its own.
type stage struct {
	*harness.Cluster
	plane *controlPlane
	// label is the value of stageLabel, id is unique to this story.
	label, id string
	nodes     []string
	// manager is the cluster's manager.
	manager *harness.Process
	// agents are the started agents.
	agents *harness.Agents
}

// lastID is the last assigned id of a stage.
var lastID atomic.Int64

// enter assigns a stage to a story until it ends.
func enter(t *testing.T) (*stage, context.Context) {
	t.Helper()
	t.Parallel()
	return enterOf(t, crowd)
}

// enterAlone assigns a whole cluster without a manager to a story until it ends.
func enterAlone(t *testing.T) (*stage, context.Context) {
	t.Helper()
	t.Parallel()
	return enterOf(t, single)
}

func enterOf(t *testing.T, plane *controlPlane) (*stage, context.Context) {
	t.Helper()
	ctx := testContext(t, storyTime)
	var label string
	select {
	case label = <-plane.free:
	case <-ctx.Done():
		t.Fatal(ctx.Err())
	}
	t.Cleanup(func() { plane.free <- label })
	plane.start(t)
	s := &stage{Cluster: plane.cluster, plane: plane, manager: plane.manager, label: label, id: strconv.FormatInt(lastID.Add(1), 10)}
	first, err := strconv.Atoi(label)
	if err != nil {
		t.Fatal(err)
	}
	for i := range stageNodes {
		s.nodes = append(s.nodes, nodeName((first-1)*stageNodes+i))
	}
	t.Cleanup(func() { s.leave(context.WithoutCancel(ctx), t) })
	return s, ctx
}

// enterOwn makes a stage of new nodes of the crowd, which are removed when the story ends: the renewals of their
// leases would be most of what the API server does for the others.
func enterOwn(t *testing.T, name string, nodes int, withGCUs bool) (*stage, context.Context) {
	t.Helper()
	t.Parallel()
	ctx := testContext(t, storyTime)
	crowd.start(t)
	s := &stage{Cluster: crowd.cluster, plane: crowd, manager: crowd.manager, id: strconv.FormatInt(lastID.Add(1), 10)}
	s.label = s.name(name)
	like := crowd.like.DeepCopy()
	if !withGCUs {
		delete(like.Labels, gcuLabel)
	}
	var creating errgroup.Group
	creating.SetLimit(stages)
	for i := range nodes {
		node := newNode(fmt.Sprintf("%s-%04d", s.label, i+1), like)
		node.Labels[stageLabel] = s.label
		s.nodes = append(s.nodes, node.Name)
		creating.Go(func() error { return s.Client.Create(ctx, node) })
	}
	t.Cleanup(func() {
		for _, name := range s.nodes {
			if err := s.Client.Delete(context.WithoutCancel(ctx), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}); client.IgnoreNotFound(err) != nil {
				t.Error(err)
			}
		}
	})
	t.Cleanup(func() { s.leave(context.WithoutCancel(ctx), t) })
	if err := creating.Wait(); err != nil {
		t.Fatal(err)
	}
	return s, ctx
}

// leave restores the nodes, and fails if the operator left a mark on one.
func (s *stage) leave(ctx context.Context, t *testing.T) {
	t.Helper()
	if err := s.agents.Stop(); err != nil {
		t.Error(err)
	}
	if t.Failed() { // anywhere
		_, err := s.NodesOn(ctx, s.nodes...)
		for _, node := range s.nodes {
			_, again := s.Kubectl(ctx, "uncordon", node)
			err = errors.Join(err, again)
		}
		if err != nil {
			t.Error(err)
		}
	}
	s.forget(ctx, t, s.nodes...)
	s.eventually(ctx, t, func() error {
		if cordoned, left := s.closed(ctx, t); len(cordoned)+len(left) > 0 {
			return fmt.Errorf("cordoned are %v, left %v", cordoned, left)
		}
		return nil
	})
}

// forget deletes the NodeUpgrades of nodes.
func (s *stage) forget(ctx context.Context, t *testing.T, nodes ...string) {
	t.Helper()
	for _, node := range nodes {
		upgrade := &topsv1.NodeUpgrade{}
		upgrade.Name = node
		if err := client.IgnoreNotFound(s.Client.Delete(ctx, upgrade)); err != nil {
			t.Error(err)
		}
	}
}

// name returns a name that is unique to the story.
func (s *stage) name(name string) string { return name + "-" + s.id }

// selector selects the nodes of the stage.
func (s *stage) selector() map[string]string { return map[string]string{stageLabel: s.label} }

// startAgents starts the node agents of nodes, by default of all.
func (s *stage) startAgents(ctx context.Context, t *testing.T, nodes ...string) {
	t.Helper()
	if len(nodes) == 0 {
		nodes = s.nodes
	}
	var err error
	if s.agents, err = s.StartAgents(ctx, "1.0.0", nodes...); err != nil {
		t.Fatal(err)
	}
}

// startManager starts a manager that is stopped at the end of the test.
func (s *stage) startManager(ctx context.Context, t *testing.T, args ...string) *harness.Process {
	t.Helper()
	manager, err := s.StartManager(ctx, args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := manager.Stop(); err != nil {
			t.Error(err)
		}
	})
	return manager
}

// nodesWithout returns the nodes of the stage that are not in some.
func (s *stage) nodesWithout(some []string) []string {
	return slices.DeleteFunc(slices.Clone(s.nodes), func(node string) bool { return slices.Contains(some, node) })
}

// closed returns the cordoned nodes of the stage, and the operator's marks and taints
// on its nodes.
func (s *stage) closed(ctx context.Context, t *testing.T) (cordoned, left []string) {
	t.Helper()
	for _, name := range s.nodes {
		var node corev1.Node
		if err := s.Client.Get(ctx, client.ObjectKey{Name: name}, &node); err != nil {
			t.Error(err)
			continue
		}
		if node.Spec.Unschedulable {
			cordoned = append(cordoned, node.Name)
		}
		if mark, ok := node.Annotations[topsv1.AnnotationCordonedBy]; ok {
			left = append(left, node.Name+" is marked by "+mark)
		}
		for _, taint := range node.Spec.Taints {
			if taint.Key == topsv1.TaintDriverUpgrade {
				left = append(left, node.Name+" is closed by "+taint.Value)
			}
		}
	}
	return cordoned, left
}

// kubectl runs kubectl and returns its output.
func (s *stage) kubectl(ctx context.Context, t *testing.T, args ...string) string {
	t.Helper()
	out, err := s.Kubectl(ctx, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (s *stage) eventually(ctx context.Context, t *testing.T, check func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	if err := harness.Eventually(ctx, check); err != nil {
		t.Fatal(err)
	}
}

// create creates an object that is deleted at the end of the test. Its dependents are
// deleted too, unless the operator removes them.
func (s *stage) create(ctx context.Context, t *testing.T, object client.Object) {
	t.Helper()
	if err := s.Client.Create(ctx, object); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.remove(context.WithoutCancel(ctx), t, object) })
}

func (s *stage) remove(ctx context.Context, t *testing.T, object client.Object) {
	t.Helper()
	var options []client.DeleteOption
	if _, ours := object.(*topsv1.GcuResource); !ours {
		options = append(options, client.PropagationPolicy("Foreground"))
	}
	if err := client.IgnoreNotFound(s.Client.Delete(ctx, object, options...)); err != nil {
		t.Error(err)
	}
	if t.Failed() {
		return // may be stuck
	}
	s.eventually(ctx, t, func() error {
		err := s.Client.Get(ctx, client.ObjectKeyFromObject(object), object)
		if err == nil {
			return fmt.Errorf("%T %s is still there", object, object.GetName())
		}
		return client.IgnoreNotFound(err)
	})
}

// names joins a list with commas.
func names(list []string) string { return strings.Join(list, ",") }
