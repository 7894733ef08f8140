package gcuresource

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/denial"
	"github.com/topsops/gcu-operator/pkg/gcuresource/status"
)

// reporter writes the status of a gr.
type reporter struct {
	client.Client
	recorder events.EventRecorder
	last     *lastPass
}

// report writes the status if it changed, then sends events about the changes.
func (r reporter) report(ctx context.Context, gr *topsv1.GcuResource, next topsv1.GcuResourceStatus) error {
	if status.Same(gr.Status, next) {
		return nil
	}
	before := gr.DeepCopy()
	gr.Status = next
	if err := r.Status().Patch(ctx, gr, locked(before), client.FieldOwner(topsv1.ManagedBy)); err != nil {
		return fmt.Errorf("writing status: %w", err)
	}
	r.last.version = gr.ResourceVersion
	r.send(gr, status.Events(&before.Status, &next))
	return nil
}

// send sends events about a gr.
func (r reporter) send(gr *topsv1.GcuResource, list []status.Event) {
	for _, e := range list {
		r.recorder.Eventf(gr, nil, e.Type, e.Reason, "Reconcile", "%s", e.Message)
	}
}

// reportedError is an error that the status already reports.
type reportedError struct{ error }

func (e *reportedError) Unwrap() error { return e.error }

// reportFailure reports an error in the status if the pass failed before its own report.
func (r reporter) reportFailure(ctx context.Context, name string, cause error, now time.Time) error {
	var reported *reportedError
	if errors.As(cause, &reported) {
		return nil
	}
	gr := &topsv1.GcuResource{}
	if err := r.Get(ctx, client.ObjectKey{Name: name}, gr); err != nil {
		return denial.IgnoreNotFound(fmt.Errorf("reading GcuResource %s: %w", name, err))
	}
	return r.report(ctx, gr, status.DescribeFailure(gr, cause, now))
}
