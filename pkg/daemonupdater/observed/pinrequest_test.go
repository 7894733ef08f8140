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
