package main

import (
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// A policy names the verb that is missing; patch, which is what was tried, may be there.
func TestARefusalOfAPolicyIsNotAMissingRightToPatch(t *testing.T) {
	resource := topsv1.GroupVersion.WithResource("gcuresources").GroupResource()
	for cause, canI := range map[string]bool{
		`User "u" cannot patch resource "gcuresources"`:                                                 true,
		"ValidatingAdmissionPolicy 'gcu-people' with binding 'x' denied request: … missing verb resume": false,
		`admission webhook "versions" denied the request: the allowed path is …`:                        false,
	} {
		err := explain(apierrors.NewForbidden(resource, "gr", errors.New(cause)), "patch", "")
		if code := exitCode(t.Context(), err); code != exitForbidden {
			t.Errorf("%s: exit code %d", cause, code)
		}
		if strings.Contains(err.Error(), "can-i patch") != canI {
			t.Errorf("%s: it says %v", cause, err)
		}
	}
}
