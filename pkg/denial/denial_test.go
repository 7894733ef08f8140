package denial

import (
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
