package gcuresource

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/denial"
)

// addFinalizer comes before everything else, so that everything deployed is also torn down
// (contract statement 6).
func addFinalizer(ctx context.Context, c client.Client, gr *topsv1.GcuResource) error {
	if controllerutil.ContainsFinalizer(gr, topsv1.Finalizer) {
		return nil
	}
	before := gr.DeepCopy()
	controllerutil.AddFinalizer(gr, topsv1.Finalizer)
	log.FromContext(ctx).Info("Adding finalizer", "finalizer", topsv1.Finalizer)
	if err := c.Patch(ctx, gr, locked(before), client.FieldOwner(topsv1.ManagedBy)); err != nil {
		return fmt.Errorf("adding finalizer: %w", err)
	}
	return nil
}

// removeFinalizer releases a gr after everything else is gone.
func removeFinalizer(ctx context.Context, c client.Client, gr *topsv1.GcuResource) error {
	after := gr.DeepCopy()
	controllerutil.RemoveFinalizer(after, topsv1.Finalizer)
	log.FromContext(ctx).Info("Removing finalizer, every component is gone", "finalizer", topsv1.Finalizer)
	err := c.Patch(ctx, after, locked(gr), client.FieldOwner(topsv1.ManagedBy))
	if err != nil && !denial.IsNotFound(err) {
		return fmt.Errorf("removing finalizer: %w", err)
	}
	return nil
}
