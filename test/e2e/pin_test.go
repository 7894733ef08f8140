package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// Two nodes fail at a version, are rolled back individually, and stay there, while the other nodes get it: whatever becomes of
// their pods and of the manager, until a person or another version ends that.
func TestTwoFailedNodesGoBackAloneWhileTheFleetGoesOn(t *testing.T) {
	s, ctx := withGate(t)
	manager := s.startManager(ctx, t, "--gate")
	s.policy(ctx, t, "back", topsv1.UpgradePolicySpec{ProgressDeadlineSeconds: ptr.To[int32](20), ProbationSeconds: ptr.To[int32](0),
		Failure: &topsv1.FailurePolicy{Action: topsv1.FailureRollbackNode, Threshold: ptr.To(intstr.FromInt32(4))}})
	annotations := rolling("2")
	annotations[topsv1.AnnotationUpgradePolicy] = s.name("back")
	f := newDaemonSet(ctx, t, s, "back", annotations)
	f.settles(ctx)
	o := f.observe(ctx)

	f.setHeld(ctx, "app:2") // on no node it becomes Ready by itself
	back := f.reaches(ctx, "two nodes are back", func(st *topsv1.DaemonRolloutStatus) bool { return len(st.Pinned) == 2 && st.PinnedNodes == 2 })
	pinned := []string{back.Status.Pinned[0].Node, back.Status.Pinned[1].Node}
	isPinned := func(node string) bool { return slices.Contains(pinned, node) }
	f.admitWhere(ctx, "app:2", stageNodes-2, func(node string) bool { return !isPinned(node) })
	f.reaches(ctx, "the others are done", func(st *topsv1.DaemonRolloutStatus) bool {
		return st.Updated == stageNodes-2 && reasonOf(st, topsv1.RolloutProgressing) == topsv1.ReasonNodesPinned
	})
	atMost(t, o, 2)
	for _, node := range pinned {
		if image := f.podOn(ctx, node).Spec.Containers[0].Image; image != "app:1" {
			t.Errorf("%s has %s", node, image)
		}
	}
	text, err := get(ctx, manager.URL+"/metrics")
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf(`gcu_rollout_nodes{rollout="default/%s",state="pinned"} 2`, f.name); !strings.Contains(text, want) {
		t.Errorf("/metrics has no %s", want)
	}

	f.dies(ctx, pinned[0], "app:1")
	manager.Kill()
	old := f.podOn(ctx, pinned[1])
	if err := s.Client.Delete(ctx, old); err != nil {
		t.Fatal(err)
	}
	f.waitsAtTheGate(ctx, pinned[1])
	s.startManager(ctx, t, "--gate")
	f.comesBack(ctx, pinned[1], "app:1", old)

	task := f.name + "_replace"
	t.Cleanup(func() {
		for _, node := range s.nodes {
			s.forget(ctx, t, node)
		}
	})
	s.gcu(ctx, t, s.Kubeconfig, 0, []string{"is done"}, "task", "retry", pinned[0], task, "--wait")
	f.admitOn(ctx, "app:2", pinned[0])
	f.reaches(ctx, "one has the version after all", func(st *topsv1.DaemonRolloutStatus) bool { return st.Updated == stageNodes-1 && len(st.Pinned) == 1 })
	s.gcu(ctx, t, s.Kubeconfig, 0, []string{"is done"}, "task", "undo", pinned[0], task, "--wait")
	if image := f.podOn(ctx, pinned[0]).Spec.Containers[0].Image; image != "app:1" {
		t.Errorf("after undo %s has %s", pinned[0], image)
	}

	f.setFree(ctx, "app:3")
	f.complete(ctx, "app:3", stageNodes)
	f.settles(ctx)
	after := f.reaches(ctx, "nothing is pinned, and the version is known to be good", func(st *topsv1.DaemonRolloutStatus) bool {
		return st.PinnedNodes == 0 && len(st.Pinned) == 0 && st.LastKnownGood.Revision == st.Revision
	})
	if n := after.Status.FailedNodes; n != 0 {
		t.Errorf("%d nodes count as failed", n)
	}

	// The floor of the policy: what was made before it does not come back.
	s.editPolicy(ctx, t, "back", func(spec *topsv1.UpgradePolicySpec) {
		spec.Failure.RollbackNotBefore = ptr.To(after.Status.LastKnownGood.Since)
	})
	said := s.gcu(ctx, t, s.Kubeconfig, 3, nil, "task", "undo", pinned[0], task, "--wait")
	if !strings.Contains(said, "rollbackNotBefore") {
		t.Errorf("undo below the floor says %s", said)
	}
	f.dies(ctx, pinned[0], "app:3")
}

// A driver crashes on the first node of an upgrade: the rollout halts, and an operation brings that node back to the
// driver before, on an empty node, and into service, though no other node changes.
func TestADriverThatFailsGoesBackAloneByAnOperation(t *testing.T) {
	s, ctx := withGate(t)
	s.startManager(ctx, t, "--gate")
	s.startAgents(ctx, t)
	policy := soon()
	policy.Failure = &topsv1.FailurePolicy{Action: topsv1.FailureRollbackNode, Threshold: ptr.To(intstr.FromInt32(1))}
	bad := s.crashing()
	d := s.newDrivers(ctx, t, "driver-back", policy)
	d.training(ctx, 3, 2)
	d.upgrade(ctx, bad)
	var pin topsv1.NodePin
	d.reaches(ctx, "back on one node", func(r *topsv1.DaemonRolloutStatus) bool {
		if r.PinnedNodes != 1 || r.InFlightNodes != 0 || len(r.Pinned) != 1 || !meta.IsStatusConditionTrue(r.Conditions, topsv1.RolloutHalted) {
			return false
		}
		pin = r.Pinned[0]
		return true
	})
	d.givenBack(ctx)
	s.keep(ctx, t, "halted.yaml", nil)
	for node, pod := range d.podsByNode(ctx, "app.kubernetes.io/name", d.name+"-driver") {
		if image := pod.Spec.Containers[0].Image; !hasTag(image, "v1") {
			t.Errorf("the driver of %s has image %s", node, image)
		}
	}
	var phases []topsv1.OperationPhase
	for _, ended := range d.endedOperations(ctx)[pin.Node] {
		phases = append(phases, ended.Phase)
	}
	if n := len(phases); n < 2 || phases[n-2] != topsv1.OperationFailed || phases[n-1] != topsv1.OperationDone {
		t.Errorf("the operations of %s ended %v", pin.Node, phases)
	}

	if err := s.Client.Patch(ctx, &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: d.name}},
		client.RawPatch(types.MergePatchType, []byte(`{"spec":{"driver":{"version":"v2"}}}`))); err != nil {
		t.Fatal(err)
	}
	d.reaches(ctx, "complete", func(r *topsv1.DaemonRolloutStatus) bool {
		return complete(r) && r.Updated == stageNodes && len(r.Pinned) == 0
	})
	d.givenBack(ctx)
}
