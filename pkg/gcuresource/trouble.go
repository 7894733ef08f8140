package gcuresource

import (
	"context"
	"errors"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// toldError is an error that the status tells where it is worth telling.
type toldError struct{ error }

func (e *toldError) Unwrap() error { return e.error }

// trouble returns what to tell of an error that is no component's own; nil when
// there is none, or when it may pass by itself.
func (r *Reconciler) trouble(gr string, err error) *Failure {
	if err == nil || !r.memory.lasts(gr, r.now()) {
		return nil
	}
	return &Failure{Reason: ReasonReconcileFailed, Message: err.Error(), Retry: true}
}

// complain tells an error in the status that kept a pass from getting as far as
// its report.
func (r *Reconciler) complain(ctx context.Context, name string, cause error) error {
	var told *toldError
	if errors.As(cause, &told) {
		return nil
	}
	gr := &topsv1.GcuResource{}
	if err := r.Get(ctx, client.ObjectKey{Name: name}, gr); err != nil {
		return client.IgnoreNotFound(fmt.Errorf("reading GcuResource %s: %w", name, err))
	}
	status := gr.Status.DeepCopy()
	status.StandardConditions = setConditions(gr, r.now(), degradedBy(&Failure{Reason: ReasonReconcileFailed, Message: cause.Error()}))
	return r.report(ctx, gr, *status)
}
