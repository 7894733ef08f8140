package main

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
)

// upgraded creates a DaemonSet, and its rollout, behind the gate or not.
func (s *site) upgraded(namespace, name string, gated metav1.ConditionStatus) {
	s.t.Helper()
	labels := map[string]string{"app": name}
	s.create(&appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: appsv1.DaemonSetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "app:1"}}}}}})
	s.create(&topsv1.DaemonRollout{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: topsv1.DaemonRolloutSpec{TargetRef: topsv1.TargetRef{Kind: "DaemonSet", Name: name}},
		Status: topsv1.DaemonRolloutStatus{Targets: []topsv1.RevisionTarget{{DaemonSet: namespace + "/" + name, Hash: "new"}},
			Conditions: []metav1.Condition{{Type: topsv1.RolloutGated, Status: gated, Reason: "Test", LastTransitionTime: metav1.Now()}}}})
}

// Contract 96.
func TestANodeIsBroughtBackOnlyWhereTheGateKeepsItThere(t *testing.T) {
	s := newSite(t)
	s.upgraded("default", "back-gated", metav1.ConditionTrue)
	s.upgraded("default", "back-open", metav1.ConditionFalse)
	s.upgraded("default", "back-twice", metav1.ConditionTrue)
	s.upgraded("kube-system", "back-twice", metav1.ConditionTrue)
	for target, want := range map[string]string{
		"back-open":  "only with the gate",
		"back-no":    "no component or DaemonSet",
		"back-twice": "name it in full",
	} {
		s.says(s.gcu("task", "undo", "undo-1", target+"_replace"), exitRefused, want)
	}
	s.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "undo-1"}})
	s.says(s.gcu("__complete", "task", "undo", ""), exitOK, "undo-1\n")
	a := s.says(s.gcu("__complete", "task", "undo", "undo-1", ""), exitOK, "back-gated_replace\n", "default.back-twice_replace\n", "kube-system.back-twice_replace\n")
	if strings.Contains(a.out, "back-open") {
		t.Errorf("it offers what the gate does not keep:\n%s", a.out)
	}
	s.says(s.gcu("task", "undo", "undo-1", "back-gated_replace"), exitOK, "undo of undo-1_back-gated_replace is requested")
	made := &topsv1.NodeUpgrade{ObjectMeta: metav1.ObjectMeta{Name: "undo-1"}}
	s.read(made)
	t.Cleanup(func() { _ = s.Delete(t.Context(), made) })
	if value := made.Annotations[topsv1.AnnotationTaskOverride]; !strings.HasPrefix(value, "undo:undo-1_back-gated_replace:from=new 20") {
		t.Errorf("annotation is %q", value)
	}
	s.says(s.gcu("task", "undo", "undo-1", "back-gated_replace"), exitOK)
	s.says(s.gcu("task", "undo", "undo-1", "default.back-twice_replace"), exitRefused, "is not carried out yet", "withdraw it")
	s.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "undo-2"}})
	s.says(s.gcu("task", "undo", "undo-2", "default.back-twice_replace"), exitOK)
	other := &topsv1.NodeUpgrade{ObjectMeta: metav1.ObjectMeta{Name: "undo-2"}}
	t.Cleanup(func() { _ = s.Delete(t.Context(), other) })
}

func TestTheTaskOfALiveOperationIsNotTakenForAPin(t *testing.T) {
	s := newSite(t)
	s.upgraded("default", "back-live", metav1.ConditionTrue)
	s.upgrade("live-1", nil)
	s.says(s.gcu("__complete", "task", "skip", ""), exitOK, "live-1\n")
	s.says(s.gcu("__complete", "task", "skip", "live-1", ""), exitOK, "live-1_driver_verify\n")
	s.says(s.gcu("__complete", "task", "retry", ""), exitOK, "live-1\n")
	dro := &topsv1.DaemonRollout{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "back-live"}}
	s.read(dro)
	dro.Status.Pinned = []topsv1.NodePin{{Node: "pinned-1", DaemonSet: "default/back-live", Hash: "old", From: "new", Reason: "Undone", Since: metav1.Now()}}
	if err := s.Status().Update(t.Context(), dro); err != nil {
		t.Fatal(err)
	}
	s.says(s.gcu("__complete", "task", "retry", ""), exitOK, "live-1\n", "pinned-1\n")
	s.says(s.gcu("__complete", "task", "retry", "pinned-1", ""), exitOK, "back-live_replace\n")
	s.says(s.gcu("task", "retry", "live-1", "back-live_replace"), exitRefused, "the job has no task")
	s.says(s.gcu("task", "retry", "live-1", "driver_verify"), exitOK)
	s.says(s.gcu("task", "undo", "live-1", "back-live_replace"), exitRefused, "has not read", "which was requested before")
	s.upgrade("live-2", func(u *topsv1.NodeUpgrade) { u.Status.Operation.Held = false })
	s.says(s.gcu("task", "retry", "live-2", "back-live_replace"), exitOK, "is requested")
	s.says(s.gcu("task", "retry", "live-2", "driver_verify"), exitRefused, "has ended")
}

func TestUndoWaitsForItsAnswer(t *testing.T) {
	s := newSite(t)
	s.upgraded("default", "back-wait", metav1.ConditionTrue)
	for _, tt := range []struct {
		node  string
		state topsv1.TaskState
		code  int
		say   string
	}{
		{"undone-1", topsv1.TaskDone, exitOK, "is done"},
		{"undone-2", topsv1.TaskFailed, exitNotYet, "Refused: no earlier one"},
	} {
		u := &topsv1.NodeUpgrade{ObjectMeta: metav1.ObjectMeta{Name: tt.node}}
		s.create(u)
		done := make(chan answer)
		go func() {
			done <- s.gcu("task", "undo", tt.node, "back-wait_replace", "--wait", "--timeout", "20s")
		}()
		s.eventually("the annotation", func() bool { s.read(u); return u.Annotations[topsv1.AnnotationTaskOverride] != "" })
		u.Status.Tasks = []topsv1.UpgradeTask{{RequestID: observed.OverrideTaskID(u.Annotations[topsv1.AnnotationTaskOverride]), Name: tt.node + "_back-wait_undo",
			State: tt.state, Reason: "Refused", Message: "no earlier one"}}
		if err := s.Status().Update(t.Context(), u); err != nil {
			t.Fatal(err)
		}
		s.says(<-done, tt.code, tt.say)
	}
}
