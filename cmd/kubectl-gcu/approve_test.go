package main

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

func TestApproveAWave(t *testing.T) {
	s := newSite(t)
	s.create(&topsv1.UpgradePolicy{ObjectMeta: metav1.ObjectMeta{Name: "waves-policy"}, Spec: topsv1.UpgradePolicySpec{Waves: []topsv1.Wave{
		{Name: "canary", Selector: &metav1.LabelSelector{}}, {Name: "main", Selector: &metav1.LabelSelector{}, Approval: topsv1.ApprovalManual}}}})
	s.gr("waving", topsv1.AnnotationUpgradePolicy, "waves-policy")
	s.says(s.gcu("approve", "waving", "main"), exitRefused, "gr waving has no rollout")
	dro := s.rollout("waving", topsv1.DaemonRolloutStatus{Revision: "r1", Waves: []topsv1.WaveStatus{
		{Name: "canary", Total: 1}, {Name: "main", Total: 5}, {Name: "rest"}}})
	s.says(s.gcu("approve", "waving", "main"), exitRefused, "is NotReached; no wave waits")
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
