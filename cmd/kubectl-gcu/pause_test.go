package main

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

func TestPauseAndResume(t *testing.T) {
	s := newSite(t)
	gr := s.gr("pausing", "example.com/mine", "stays")
	s.says(s.gcu("pause", "pausing"), exitOK, "gr pausing is paused", "kubectl gcu resume pausing")
	s.read(gr)
	if gr.Annotations[topsv1.AnnotationPaused] != "true" || gr.Annotations["example.com/mine"] != "stays" {
		t.Errorf("annotations are %v", gr.Annotations)
	}
	onlyOursWrote(t, gr, topsv1.AnnotationPaused)
	before := gr.ResourceVersion
	s.says(s.gcu("pause", "pausing"), exitOK, "is already paused")
	s.read(gr)
	if gr.ResourceVersion != before {
		t.Error("pausing what is paused was a write")
	}
	s.says(s.gcu("resume", "pausing"), exitOK, "is no longer paused")
	s.read(gr)
	if _, is := gr.Annotations[topsv1.AnnotationPaused]; is || gr.Annotations["example.com/mine"] != "stays" {
		t.Errorf("annotations are %v", gr.Annotations)
	}
	s.says(s.gcu("resume", "pausing"), exitOK, "there is nothing to resume")
	s.says(s.gcu("pause", "missing"), exitRefused, "there is no gr missing")
}

// What only the rollout says is not denied where the rollout cannot be found.
func TestResumeSaysThatItFindsNoRollout(t *testing.T) {
	s := newSite(t)
	gr := s.gr("unseen", topsv1.AnnotationPaused, "true", topsv1.AnnotationUpdateStrategy, "AdvancedRollingUpdate")
	s.daemonSet(gr)
	s.says(s.gcu("resume", "unseen"), exitOK, "gr unseen is no longer paused", "there is no DaemonRollout of gr unseen in namespace kube-system", "whether nodes failed is not known")
	s.says(s.gcu("resume", "unseen"), exitRefused, "there is no DaemonRollout of gr unseen in namespace kube-system")
}

func TestResumeClearsTheFailuresOfAHaltedRollout(t *testing.T) {
	s := newSite(t)
	s.daemonSet(s.gr("halting", topsv1.AnnotationUpdateStrategy, "AdvancedRollingUpdate"))
	dro := s.rollout("halting", topsv1.DaemonRolloutStatus{FailedNodes: 2, Conditions: []metav1.Condition{
		{Type: topsv1.RolloutHalted, Status: metav1.ConditionTrue, Reason: "Halted", LastTransitionTime: metav1.Now()}}})
	s.says(s.gcu("resume", "halting", "-n", "default"), exitRefused, "there is no DaemonRollout of gr halting in namespace default", "-n")
	s.says(s.gcu("resume", "halting"), exitOK, "resumes; failures cleared on 2 nodes")
	s.read(dro)
	first := dro.Annotations[topsv1.AnnotationResume]
	onlyOursWrote(t, dro, topsv1.AnnotationResume)
	s.says(s.gcu("resume", "halting"), exitOK)
	s.read(dro)
	if again := dro.Annotations[topsv1.AnnotationResume]; first == "" || again == first {
		t.Errorf("annotation %q, then %q, want a new value", first, again)
	}
}

func TestResumeOfAPausedGrKeepsFailuresThatDoNotHaltIt(t *testing.T) {
	s := newSite(t)
	s.gr("failing", topsv1.AnnotationPaused, "true", topsv1.AnnotationUpdateStrategy, "AdvancedRollingUpdate")
	dro := s.rollout("failing", topsv1.DaemonRolloutStatus{FailedNodes: 1})
	s.says(s.gcu("resume", "failing"), exitOK, "is no longer paused", "1 node failed, which does not halt it; kubectl gcu resume failing again")
	s.read(dro)
	if len(dro.Annotations) != 0 {
		t.Errorf("annotations are %v", dro.Annotations)
	}
	s.says(s.gcu("resume", "failing"), exitOK, "failures cleared on 1 node")
	s.read(dro)
	if dro.Annotations[topsv1.AnnotationResume] == "" {
		t.Error("the failure is not cleared")
	}
}

// The pause may be there only to look into the revision that was rolled back.
func TestResumeOfAPausedGrKeepsItsRevisionRejected(t *testing.T) {
	s := newSite(t)
	s.gr("rejecting", topsv1.AnnotationPaused, "true")
	dro := s.rollout("rejecting", topsv1.DaemonRolloutStatus{FailedNodes: 1, Rollback: &topsv1.RolloutRollback{From: "r2", To: "r1",
		RejectedRevision: "rejecting-2", GcuResourceRevision: "rejecting-1", Time: metav1.Now()}, Conditions: []metav1.Condition{
		{Type: topsv1.RolloutHalted, Status: metav1.ConditionTrue, Reason: "Halted", LastTransitionTime: metav1.Now()}}})
	s.says(s.gcu("resume", "rejecting"), exitOK, "is no longer paused", "revision rejecting-2 stays rejected; kubectl gcu resume rejecting again rolls it out")
	s.read(dro)
	if len(dro.Annotations) != 0 {
		t.Errorf("annotations are %v", dro.Annotations)
	}
	s.says(s.gcu("resume", "rejecting"), exitOK, "revision rejecting-2 is no longer rejected: it is rolled out again")
}

func TestResumeRollsARejectedRevisionOutAgain(t *testing.T) {
	s := newSite(t)
	s.gr("rejecting")
	dro := s.rollout("rejecting", topsv1.DaemonRolloutStatus{Rollback: &topsv1.RolloutRollback{From: "r2", To: "r1",
		RejectedRevision: "rejecting-2", GcuResourceRevision: "rejecting-1", Time: metav1.Now()}})
	metav1.SetMetaDataAnnotation(&dro.ObjectMeta, topsv1.AnnotationApprovedWaves, "r1/main, r2/main,r2/plan/one@abc")
	if err := s.Update(t.Context(), dro); err != nil {
		t.Fatal(err)
	}
	s.says(s.gcu("resume", "rejecting"), exitOK, "revision rejecting-2 is no longer rejected: it is rolled out again")
	s.read(dro)
	if dro.Annotations[topsv1.AnnotationResume] == "" {
		t.Error("the rollout is not resumed")
	}
	if got := dro.Annotations[topsv1.AnnotationApprovedWaves]; got != "r1/main" {
		t.Errorf("approved are %q: what was rejected needs other approvals", got)
	}
}
