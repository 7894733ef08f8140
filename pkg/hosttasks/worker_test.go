package hosttasks

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	testclock "k8s.io/utils/clock/testing"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/hostagent"
	"github.com/topsops/gcu-operator/pkg/hostagent/task"
	"github.com/topsops/gcu-operator/pkg/hosttasks/hostapi"
)

// fakeCluster is an API server with one NodeUpgrade. Its lock guards all fields.
type fakeCluster struct {
	mutex       sync.Mutex
	unreachable error
	nodeUpgrade *topsv1.NodeUpgrade
	reads       int
	applied     []topsv1.HostReport
}

func (c *fakeCluster) Node(context.Context, string) (*corev1.Node, error) {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-a", UID: "node-uid"}}, nil
}

func (c *fakeCluster) NodeUpgrade(context.Context, string) (*topsv1.NodeUpgrade, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.reads++
	if c.unreachable != nil {
		return nil, c.unreachable
	}
	if c.nodeUpgrade == nil {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "nodeupgrades"}, "node-a")
	}
	return c.nodeUpgrade.DeepCopy(), nil
}

func (c *fakeCluster) ApplyStatus(_ context.Context, _ string, n *topsv1.NodeUpgrade) error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if n.UID != c.nodeUpgrade.UID {
		return apierrors.NewConflict(schema.GroupResource{Resource: "nodeupgrades"}, n.Name, errors.New("another uid"))
	}
	c.nodeUpgrade.Status.Host = n.Status.Host.DeepCopy()
	c.applied = append(c.applied, *n.Status.Host)
	return nil
}

func (c *fakeCluster) Secret(context.Context, string, string) (*corev1.Secret, error) {
	return nil, apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "", errors.New("no Secrets here"))
}

func (c *fakeCluster) set(change func()) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	change()
}

func (c *fakeCluster) reports() []topsv1.HostReport {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return slices.Clone(c.applied)
}

// bench is a worker on a fake cluster and a fake clock.
type bench struct {
	*Worker
	cluster *fakeCluster
	clock   *testclock.FakeClock
	state   string
}

func newBench(t *testing.T, cluster *fakeCluster, hostRoot string) *bench {
	t.Helper()
	b := &bench{cluster: cluster, clock: testclock.NewFakeClock(noon), state: t.TempDir()}
	executor, err := hostagent.New(hostagent.Options{StateDirectory: b.state, HostRoot: hostRoot, Clock: b.clock, Log: testr.New(t)})
	if err != nil {
		t.Fatal(err)
	}
	b.Worker = New(Options{NodeName: "node-a", Executor: executor, Cluster: cluster, Clock: b.clock, Log: testr.New(t)})
	return b
}

// run starts the loop, and stops it with the test.
func (b *bench) run(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); b.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
}

// untilItWaits returns when the loop waits and has made this number of reads.
func (b *bench) untilItWaits(t *testing.T, reads int) {
	t.Helper()
	until(t, "the loop waits", func() bool {
		b.cluster.mutex.Lock()
		defer b.cluster.mutex.Unlock()
		return b.cluster.reads == reads && b.clock.HasWaiters()
	})
}

// until polls real goroutines.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 5*time.Millisecond, 30*time.Second, true,
		func(context.Context) (bool, error) { return holds(), nil })
	if err != nil {
		t.Fatalf("waiting until %s: %v", what, err)
	}
}

// asking returns a NodeUpgrade of node-a with an operation whose tasks have begun.
func asking(tasks ...string) *topsv1.NodeUpgrade {
	n := idle()
	n.Spec.Operation = &topsv1.NodeOperation{ID: "op", NodeUID: "node-uid", Targets: []topsv1.OperationTarget{{Component: "driver"}}}
	n.Status.Operation = &topsv1.OperationStatus{ID: "op", Phase: topsv1.OperationRunning}
	for _, t := range tasks {
		n.Status.Operation.Tasks = append(n.Status.Operation.Tasks, topsv1.OperationTask{Name: t, State: topsv1.OperationTaskRunning, Attempts: 2})
	}
	return n
}

var noon = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

func idle() *topsv1.NodeUpgrade {
	return &topsv1.NodeUpgrade{ObjectMeta: metav1.ObjectMeta{Name: "node-a", UID: "nu"}}
}

func TestTheReportIsRenewedEachMinute(t *testing.T) {
	b := newBench(t, &fakeCluster{nodeUpgrade: idle()}, t.TempDir())
	b.run(t)
	reads := 1
	b.untilItWaits(t, reads)
	for minute := 1; minute <= 3; minute++ {
		b.clock.Step(30 * time.Second)
		b.woken.set()
		reads++
		b.untilItWaits(t, reads)
		if got := len(b.cluster.reports()); got != minute {
			t.Fatalf("%d reports in %d minutes: it was woken and had nothing new to say", got, minute)
		}
		b.clock.Step(30 * time.Second)
		reads++
		b.untilItWaits(t, reads)
	}
	reports := b.cluster.reports()
	if len(reports) != 4 {
		t.Errorf("%d reports in three minutes, want one each and the first", len(reports))
	}
	for i := 1; i < len(reports); i++ {
		if age := reports[i].Time.Sub(reports[i-1].Time.Time); age > time.Minute {
			t.Errorf("report %d came %s after the one before", i, age)
		}
	}
}

// The driver is not replaced until the report shows that nothing has a device open.
func TestTheHostIsReadOftenWhileTheDriverIsReplaced(t *testing.T) {
	for task, often := range map[string]bool{"node-a_driver_replace": true, "node-a_exporter_replace": false, "node-a_node_evict": false, "node-b_driver_replace": false} {
		b := newBench(t, &fakeCluster{nodeUpgrade: asking(task)}, t.TempDir())
		if next, err := b.Pass(t.Context()); err != nil || (next == attentivePeriod) != often {
			t.Errorf("%s: the host is read again after %s: %v", task, next, err)
		}
	}
}

func TestWithoutAHostTheAgentReportsWhatIsMissing(t *testing.T) {
	b := newBench(t, &fakeCluster{nodeUpgrade: idle()}, filepath.Join(t.TempDir(), "none"))
	if _, err := b.Pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	report := b.cluster.reports()[0]
	for _, want := range []string{"host root: ", "container engine: "} {
		if !slices.ContainsFunc(report.Missing, func(m string) bool { return strings.HasPrefix(m, want) }) {
			t.Errorf("missing is %q, want %q in it", report.Missing, want)
		}
	}
	if report.Devices != nil || report.Runtime != nil || report.FreeDiskBytes != nil {
		t.Errorf("report %+v of no host", report)
	}
}

func TestWhatCanBeReadIsReportedWithoutTheRest(t *testing.T) {
	root := t.TempDir()
	if err := errors.Join(os.MkdirAll(filepath.Join(root, "dev"), 0o755), os.WriteFile(filepath.Join(root, "dev/gcu0"), nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	b := newBench(t, &fakeCluster{nodeUpgrade: idle()}, root)
	if _, err := b.Pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	if report := b.cluster.reports()[0]; report.Devices == nil || *report.Devices != 1 || len(report.Missing) != 4 || report.DeviceHoldersVisible != nil {
		t.Errorf("report %+v, want one card, and four things missing", report)
	}
}

func TestAnAPIServerThatIsAwayIsTriedAgainAfterGrowingPauses(t *testing.T) {
	cluster := &fakeCluster{nodeUpgrade: idle(), unreachable: errors.New("connection refused")}
	b := newBench(t, cluster, t.TempDir())
	b.run(t)
	pause := retryFirst
	for attempt := 1; attempt <= 7; attempt++ {
		b.untilItWaits(t, attempt)
		b.clock.Step(pause - time.Millisecond)
		if !b.clock.HasWaiters() {
			t.Fatalf("attempt %d was followed by a pause shorter than %s", attempt, pause)
		}
		b.clock.Step(pause) // beyond the jitter
		pause = min(2*pause, retryLast)
	}
	b.untilItWaits(t, 8)
	cluster.set(func() { cluster.unreachable = nil })
	b.clock.Step(2 * retryLast)
	until(t, "the host is reported", func() bool { return len(cluster.reports()) == 1 })
}

func TestANodeUpgradeThatIsNotThereIsWaitedFor(t *testing.T) {
	b := newBench(t, &fakeCluster{}, t.TempDir())
	b.run(t)
	b.untilItWaits(t, 1)
	b.cluster.set(func() { b.cluster.nodeUpgrade = idle() })
	b.Seen(idle())
	until(t, "the host is reported", func() bool { return len(b.cluster.reports()) == 1 })
}

func TestTheLoopIsWokenByWhatMattersOnly(t *testing.T) {
	b := newBench(t, &fakeCluster{}, t.TempDir())
	n := idle()
	for _, step := range []struct {
		what   string
		change func()
		wakes  bool
	}{
		{"it is there", func() {}, true},
		{"nothing changed", func() {}, false},
		{"a request was made", func() { n.Status.Requests = []topsv1.UpgradeRequest{{ID: "r"}} }, false},
		{"the host is reported", func() { n.Status.Host = &topsv1.HostReport{BootID: "b"} }, true},
		{"the host is reported again", func() { n.Status.Host.BootID = "c" }, false},
		{"an operation is wanted", func() { n.Spec = asking().Spec }, false},
		{"a task has begun", func() { n.Status.Operation = asking("node-a_driver_prepull").Status.Operation }, true},
		{"a message of it changed", func() { n.Status.Operation.Tasks[0].Message = "pulling" }, false},
		{"it is asked for again", func() { n.Status.Operation.Tasks[0].Attempts++ }, true},
		{"the operation is aborted", func() { n.Spec.Operation.Abort = true }, true},
		{"images are wanted before a light change", func() { n.Spec.Prepulls = []topsv1.Prepull{{ID: "p", Attempt: 1}} }, true},
		{"they are asked for again", func() { n.Spec.Prepulls[0].Attempt++ }, true},
		{"the report is gone", func() { n.Status.Host = nil }, true},
		{"it is gone", func() { n = nil }, true},
	} {
		step.change()
		b.Seen(n.DeepCopy())
		woken := false
		select {
		case <-b.woken:
			woken = true
		default:
		}
		if woken != step.wakes {
			t.Errorf("%s: woken=%t, want %t", step.what, woken, step.wakes)
		}
	}
}

func TestWhatTheHostRefusesIsReported(t *testing.T) {
	n := asking("node-a_driver_prepull")
	n.Spec.Operation.Targets[0].Images = []string{"not an image"}
	b := newBench(t, &fakeCluster{nodeUpgrade: n}, t.TempDir())
	for range 2 {
		if _, err := b.Pass(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.runner.running.Wait()
	}
	if results := b.cluster.nodeUpgrade.Status.Host.Results; len(results) != 1 || results[0].State != topsv1.HostTaskFailed || results[0].Reason != "Invalid" {
		t.Errorf("reported: %+v", results)
	}
}

// TestARestartRunsToItsEnd: it cannot be undone, and the operation that is aborted waits for it.
func TestARestartRunsToItsEnd(t *testing.T) {
	b := newBench(t, &fakeCluster{}, t.TempDir())
	ended := map[string]bool{}
	for _, begun := range hostapi.TasksOf(asking("node-a_driver_prepull", "node-a_node_restart-runtime")) {
		b.runner.underWay[begun.Key()] = attempt{begun, func(error) { ended[begun.Name()] = true }}
	}
	b.runner.endUnrequestedPulls(nil)
	if !ended["driver_prepull"] || ended["node_restart-runtime"] {
		t.Errorf("ended: %v", ended)
	}
}

func TestAnOperationOfABackupIsLeftAlone(t *testing.T) {
	n := asking("node-a_driver_verify")
	n.Status.Operation.StartTime = metav1.NewTime(noon)
	b := newBench(t, &fakeCluster{nodeUpgrade: n}, newHost(t).root)
	last := task.Request{ID: "last", Task: "driver_verify", Since: noon.Add(time.Hour), Verify: true}
	if _, err := b.options.Executor.Execute(t.Context(), last); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.runner.running.Wait()
	if results := b.options.Executor.Results(); len(results) != 1 || results[0].ID != "last" {
		t.Errorf("it has done %+v", results)
	}
}

// unended is a host with a restart that has begun and not ended. Its lock guards all fields.
type unended struct {
	Executor
	mutex     sync.Mutex
	observed  int
	requested int
	fails     error
}

func (u *unended) Unended() []task.Request {
	return []task.Request{{ID: "op", Task: "node_restart-runtime", RestartRuntime: &task.RestartRuntime{DefaultRuntime: "enflame", Observe: true}}}
}

func (u *unended) Execute(ctx context.Context, r task.Request) (task.Result, error) {
	u.mutex.Lock()
	if !r.RestartRuntime.Observe {
		u.requested++
		u.mutex.Unlock()
		return task.Result{}, nil
	}
	u.observed++
	err := u.fails
	u.mutex.Unlock()
	if err == nil {
		<-ctx.Done()
		err = ctx.Err()
	}
	return task.Result{}, err
}

func (u *unended) counts() (observed, requested int) {
	u.mutex.Lock()
	defer u.mutex.Unlock()
	return u.observed, u.requested
}

// A full disk must not make the agent read and log without a pause.
func TestAnObservationThatFailsIsRepeatedAtTheNextPass(t *testing.T) {
	b := newBench(t, &fakeCluster{nodeUpgrade: idle()}, t.TempDir())
	u := &unended{Executor: b.options.Executor, fails: task.ErrNotRecorded}
	b.options.Executor, b.runner.options.Executor = u, u
	for pass := 1; pass <= 2; pass++ {
		if next, err := b.Pass(t.Context()); err != nil || next != attentivePeriod {
			t.Errorf("the next pass is after %s, %v", next, err)
		}
		b.runner.running.Wait()
		if observed, _ := u.counts(); observed != pass {
			t.Errorf("observed %d times in %d passes", observed, pass)
		}
		if len(b.woken) > 0 {
			t.Error("it has woken the loop")
		}
	}
}

func TestARestartThatIsRequestedAgainIsNoLongerOnlyObserved(t *testing.T) {
	b := newBench(t, &fakeCluster{nodeUpgrade: idle()}, t.TempDir())
	u := &unended{Executor: b.options.Executor}
	b.options.Executor, b.runner.options.Executor = u, u
	b.run(t)
	until(t, "it is observed", func() bool { observed, _ := u.counts(); return observed == 1 })
	b.cluster.set(func() { b.cluster.nodeUpgrade = asking("node-a_node_restart-runtime") })
	b.woken.set()
	until(t, "it is requested", func() bool { _, requested := u.counts(); return requested > 0 })
}

// An older CRD drops spec.operation.nodeUID: the operation goes on, as for the operator.
func TestTasksAreThoseOfTheNodeObjectUnlessItIsKnownToBeAnother(t *testing.T) {
	for uid, want := range map[types.UID]int{"node-uid": 1, "": 1, "another": 0} {
		asked := asking("node-a_driver_verify")
		asked.Spec.Operation.NodeUID = uid
		b := newBench(t, &fakeCluster{nodeUpgrade: asked}, t.TempDir())
		if _, tasks, err := b.read(t.Context()); err != nil || len(tasks) != want {
			t.Errorf("of Node %q: tasks %+v, want %d: %v", uid, tasks, want, err)
		}
	}
}
