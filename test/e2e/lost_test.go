package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/test/harness"
)

// A node that goes offline after it was started keeps its slot until both the node and
// its pod are Ready, in either order.
func TestANodeLostAfterItWasTouchedKeepsItsSlot(t *testing.T) {
	s, ctx := enter(t)
	f := newDaemonSet(ctx, t, s, "lost", rolling("1"))
	o := f.observe(ctx)
	f.halfWay(ctx, "app:2", 0, 1)
	node := f.loseStarted(ctx)
	f.hasSlot(ctx, node, 0, "the node is offline and its pod is not Ready")
	if _, err := s.NodesOn(ctx, node); err != nil {
		t.Fatal(err)
	}
	f.hasSlot(ctx, node, 0, "the node is Ready and its pod is not")
	f.admitOn(ctx, "app:2", node)
	f.isAt(ctx, "app:2", 1, 1)

	node = f.loseStarted(ctx)
	f.admitOn(ctx, "app:2", node)
	f.hasSlot(ctx, node, 1, "the pod is Ready and its node is not")
	if !isReady(f.on(ctx, node)) {
		t.Fatalf("the pod on %s did not stay Ready, so the test is inconclusive", node)
	}
	if _, err := s.NodesOn(ctx, node); err != nil {
		t.Fatal(err)
	}
	f.isAt(ctx, "app:2", 2, 1)
	f.setFree(ctx, "app:3")
	f.complete(ctx, "app:3", stageNodes)
	atMost(t, o, 1)
}

// loseStarted takes the only node in flight offline.
func (f *fixture) loseStarted(ctx context.Context) string {
	f.t.Helper()
	r := f.reaches(ctx, "busy with one node", func(st *topsv1.DaemonRolloutStatus) bool { return len(st.InFlight) == 1 })
	node := r.Status.InFlight[0].Node
	if _, err := f.stage.NodesOff(ctx, node); err != nil {
		f.t.Fatal(err)
	}
	return node
}

// hasSlot fails unless node has the only slot and nothing else is started.
func (f *fixture) hasSlot(ctx context.Context, node string, updated int32, while string) {
	f.t.Helper()
	f.undisturbed(ctx, f.uids(ctx))
	r, err := f.rollout(ctx)
	if err != nil {
		f.t.Fatal(err)
	}
	if got := r.Status.InFlight; len(got) != 1 || got[0].Node != node || r.Status.Updated != updated || r.Status.SkippedNodes != 0 {
		f.t.Errorf("while %s: in flight %+v, %d updated, %d skipped; want only %s to have a slot", while, got, r.Status.Updated, r.Status.SkippedNodes, node)
	}
}

// One node never becomes Ready. The others are upgraded, the message names it, it fails
// at its deadline, and it can recover.
func TestTheLastStragglerIsNamedFailsAndHeals(t *testing.T) {
	s, ctx := enter(t)
	s.policy(ctx, t, "straggler", topsv1.UpgradePolicySpec{MaxUnavailable: ptr.To(intstr.FromInt32(3)), ProgressDeadlineSeconds: ptr.To[int32](600)})
	f := newDaemonSet(ctx, t, s, "straggler", s.underPolicy("straggler"))
	o := f.observe(ctx)
	f.halfWay(ctx, "app:2", stageNodes-1, 1)
	r := f.reaches(ctx, "waiting for the straggler alone", func(st *topsv1.DaemonRolloutStatus) bool {
		return int(st.Updated) == stageNodes-1 && len(st.InFlight) == 1 && st.Pending == 0
	})
	node := r.Status.InFlight[0].Node
	wanted := fmt.Sprintf("1 in flight (%s)", node)
	if c := meta.FindStatusCondition(r.Status.Conditions, topsv1.RolloutProgressing); !strings.Contains(c.Message, wanted) || c.Reason != "RollingOut" {
		t.Errorf("Progressing says %s: %s; want RollingOut with %q", c.Reason, c.Message, wanted)
	}
	if meta.IsStatusConditionTrue(r.Status.Conditions, topsv1.RolloutComplete) {
		t.Errorf("the rollout is complete though %s is not", node)
	}
	// The deadline was long until now, so that the others do not fail on a slow machine.
	s.editPolicy(ctx, t, "straggler", func(spec *topsv1.UpgradePolicySpec) { spec.ProgressDeadlineSeconds = ptr.To[int32](1) })
	r = f.reaches(ctx, "done except for a failed node", func(st *topsv1.DaemonRolloutStatus) bool {
		return len(st.Failed) == 1 && len(st.InFlight) == 0
	})
	if failed := r.Status.Failed[0]; failed.Node != node || failed.Reason != "ProgressDeadlineExceeded" || reasonOf(&r.Status, topsv1.RolloutProgressing) != "NodesFailed" {
		t.Errorf("failed = %+v because %s; want %s because of its deadline", failed, reasonOf(&r.Status, topsv1.RolloutProgressing), node)
	}
	f.admit(ctx, "app:2", 1)
	f.complete(ctx, "app:2", stageNodes)
	f.reaches(ctx, "without failures", func(st *topsv1.DaemonRolloutStatus) bool { return len(st.Failed) == 0 && st.FailedNodes == 0 })
	atMost(t, o, 3)
	if replaced := o.Replaced(); replaced != stageNodes {
		t.Errorf("%d pods were replaced, want each of %d once", replaced, stageNodes)
	}
}

// A version kills its nodes as soon as its pods are available, long before Kubernetes notices.
// The nodes are on probation until their next heartbeat, which never comes: no others are started.
func TestAVersionThatTakesNodesDownHaltsWithinTheBudget(t *testing.T) {
	s, ctx := enter(t)
	s.policy(ctx, t, "deadly", deadlyPolicy())
	f := newDaemonSet(ctx, t, s, "deadly", s.underPolicy("deadly"))
	o := f.observe(ctx)
	f.readyForAnHour(ctx)
	f.halfWay(ctx, "app:bad", 0, 2)
	// The pods are held until no heartbeat can come after them.
	for _, node := range f.nodesRunning(ctx, "app:bad") {
		if err := s.SetOnline(ctx, node, false); err != nil {
			t.Fatal(err)
		}
	}
	f.admit(ctx, "app:bad", 2)
	s.haltsAndRecovers(ctx, f, o)
}

// deadlyPolicy allows two nodes at once, and counts a node that is lost at once as failed.
func deadlyPolicy() topsv1.UpgradePolicySpec {
	return topsv1.UpgradePolicySpec{
		MaxUnavailable: ptr.To(intstr.FromInt32(2)), LostDeadlineSeconds: ptr.To[int32](30), UnavailableSeconds: ptr.To[int32](1),
		Failure: &topsv1.FailurePolicy{Threshold: ptr.To(intstr.FromInt32(1))},
	}
}

// haltsAndRecovers takes the two nodes with a bad version offline. The rollout halts; a
// good version is rolled out to the reachable nodes, and to all when the nodes are
// back.
func (s *stage) haltsAndRecovers(ctx context.Context, f *fixture, o *harness.Observer) {
	f.t.Helper()
	lost := f.nodesRunning(ctx, "app:bad")
	if _, err := s.NodesOff(ctx, lost...); err != nil {
		f.t.Fatal(err)
	}
	r := f.reaches(ctx, "halted", func(st *topsv1.DaemonRolloutStatus) bool {
		return meta.IsStatusConditionTrue(st.Conditions, topsv1.RolloutHalted) && st.FailedNodes == 2
	})
	for _, failed := range r.Status.Failed {
		if failed.Reason != "NodeLost" || !slices.Contains(lost, failed.Node) {
			f.t.Errorf("failed = %+v, want one of %v because it was lost", failed, lost)
		}
	}
	f.undisturbed(ctx, f.uids(ctx))
	if replaced := o.Replaced(); replaced != 2 || o.Most() != 2 {
		f.t.Errorf("the bad version replaced %d pods and took %d nodes down at once, want 2", replaced, o.Most())
	}

	f.setFree(ctx, "app:good")
	f.reaches(ctx, "done on the reachable nodes", func(st *topsv1.DaemonRolloutStatus) bool {
		return int(st.Updated) == stageNodes-2 && st.SkippedNodes == 2 && reasonOf(st, topsv1.RolloutProgressing) == "CompleteExceptOffline"
	})
	if most := o.MostOf(s.nodesWithout(lost)...); most > 2 {
		f.t.Errorf("%d of the other nodes were down at once, at most 2 are allowed", most)
	}
	if _, err := s.NodesOn(ctx, lost...); err != nil {
		f.t.Fatal(err)
	}
	f.complete(ctx, "app:good", stageNodes)
	if replaced := o.Replaced(); replaced != stageNodes+2 {
		f.t.Errorf("%d pods were replaced, want the 2 bad ones twice and the %d others once", replaced, stageNodes-2)
	}
}
