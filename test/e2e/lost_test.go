package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/test/harness"
)

// nodeThenPod: a node that was lost is back before its pod is Ready again. Its
// slot is held until both are.
func (s *scenarios) nodeThenPod(ctx context.Context, t *testing.T) {
	f := newDaemonSet(ctx, t, s.Cluster, "node-then-pod", rolling("1"))
	o := f.observe(ctx)
	node := s.loseFirst(ctx, f)
	if _, err := s.NodesOn(ctx, node); err != nil {
		t.Fatal(err)
	}
	f.holdsSlot(ctx, node, "the node is Ready and its pod is not")
	f.admit(ctx, "app:2", 1)
	f.goesOn(ctx, node)
	f.setFree(ctx, "app:3")
	f.complete(ctx, "app:3", scenarioNodes)
	atMost(t, o, 1)
}

// podThenNode: the pod of a lost node is Ready before the node is.
func (s *scenarios) podThenNode(ctx context.Context, t *testing.T) {
	f := newDaemonSet(ctx, t, s.Cluster, "pod-then-node", rolling("1"))
	o := f.observe(ctx)
	node := s.loseFirst(ctx, f)
	f.admit(ctx, "app:2", 1)
	f.holdsSlot(ctx, node, "the pod is Ready and its node is not")
	if !isReady(f.on(ctx, node)) {
		t.Fatalf("the pod on %s did not stay Ready, so this shows nothing", node)
	}
	if _, err := s.NodesOn(ctx, node); err != nil {
		t.Fatal(err)
	}
	f.goesOn(ctx, node)
	f.setFree(ctx, "app:3")
	f.complete(ctx, "app:3", scenarioNodes)
	atMost(t, o, 1)
}

// loseFirst rolls a held version out until its first pod runs, and loses that
// pod's node.
func (s *scenarios) loseFirst(ctx context.Context, f *fixture) (node string) {
	f.t.Helper()
	f.halfWay(ctx, "app:2", 0, 1)
	pods, err := f.running(ctx, "app:2")
	if err != nil {
		f.t.Fatal(err)
	}
	node = pods[0].Spec.NodeName
	if _, err := s.NodesOff(ctx, node); err != nil {
		f.t.Fatal(err)
	}
	return node
}

// holdsSlot fails unless one node alone holds a slot and nothing is started.
func (f *fixture) holdsSlot(ctx context.Context, node, while string) {
	f.t.Helper()
	f.staysAs(ctx, f.uids(ctx))
	r, err := f.rollout(ctx)
	if err != nil {
		f.t.Fatal(err)
	}
	if got := nodesOf(r.Status.InFlight); !slices.Equal(got, []string{node}) || r.Status.Updated != 0 || r.Status.SkippedNodes != 0 {
		f.t.Errorf("while %s: in flight %v, %d updated, %d skipped; want %s alone to hold a slot", while, got, r.Status.Updated, r.Status.SkippedNodes, node)
	}
}

// goesOn waits until a node is updated and another one holds the slot.
func (f *fixture) goesOn(ctx context.Context, node string) {
	f.t.Helper()
	f.reaches(ctx, "going on with the next node", func(st *topsv1.DaemonRolloutStatus) bool {
		return st.Updated == 1 && len(st.InFlight) == 1 && st.InFlight[0].Node != node
	})
}

// lastStraggler: one node never gets Ready. The others are done without it, it
// is named, it fails by the deadline, and it may heal.
func (s *scenarios) lastStraggler(ctx context.Context, t *testing.T) {
	s.policy(ctx, t, "straggler", topsv1.UpgradePolicySpec{MaxUnavailable: ptr.To(intstr.FromInt32(3)), ProgressDeadlineSeconds: ptr.To[int32](600)})
	f := newDaemonSet(ctx, t, s.Cluster, "straggler", underPolicy("straggler"))
	o := f.observe(ctx)
	f.halfWay(ctx, "app:2", scenarioNodes-1, 1)
	r := f.reaches(ctx, "waiting for the straggler alone", func(st *topsv1.DaemonRolloutStatus) bool {
		return int(st.Updated) == scenarioNodes-1 && len(st.InFlight) == 1 && st.Pending == 0
	})
	node := r.Status.InFlight[0].Node
	wanted := fmt.Sprintf("1 in flight (%s)", node)
	if c := meta.FindStatusCondition(r.Status.Conditions, topsv1.RolloutProgressing); !strings.Contains(c.Message, wanted) || c.Reason != "RollingOut" {
		t.Errorf("Progressing says %s: %s; want RollingOut with %q", c.Reason, c.Message, wanted)
	}
	if meta.IsStatusConditionTrue(r.Status.Conditions, topsv1.RolloutComplete) {
		t.Errorf("the rollout is complete though %s is not", node)
	}
	// The deadline is short only now, so that no slow machine fails the others.
	s.editPolicy(ctx, t, "straggler", func(spec *topsv1.UpgradePolicySpec) { spec.ProgressDeadlineSeconds = ptr.To[int32](1) })
	r = f.reaches(ctx, "done but for a failed node", func(st *topsv1.DaemonRolloutStatus) bool {
		return len(st.Failed) == 1 && len(st.InFlight) == 0
	})
	if failed := r.Status.Failed[0]; failed.Node != node || failed.Reason != "ProgressDeadlineExceeded" || reasonOf(&r.Status, topsv1.RolloutProgressing) != "NodesFailed" {
		t.Errorf("failed = %+v because %s; want %s because of its deadline", failed, reasonOf(&r.Status, topsv1.RolloutProgressing), node)
	}
	f.admit(ctx, "app:2", 1)
	f.complete(ctx, "app:2", scenarioNodes)
	f.reaches(ctx, "without failures", func(st *topsv1.DaemonRolloutStatus) bool { return len(st.Failed) == 0 && st.FailedNodes == 0 })
	atMost(t, o, 3)
	if replaced := o.Replaced(); replaced != scenarioNodes {
		t.Errorf("%d pods were replaced, want each of %d once", replaced, scenarioNodes)
	}
}

// takesNodesDown: a version takes its nodes down when it starts, before its pods
// are Ready.
func (s *scenarios) takesNodesDown(ctx context.Context, t *testing.T) {
	s.policy(ctx, t, "deadly", deadlyPolicy())
	f := newDaemonSet(ctx, t, s.Cluster, "deadly", underPolicy("deadly"))
	o := f.observe(ctx)
	f.halfWay(ctx, "app:bad", 0, 2)
	s.haltsAndRecovers(ctx, f, o)
}

// takesNodesDownLater: a version takes its nodes down after its pods are Ready.
// minReadySeconds, longer than it takes to notice, holds the slots till then.
func (s *scenarios) takesNodesDownLater(ctx context.Context, t *testing.T) {
	s.policy(ctx, t, "deadly-later", deadlyPolicy())
	f := newDaemonSet(ctx, t, s.Cluster, "deadly-later", underPolicy("deadly-later"))
	o := f.observe(ctx)
	f.readyForAnHour(ctx)
	f.change(ctx, func(ds *appsv1.DaemonSet) {
		ds.Spec.MinReadySeconds = 60
		ds.Spec.Template.Spec.Containers[0].Image = "app:bad"
	})
	f.eventually(ctx, func() error {
		pods, err := f.running(ctx, "app:bad")
		if err == nil && (len(pods) != 2 || !isReady(&pods[0]) || !isReady(&pods[1])) {
			err = fmt.Errorf("%d pods run the bad version, want 2 that are Ready", len(pods))
		}
		return err
	})
	s.haltsAndRecovers(ctx, f, o)
}

// takesUpdatedNodesDown: a version takes its nodes down after they gave their
// slots back. They failed all the same, until they are back.
func (s *scenarios) takesUpdatedNodesDown(ctx context.Context, t *testing.T) {
	s.policy(ctx, t, "deadly-after", topsv1.UpgradePolicySpec{MaxUnavailable: ptr.To(intstr.FromInt32(2))})
	f := newDaemonSet(ctx, t, s.Cluster, "deadly-after", underPolicy("deadly-after"))
	f.setImage(ctx, "app:bad")
	r := f.reaches(ctx, "begun", func(st *topsv1.DaemonRolloutStatus) bool { return st.Updated >= 2 })
	var lost []string
	f.eventually(ctx, func() error {
		pods, err := f.running(ctx, "app:bad")
		lost = lost[:0]
		for i := range pods {
			if node := pods[i].Spec.NodeName; isReady(&pods[i]) && !slices.Contains(nodesOf(r.Status.InFlight), node) && len(lost) < 2 {
				lost = append(lost, node)
			}
		}
		if err == nil && len(lost) < 2 {
			err = fmt.Errorf("%v are updated, want two nodes", lost)
		}
		return err
	})
	if _, err := s.NodesOff(ctx, lost...); err != nil {
		t.Fatal(err)
	}
	f.reaches(ctx, "halted", func(st *topsv1.DaemonRolloutStatus) bool {
		return meta.IsStatusConditionTrue(st.Conditions, topsv1.RolloutHalted) && st.FailedNodes == 2 &&
			!meta.IsStatusConditionTrue(st.Conditions, topsv1.RolloutComplete)
	})
	if _, err := s.NodesOn(ctx, lost...); err != nil {
		t.Fatal(err)
	}
	f.complete(ctx, "app:bad", scenarioNodes)
}

// deadlyPolicy allows two nodes at once, and one of them to be lost for a moment.
func deadlyPolicy() topsv1.UpgradePolicySpec {
	return topsv1.UpgradePolicySpec{
		MaxUnavailable: ptr.To(intstr.FromInt32(2)), LostDeadlineSeconds: ptr.To[int32](2),
		Failure: &topsv1.FailurePolicy{Threshold: ptr.To(intstr.FromInt32(1))},
	}
}

// haltsAndRecovers loses the two nodes that run a bad version. The rollout halts
// and gets no further, a good version goes where it can, and everywhere when the
// nodes are back.
func (s *scenarios) haltsAndRecovers(ctx context.Context, f *fixture, o *harness.Observer) {
	f.t.Helper()
	bad, err := f.running(ctx, "app:bad")
	if err != nil {
		f.t.Fatal(err)
	}
	lost := []string{bad[0].Spec.NodeName, bad[1].Spec.NodeName}
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
	f.staysAs(ctx, f.uids(ctx))
	if replaced := o.Replaced(); replaced != 2 || o.Most() != 2 {
		f.t.Errorf("the bad version replaced %d pods and took %d nodes down at once, want 2", replaced, o.Most())
	}

	f.change(ctx, func(ds *appsv1.DaemonSet) {
		ds.Spec.MinReadySeconds = 0
		ds.Spec.Template.Spec.Containers[0].Image = "app:good"
		delete(ds.Spec.Template.Labels, behaviourLabel)
	})
	f.reaches(ctx, "good where it can be", func(st *topsv1.DaemonRolloutStatus) bool {
		return int(st.Updated) == scenarioNodes-2 && st.SkippedNodes == 2 && reasonOf(st, topsv1.RolloutProgressing) == "CompleteExceptOffline"
	})
	if most := o.MostOf(s.nodesWithout(lost)...); most > 2 {
		f.t.Errorf("%d of the nodes that are left were down at once, allowed are 2", most)
	}
	if _, err := s.NodesOn(ctx, lost...); err != nil {
		f.t.Fatal(err)
	}
	f.complete(ctx, "app:good", scenarioNodes)
	if replaced := o.Replaced(); replaced != scenarioNodes+2 {
		f.t.Errorf("%d pods were replaced, want the 2 bad ones twice and the %d others once", replaced, scenarioNodes-2)
	}
}

// nodesWithout returns the names of the nodes that are not among some.
func (s *scenarios) nodesWithout(some []string) []string {
	var names []string
	for i := 1; i <= scenarioNodes; i++ {
		if name := fmt.Sprintf("node-%04d", i); !slices.Contains(some, name) {
			names = append(names, name)
		}
	}
	return names
}
