package e2e

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/test/harness"
	"github.com/topsops/gcu-operator/test/need"
)

const (
	// outageNodes is the number of nodes of an outage, outageBudget how many of them may be
	// unavailable.
	outageNodes  = 20
	outageBudget = 2
	// apiServerAway is how long the API server is away. The simulated kubelets need a minute more
	// until they remove pods again, which must not use up the progress deadline.
	apiServerAway = 130 * time.Second
	// kubeletPause is how long after its end a manager is started again.
	kubeletPause = 2 * time.Second
)

// outage is a story in which the control plane or a manager fails during a rollout.
type outage struct {
	name string
	// alone: there is one manager without a lease. With one, it would be lost in an outage of
	// ten seconds, and a manager that is started again has forgotten everything.
	alone bool
	// deadline is the progress deadline of the policy.
	deadline time.Duration
	// ready is how long a new pod takes to be Ready.
	ready time.Duration
	// tell makes it happen, in the middle of the rollout.
	tell func(p *runningOutage, ctx context.Context)
}

var outages = []outage{
	{"the API server is away for longer than the progress deadline", false, apiServerAway - 10*time.Second, 4 * time.Second, (*runningOutage).loseAPIServer},
	{"etcd is restored from a backup", true, 2 * time.Minute, 3 * time.Second, (*runningOutage).restoreEtcd},
	{"the controller manager is frozen", false, 90 * time.Second, 3 * time.Second, (*runningOutage).freezeControllers},
}

// TestOutages runs the outages one after the other; make long does. At the end of each,
// every node is at the target, none was called failed at any time, and no more than the
// budget were down at once.
func TestOutages(t *testing.T) {
	for _, o := range outages {
		t.Run(o.name, func(t *testing.T) {
			s, ctx := enterOf(t, fragile)
			s.endure(ctx, t, o)
		})
	}
}

// TestALeaderThatIsFrozenStepsDownWithinTheBudget freezes the leader for longer than its
// lease, in make long for a minute.
func TestALeaderThatIsFrozenStepsDownWithinTheBudget(t *testing.T) {
	s, ctx := enterAlone(t)
	if err := s.Install(ctx); err != nil {
		t.Fatal(err)
	}
	o := outage{"the leader is frozen for longer than its lease", false, 2 * time.Minute, 4 * time.Second, (*runningOutage).freezeLeader}
	if need.Long() {
		o.ready = 8 * time.Second // the rollout must not end before the minute
	}
	s.endure(ctx, t, o)
}

// prepareFragile installs the operator on a cluster for outages.
func (c *controlPlane) prepareFragile(ctx context.Context) error {
	return errors.Join(c.cluster.Install(ctx), c.assignStages(ctx, 1))
}

// runningOutage is an outage under way.
type runningOutage struct {
	*fixture
	stage *stage
	// leader is the manager that decides, spare waits for its lease; nil if there is none.
	leader, spare *kubelet
	observer      *harness.Observer
}

// endure rolls out a version, with the outage in the middle of it.
func (s *stage) endure(ctx context.Context, t *testing.T, o outage) {
	t.Helper()
	s.nodes = nil
	for i := range outageNodes {
		s.nodes = append(s.nodes, nodeName(i))
	}
	p := &runningOutage{stage: s, leader: s.keepManager(ctx, t, fmt.Sprintf("--leader-elect=%t", !o.alone))}
	s.policy(ctx, t, "outage", topsv1.UpgradePolicySpec{MaxUnavailable: ptr.To(intstr.FromInt32(outageBudget)),
		ProgressDeadlineSeconds: ptr.To(int32(o.deadline.Seconds()))})
	p.fixture = newDaemonSet(ctx, t, s, "outage", s.underPolicy("outage"), func(ds *appsv1.DaemonSet) {
		ds.Spec.Template.Spec.NodeSelector = nil
		ds.Spec.Template.Annotations = map[string]string{"testcluster/pod-ready-delay": o.ready.String()}
	})
	if !o.alone {
		p.spare = s.keepManager(ctx, t)
	}
	p.observer = p.observe(ctx)
	failures := p.watchFailures(ctx)
	p.setImage(ctx, "app:2")
	p.reaches(ctx, "under way", func(st *topsv1.DaemonRolloutStatus) bool { return st.Updated >= 3 && len(st.InFlight) > 0 })
	begun := time.Now()
	o.tell(p, ctx)
	t.Logf("%s: over after %s", o.name, time.Since(begun).Round(time.Second))
	p.complete(ctx, "app:2", outageNodes)
	t.Logf("complete after %s; most nodes down at once: %d; the first manager was started again %d times",
		time.Since(begun).Round(time.Second), p.observer.Most(), p.leader.started())
	atMost(t, p.observer, outageBudget)
	for _, failure := range failures() {
		t.Errorf("called failed: %s", failure)
	}
}

// loseAPIServer kills the API server for longer than the progress deadline. The
// controllers are started again with it: in a cluster they exit when they lose their
// leases. So are the kubelets, which would try to reach it a minute later only.
func (p *runningOutage) loseAPIServer(ctx context.Context) {
	p.do(p.stage.KillComponents(ctx, harness.APIServer))
	p.pass(ctx, apiServerAway)
	p.do(p.stage.KillComponents(ctx, harness.ControllerManager, harness.Scheduler, harness.Kubelets))
	p.do(p.stage.StartComponents(ctx, harness.APIServer))
	p.lookAgain(ctx)
	p.do(p.stage.StartComponents(ctx, harness.ControllerManager, harness.Scheduler, harness.Kubelets))
}

// restoreEtcd restores a backup that is some nodes old, and starts the rest of the
// control plane again, as the procedure requires. The managers go on.
func (p *runningOutage) restoreEtcd(ctx context.Context) {
	backup := filepath.Join(p.t.TempDir(), "etcd")
	at, err := p.rollout(ctx)
	p.do(errors.Join(err, p.stage.BackUp(ctx, backup)))
	later := p.reaches(ctx, "further", func(st *topsv1.DaemonRolloutStatus) bool {
		return st.Updated >= at.Status.Updated+4 && len(st.InFlight) > 0
	})
	p.t.Logf("restoring %d updated nodes and resourceVersion %s; now %d and %s", at.Status.Updated, at.ResourceVersion, later.Status.Updated, later.ResourceVersion)
	p.do(p.stage.KillComponents(ctx, harness.ControllerManager, harness.Scheduler, harness.Kubelets, harness.APIServer, harness.Etcd))
	p.do(p.stage.Restore(backup))
	p.do(p.stage.StartComponents(ctx, harness.Etcd, harness.APIServer))
	p.lookAgain(ctx)
	p.do(p.stage.StartComponents(ctx, harness.ControllerManager, harness.Scheduler, harness.Kubelets))
}

// freezeLeader suspends the leader until another manager has worked for a while. It must
// step down when it goes on.
func (p *runningOutage) freezeLeader(ctx context.Context) {
	before, err := p.rollout(ctx)
	p.do(err)
	p.do(p.leader.now().Freeze())
	begun := time.Now()
	p.reaches(ctx, "under way without the first leader", func(st *topsv1.DaemonRolloutStatus) bool { return st.Updated >= before.Status.Updated+4 })
	p.t.Logf("the second manager took over and updated 4 nodes within %s", time.Since(begun).Round(time.Second))
	if need.Long() {
		p.pass(ctx, time.Minute-time.Since(begun))
	}
	p.do(p.leader.now().Thaw())
	thawed := time.Now()
	p.eventually(ctx, func() error {
		if p.leader.started() == 0 {
			return errors.New("the first leader has not stepped down")
		}
		return nil
	})
	p.t.Logf("it stepped down and was started again %s after it went on", time.Since(thawed).Round(100*time.Millisecond))
	if r, err := p.rollout(ctx); err != nil || int(r.Status.Updated) == outageNodes {
		p.t.Errorf("the rollout was over when the first leader went on, so the test is inconclusive (%v)", err)
	}
}

// freezeControllers suspends the controller manager: no pod is created meanwhile.
func (p *runningOutage) freezeControllers(ctx context.Context) {
	p.do(p.stage.FreezeComponents(ctx, harness.ControllerManager))
	p.pass(ctx, time.Minute)
	if r, err := p.rollout(ctx); err != nil || len(r.Status.InFlight) != outageBudget {
		p.t.Errorf("%d nodes are in flight (%v), want the budget of %d", len(r.Status.InFlight), err, outageBudget)
	}
	p.do(p.stage.ThawComponents(ctx, harness.ControllerManager))
}

func (p *runningOutage) do(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

// pass lets time pass: the outage itself takes it.
func (p *runningOutage) pass(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// lookAgain waits until the API server answers, and observes the pods anew: the first
// observer's cache waits before it reads again, and may be from the future.
func (p *runningOutage) lookAgain(ctx context.Context) {
	p.t.Helper()
	p.eventually(ctx, func() error { _, err := p.rollout(ctx); return err })
	atMost(p.t, p.observer, outageBudget)
	p.observer = p.observe(ctx)
}

// failurePoll is how often the status is read for failures.
const failurePoll = 100 * time.Millisecond

// watchFailures reads the status of the rollout until the returned function is called,
// which returns every failure that it showed.
func (f *fixture) watchFailures(ctx context.Context) func() []string {
	ctx, cancel := context.WithCancel(ctx)
	seen, done := map[string]bool{}, make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			if r, err := f.rollout(ctx); err == nil {
				for _, failed := range r.Status.Failed {
					seen[fmt.Sprintf("%s %s: %s", failed.Node, failed.Reason, failed.Message)] = true
				}
			}
			select {
			case <-ctx.Done():
			case <-time.After(failurePoll):
			}
		}
	}()
	f.t.Cleanup(cancel)
	return func() []string {
		cancel()
		<-done
		var list []string
		for failure := range seen {
			list = append(list, failure)
		}
		return list
	}
}

// kubelet runs a manager, and starts it again when it has ended.
type kubelet struct {
	mu      sync.Mutex
	manager *harness.Process
	again   int
}

// keepManager starts a manager that is kept running until the test ends.
func (s *stage) keepManager(ctx context.Context, t *testing.T, args ...string) *kubelet {
	t.Helper()
	manager, err := s.StartManager(ctx, args...)
	if err != nil {
		t.Fatal(err)
	}
	k := &kubelet{manager: manager}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		k.keep(ctx, t, s)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
		if err := k.now().Stop(); err != nil {
			t.Error(err)
		}
	})
	return k
}

func (k *kubelet) keep(ctx context.Context, t *testing.T, s *stage) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(kubeletPause):
		}
		if !k.now().Ended() {
			continue
		}
		again, err := s.Again(k.now())
		if err != nil {
			t.Errorf("starting the manager again: %v", err)
			return
		}
		k.mu.Lock()
		k.manager = again
		k.again++
		k.mu.Unlock()
	}
}

// now is the present process.
func (k *kubelet) now() *harness.Process {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.manager
}

// started returns how often the manager was started again.
func (k *kubelet) started() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.again
}
