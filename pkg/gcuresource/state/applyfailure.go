package state

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/topsops/gcu-operator/pkg/denial"
	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
)

// ApplyError is the error of an object that could not be applied.
type ApplyError struct {
	Ref component.Ref
	Err error
}

func (e *ApplyError) Error() string { return "applying " + e.Ref.String() + ": " + e.Err.Error() }

func (e *ApplyError) Unwrap() error { return e.Err }

// FailureOf turns an apply error into a Failure for users. An object that the API server rejects
// as invalid needs a change of the gr; one rejected because of its namespace, a change of that.
func FailureOf(err error) *Failure {
	var failure *Failure
	if errors.As(err, &failure) {
		return failure
	}
	var apply *ApplyError
	if errors.As(err, &apply) && apply.Ref.Namespace != "" {
		switch {
		case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
			return &Failure{Reason: ReasonNamespaceTerminating, Message: fmt.Sprintf(
				"namespace %s is being deleted: %s is applied when that is over", apply.Ref.Namespace, apply.Ref)}
		case denial.IsNotFound(err):
			return &Failure{Reason: ReasonNamespaceMissing, Message: fmt.Sprintf(
				"namespace %s does not exist: create it, %s goes there", apply.Ref.Namespace, apply.Ref)}
		}
	}
	fault := (apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)) && !nodePortTaken(err)
	return &Failure{Reason: ReasonApplyFailed, Message: err.Error(), Retry: !fault}
}

// nodePortTaken reports whether a Service was rejected because of its node port: the API server
// releases the port of a deleted Service with a delay.
func nodePortTaken(err error) bool {
	var refusal apierrors.APIStatus
	if !errors.As(err, &refusal) || refusal.Status().Details == nil {
		return false
	}
	return slices.ContainsFunc(refusal.Status().Details.Causes, func(c metav1.StatusCause) bool {
		return strings.HasSuffix(c.Field, ".nodePort")
	})
}
