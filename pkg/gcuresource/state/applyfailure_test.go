package state

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
)

func TestWhatARefusedApplyMeans(t *testing.T) {
	service := component.Ref{GroupVersionKind: corev1.SchemeGroupVersion.WithKind("Service"), Namespace: "gpu", Name: "x"}
	role := component.Ref{GroupVersionKind: schema.GroupVersionKind{Kind: "ClusterRole"}, Name: "x"}
	invalid := func(path string) error {
		return apierrors.NewInvalid(schema.GroupKind{Kind: "Service"}, "x", field.ErrorList{
			field.Invalid(field.NewPath("spec", path), 1, "no")})
	}
	terminating := apierrors.NewForbidden(schema.GroupResource{Resource: "services"}, "x", nil)
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	for _, tc := range []struct {
		name string
		ref  component.Ref
		err  error
		want Failure
	}{
		{"what is wrong stays wrong", service, invalid("type"),
			Failure{ReasonApplyFailed, `applying Service gpu/x: Service "x" is invalid: spec.type: Invalid value: 1: no`, false}},
		{"a node port may get free", service, invalid("ports[0].nodePort"),
			Failure{ReasonApplyFailed, `applying Service gpu/x: Service "x" is invalid: spec.ports[0].nodePort: Invalid value: 1: no`, true}},
		{"an API server in trouble is asked again", service, apierrors.NewInternalError(errors.New("later")),
			Failure{ReasonApplyFailed, "applying Service gpu/x: Internal error occurred: later", true}},
		{"a namespace that goes is waited for", service, terminating,
			Failure{ReasonNamespaceTerminating, "namespace gpu is being deleted: Service gpu/x is applied when that is over", false}},
		{"a namespace that is missing is named", service, apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "gpu"),
			Failure{ReasonNamespaceMissing, "namespace gpu does not exist: create it, Service gpu/x goes there", false}},
		{"a kind that is not served is asked for again", role, apierrors.NewNotFound(schema.GroupResource{Resource: "clusterroles"}, "x"),
			Failure{ReasonApplyFailed, `applying ClusterRole x: clusterroles "x" not found`, true}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(&tc.want, FailureOf(&ApplyError{tc.ref, tc.err})); diff != "" {
				t.Errorf("failure (-want +got):\n%s", diff)
			}
		})
	}
}
