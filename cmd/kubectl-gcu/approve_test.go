package main

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcucli/dashboard"
	"github.com/topsops/gcu-operator/pkg/upgradeplan/planfile"
)

func TestApproveAWave(t *testing.T) {
	s := newSite(t)
	s.create(&topsv1.UpgradePolicy{ObjectMeta: metav1.ObjectMeta{Name: "waves-policy"}, Spec: topsv1.UpgradePolicySpec{Waves: []topsv1.Wave{
		{Name: "canary", Selector: &metav1.LabelSelector{}}, {Name: "main", Selector: &metav1.LabelSelector{}, Approval: topsv1.ApprovalManual}}}})
	s.daemonSet(s.gr("waving", topsv1.AnnotationUpgradePolicy, "waves-policy", topsv1.AnnotationUpdateStrategy, "AdvancedRollingUpdate"))
	s.says(s.gcu("approve", "waving", "main"), exitRefused, "there is no DaemonRollout of gr waving in namespace kube-system", "it has not been made yet")
	dro := s.rollout("waving", topsv1.DaemonRolloutStatus{Revision: "r1", Waves: []topsv1.WaveStatus{
		{Name: "canary", Total: 1}, {Name: "main", Total: 5}, {Name: "rest"}}})
	s.says(s.gcu("approve", "waving", "main"), exitRefused, "is NotReached; no wave waits")
	s.says(s.gcu("approve", "waving", "main", "-n", "default"), exitRefused, "there is no DaemonRollout of gr waving in namespace default")
	s.says(s.gcu("approve", "waving", "-n", "default"), exitRefused, "there is no DaemonRollout of gr waving in namespace default")
	dro.Status.Waves[0].CompletedTime = ptr.To(metav1.Now())
	if err := s.Status().Update(t.Context(), dro); err != nil {
		t.Fatal(err)
	}
	s.says(s.gcu("approve", "waving"), exitOK, "wave main waits", "missing")
	s.says(s.gcu("approve", "waving", "main"), exitOK, "wave main of gr waving is approved for revision r1")
	s.says(s.gcu("approve", "waving", "main"), exitOK, "already")
	s.read(dro)
	if got := dro.Annotations[topsv1.AnnotationApprovedWaves]; got != "r1/main" {
		t.Errorf("annotation is %q", got)
	}
	onlyOursWrote(t, dro, topsv1.AnnotationApprovedWaves)
}

// Who names a batch approves no wave, and reads what was approved. A wave is all of its batches.
func TestApproveABatch(t *testing.T) {
	s := newSite(t)
	s.create(&topsv1.UpgradePolicy{ObjectMeta: metav1.ObjectMeta{Name: "batched-policy"}, Spec: topsv1.UpgradePolicySpec{Waves: []topsv1.Wave{
		{Name: "main", Selector: &metav1.LabelSelector{}, Approval: topsv1.ApprovalManual}}}})
	plan := &topsv1.UpgradePlan{ObjectMeta: metav1.ObjectMeta{Name: "batched-plan"}, Spec: topsv1.UpgradePlanSpec{GcuResource: "batched", Revision: "r1",
		Jobs:    []topsv1.PlannedJob{{Name: "j", Stages: []topsv1.PlannedStage{{"driver_replace"}}}},
		Batches: []topsv1.PlannedBatch{{Name: "one", Approval: topsv1.ApprovalManual, Jobs: []topsv1.PlannedNodes{{Job: "j", Nodes: []string{"batched-1"}}}}}}}
	s.create(plan)
	s.gr("batched", topsv1.AnnotationUpgradePolicy, "batched-policy", topsv1.AnnotationUpgradePlan, "batched-plan")
	dro := s.rollout("batched", topsv1.DaemonRolloutStatus{Revision: "r1", Waves: []topsv1.WaveStatus{
		{Name: "main/batched-plan/one", Total: 4, Updated: 1}, {Name: "main/batched-plan/rest", Total: 2}, {Name: "rest/batched-plan/rest", Total: 9}}})
	s.says(s.gcu("approve", "batched", "two"), exitRefused, `no wave "two"`, "does not follow plan batched-plan yet: repeat the command in a moment")
	s.says(s.gcu("approve", "batched", "one"), exitRefused, "main/batched-plan/one waits for the approval of wave main: approve that first")
	if s.read(dro); dro.Annotations[topsv1.AnnotationApprovedWaves] != "" {
		t.Errorf("approved is %q", dro.Annotations[topsv1.AnnotationApprovedWaves])
	}
	source := &source{live: clusterOf(t, s)}
	for target, want := range map[string]int{"main": 5, "main/batched-plan/one": 3} {
		would, err := source.predict(t.Context(), dashboard.Action{Verb: dashboard.Approve, GR: "batched", Target: target})
		if err != nil || would.Nodes == nil || *would.Nodes != want {
			t.Errorf("approving %s is about %+v, %v", target, would, err)
		}
	}
	s.says(s.gcu("approve", "batched", "main"), exitOK, "wave main of gr batched is approved for revision r1")
	button := dashboard.Action{Verb: dashboard.Approve, GR: "batched", Target: "one"}
	would, err := source.DryRun(t.Context(), button)
	if err != nil {
		t.Fatal(err)
	}
	s.read(dro)
	dro.Status.LimitedTo = "plan=" + planfile.Version(plan) // it follows the plan as it is, which was edited since
	if err := s.Status().Update(t.Context(), dro); err != nil {
		t.Fatal(err)
	}
	button.Seen = would.Seen
	if said, err := source.Do(t.Context(), button); err == nil || !strings.Contains(err.Error(), "dro batched has changed since you were shown") {
		t.Errorf("a button approves a batch of a plan that was edited since: %s, %v", said, err)
	}
	s.says(s.gcu("approve", "batched", "one"), exitOK, "wave main/batched-plan/one of gr batched is approved for revision r1")
	s.read(dro)
	dro.Status.LimitedTo = "plan=batched-plan another/2" // somebody edited it since it was read
	if err := s.Status().Update(t.Context(), dro); err != nil {
		t.Fatal(err)
	}
	s.says(s.gcu("approve", "batched", "one"), exitRefused, "its rollout follows another version of plan batched-plan")
}
