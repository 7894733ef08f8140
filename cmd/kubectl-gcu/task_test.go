package main

import (
	"strings"
	"testing"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// Contract 96.
func TestTaskIsRequestedOnceAndOnlyIfTheOperationHasIt(t *testing.T) {
	s := newSite(t)
	u := s.upgrade("task-1", nil)
	s.says(s.gcu("task", "retry", "task-1", "exporter_replace"), exitRefused, "the job has no task task-1_exporter_replace", "its tasks are task-1_driver_replace, task-1_driver_verify")
	s.says(s.gcu("task", "skip", "task-1", "node_cordon"), exitRefused, "cannot be skipped")
	s.says(s.gcu("task", "undo", "task-1", "driver_replace"), exitRefused, "no component or DaemonSet that the operator upgrades")
	s.says(s.gcu("task", "retry", "no-such-node", "driver_verify"), exitRefused, "no NodeUpgrade")
	s.says(s.gcu("task", "retry", "task-1", "driver_verify"), exitOK, "retry of task task-1_driver_verify is requested")
	s.read(u)
	value := u.Annotations[topsv1.AnnotationTaskOverride]
	if !strings.HasPrefix(value, "retry:task-1_driver_verify:20") {
		t.Errorf("annotation is %q", value)
	}
	onlyOursWrote(t, u, topsv1.AnnotationTaskOverride)
	s.says(s.gcu("task", "skip", "task-1", "driver_verify"), exitRefused, "has not read", "which was requested before")
	u.Status.Operation.Override = value
	if err := s.Status().Update(t.Context(), u); err != nil {
		t.Fatal(err)
	}
	s.says(s.gcu("task", "retry", "task-1", "task-1_driver_verify"), exitOK)
	s.read(u)
	if again := u.Annotations[topsv1.AnnotationTaskOverride]; again == value {
		t.Error("the same task again is the same value: the operator would not act on it")
	}
	ended := s.upgrade("task-2", func(u *topsv1.NodeUpgrade) { u.Status.Operation.Held = false })
	s.says(s.gcu("task", "retry", "task-2", "driver_verify"), exitRefused, "has ended: Failed, VerifyFailed")
	s.read(ended)
	if len(ended.Annotations) != 0 {
		t.Errorf("annotations are %v", ended.Annotations)
	}
}

func TestTaskWaits(t *testing.T) {
	s := newSite(t)
	for _, tt := range []struct {
		node string
		code int
		say  string
		then func(*topsv1.OperationStatus)
	}{
		{"wait-1", exitOK, "task wait-1_driver_verify is Done", func(o *topsv1.OperationStatus) { o.Tasks[1].State = topsv1.OperationTaskDone }},
		{"wait-2", exitNotYet, "task wait-2_driver_verify failed: Again: still", func(o *topsv1.OperationStatus) {
			o.Tasks[1].Reason, o.Tasks[1].Message = "Again", "still"
		}},
		{"wait-3", exitNotYet, "was followed by another one", func(o *topsv1.OperationStatus) { o.ID = "op-2" }},
	} {
		u := s.upgrade(tt.node, nil)
		done := make(chan answer)
		go func() { done <- s.gcu("task", "retry", tt.node, "driver_verify", "--wait", "--timeout", "20s") }()
		s.eventually("the override", func() bool { s.read(u); return u.Annotations[topsv1.AnnotationTaskOverride] != "" })
		u.Status.Operation.Override = u.Annotations[topsv1.AnnotationTaskOverride]
		tt.then(u.Status.Operation)
		if err := s.Status().Update(t.Context(), u); err != nil {
			t.Fatal(err)
		}
		s.says(<-done, tt.code, tt.say)
	}
	s.upgrade("wait-4", nil)
	s.says(s.gcu("task", "retry", "wait-4", "driver_verify", "--wait", "--timeout", "1s"), exitNotYet, "timed out after 1s: the operator has not read it yet")
}
