package observed

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

func TestWhatAnOverrideRequestsOfANode(t *testing.T) {
	undo := func(from string) *PinRequest { return &PinRequest{Verb: VerbUndo, Target: "driver", From: from} }
	for _, tt := range []struct {
		value string
		want  *PinRequest
	}{
		{"undo:a_driver_replace", undo("")},
		{"undo:a_driver_replace:2026-11-27T03:00:00Z", undo("")},
		{"undo:a_driver_replace:from=5d9f", undo("5d9f")},
		{UndoValue("a_driver_replace", "5d9f", "2026-11-27T03:00:00Z"), undo("5d9f")},
		{"undo:a_driver_replace:because from=5d9f", undo("")},
		{"retry:a_driver_replace:1", &PinRequest{Verb: VerbRetry, Target: "driver"}},
		{"undo:b_driver_replace", nil},
		{"undo:a_driver_verify", nil},
		{"skip:a_driver_replace", nil},
		{"undo", nil},
	} {
		got := PinRequestOf(&topsv1.NodeUpgrade{ObjectMeta: metav1.ObjectMeta{Name: "a", Annotations: map[string]string{topsv1.AnnotationTaskOverride: tt.value}}})
		if diff := cmp.Diff(tt.want, got, cmpopts.IgnoreFields(PinRequest{}, "ID")); diff != "" {
			t.Errorf("%q (-want +got):\n%s", tt.value, diff)
		}
		if got != nil && got.ID != OverrideTaskID(tt.value) {
			t.Errorf("%q has id %s, want that of its answer", tt.value, got.ID)
		}
	}
}

// A retry that ended a pin is not carried out again after each operation, and one of an operation's task never ends a pin.
func TestARetryIsAboutAPinOrAboutAnOperation(t *testing.T) {
	const value = "retry:a_driver_replace:1"
	live := func(u *topsv1.NodeUpgrade) {
		u.Spec.Operation, u.Status.Operation = &topsv1.NodeOperation{ID: "op"}, &topsv1.OperationStatus{ID: "op", Phase: topsv1.OperationRunning}
	}
	ended := func(override string) func(*topsv1.NodeUpgrade) {
		return func(u *topsv1.NodeUpgrade) {
			u.Spec.Operation = &topsv1.NodeOperation{ID: "op"}
			u.Status.Operation = &topsv1.OperationStatus{ID: "op", Phase: topsv1.OperationDone, Override: override, EndTime: &metav1.Time{}}
			u.Status.History = []topsv1.OperationRecord{{ID: "op", Phase: topsv1.OperationDone}}
		}
	}
	answered := func(state topsv1.TaskState) func(*topsv1.NodeUpgrade) {
		return func(u *topsv1.NodeUpgrade) {
			u.Status.Tasks = []topsv1.UpgradeTask{{RequestID: OverrideTaskID(value), State: state}}
		}
	}
	for name, tt := range map[string]struct {
		with      []func(*topsv1.NodeUpgrade)
		pin, open bool
	}{
		"without an operation":                       {nil, true, true},
		"of a live operation":                        {[]func(*topsv1.NodeUpgrade){live}, false, false},
		"of an operation that has read it and ended": {[]func(*topsv1.NodeUpgrade){ended(value)}, false, false},
		"after an operation":                         {[]func(*topsv1.NodeUpgrade){ended("")}, true, true},
		"answered, and an operation lives":           {[]func(*topsv1.NodeUpgrade){live, answered(topsv1.TaskDone)}, true, false},
		"answered, and an operation has ended":       {[]func(*topsv1.NodeUpgrade){ended(value), answered(topsv1.TaskDone)}, true, false},
		"that waited before the operation":           {[]func(*topsv1.NodeUpgrade){live, answered(topsv1.TaskWaiting)}, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			u := &topsv1.NodeUpgrade{ObjectMeta: metav1.ObjectMeta{Name: "a", Annotations: map[string]string{topsv1.AnnotationTaskOverride: value}}}
			for _, with := range tt.with {
				with(u)
			}
			if is := PinRequestOf(u) != nil; is != tt.pin {
				t.Errorf("a pin request: %v", is)
			}
			if open := len(OpenPinRequests(u)) > 0; open != tt.open || Unanswered(u) != tt.open {
				t.Errorf("open: %v, unanswered: %v", open, Unanswered(u))
			}
		})
	}
}
