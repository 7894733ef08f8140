package gcuresource

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
	"github.com/topsops/gcu-operator/pkg/gcuresource/state"
)

// spare returns the objects that may be deleted: without those of a component that has got another name or namespace, and
// whose workloads the API server would refuse to create there. Such a component has failed, and keeps what it has. The error
// has what should be retried at once.
func (a applier) spare(ctx context.Context, obs *state.Observation, objects []state.Owned) ([]state.Owned, error) {
	var errs []error
	for i := range obs.Components {
		c := &obs.Components[i]
		of := func(o state.Owned) bool { return o.Component == c.Name && !o.Deleting }
		if !slices.ContainsFunc(objects, func(o state.Owned) bool { return of(o) && o.Ref.Workload() }) {
			continue
		}
		err := a.tryWorkloads(ctx, c)
		if err == nil {
			continue
		}
		log.FromContext(ctx).Info("Keeping the objects of a component, its new ones would be refused", "component", c.Name, "cause", err.Error())
		objects = slices.DeleteFunc(slices.Clone(objects), of)
		if c.Failure = state.FailureOf(err); c.Failure.Retry {
			errs = append(errs, fmt.Errorf("trying component %s: %w", c.Name, err))
		}
	}
	return objects, errors.Join(errs...)
}

// tryWorkloads applies the workloads of a component that do not exist in a dry run. Those in a namespace that the operator
// creates first are left out.
func (a applier) tryWorkloads(ctx context.Context, c *state.Component) error {
	for i := range c.Objects {
		d := &c.Objects[i]
		created := func(o component.Desired) bool {
			return o.Ref.Kind == "Namespace" && o.Ref.Name == d.Ref.Namespace && c.Live[o.Ref] == nil
		}
		if !d.Ref.Workload() || d.Ref.CreateOnly() || c.Live[d.Ref] != nil || slices.ContainsFunc(c.Objects, created) {
			continue
		}
		object := client.ApplyConfigurationFromUnstructured(d.Object.DeepCopy())
		if err := a.Apply(ctx, object, client.FieldOwner(topsv1.ManagedBy), client.DryRunAll); err != nil {
			return &state.ApplyError{Ref: d.Ref, Err: err}
		}
	}
	return nil
}
