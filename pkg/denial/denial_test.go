package denial

import (
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestByAdmission(t *testing.T) {
	for message, want := range map[string]bool{
		`admission webhook "no.example.com" denied the request: not on Fridays`:                                                                          true,
		`gcuresources.topsops.enflame.com "a" is forbidden: admission webhook "no" denied the request without reason`:                                    true,
		`gcuresources "a" is forbidden: ValidatingAdmissionPolicy 'gcu-people' with binding 'b' denied request: bounds`:                                  true,
		`gcuresources "a" is forbidden: ValidatingAdmissionPolicy 'gcu-people' denied request: failed to configure`:                                      true,
		`gcuresources "a" is forbidden: User "denied the request" cannot patch resource "gcuresources"`:                                                  false,
		`gcuresources "a" is forbidden: exceeded quota: few, requested: count/gcuresources=1, used: count/gcuresources=3, limited: count/gcuresources=3`: true,
		`Internal error occurred: failed calling webhook "no.example.com": connection refused`:                                                           false,
		`gcuresources "a" is invalid: spec: memoryUnit cannot be changed`:                                                                                false,
	} {
		for _, code := range []int32{400, 403, 422, 500} {
			err := fmt.Errorf("writing: %w", &apierrors.StatusError{ErrStatus: metav1.Status{Code: code, Message: message}})
			if got := ByAdmission(err); got != want {
				t.Errorf("ByAdmission(%v) is %t", err, got)
			}
		}
	}
	if ByAdmission(nil) || ByAdmission(errors.New(`admission webhook "a" denied the request`)) {
		t.Error("something else than an error of the API server counts")
	}
}

func TestAConflictIsNotTheAnswerOfAWebhook(t *testing.T) {
	answer := func(code int32, reason metav1.StatusReason, message string) error {
		return fmt.Errorf("writing: %w", &apierrors.StatusError{ErrStatus: metav1.Status{Code: code, Reason: reason, Message: message}})
	}
	const denied = `admission webhook "no.example.com" denied the request: not on Fridays`
	for _, tt := range []struct {
		err                       error
		conflict, changed, exists bool
	}{
		{answer(409, metav1.StatusReasonConflict, "the object has been modified"), true, true, false},
		{answer(404, metav1.StatusReasonNotFound, `pods "a" not found`), false, true, false},
		{apierrors.NewAlreadyExists(schema.GroupResource{Resource: "pods"}, "a"), false, false, true},
		{answer(409, metav1.StatusReasonAlreadyExists, denied), false, false, false},
		{answer(409, metav1.StatusReasonConflict, denied), false, false, false},
		{answer(404, metav1.StatusReasonNotFound, denied), false, false, false},
		{answer(500, metav1.StatusReasonInternalError, "etcd is away"), false, false, false},
		{nil, false, false, false},
	} {
		if conflict, changed := IsConflict(tt.err), IsGoneOrChanged(tt.err); conflict != tt.conflict || changed != tt.changed {
			t.Errorf("%v: conflict %t, gone or changed %t; want %t, %t", tt.err, conflict, changed, tt.conflict, tt.changed)
		}
		if exists := IsAlreadyExists(tt.err); exists != tt.exists {
			t.Errorf("%v: exists already %t, want %t", tt.err, exists, tt.exists)
		}
		if gone := tt.changed && !tt.conflict; (IgnoreNotFound(tt.err) == nil) != (gone || tt.err == nil) {
			t.Errorf("%v: IgnoreNotFound returns %v", tt.err, IgnoreNotFound(tt.err))
		}
	}
}
