package gcuresource

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
	"github.com/topsops/gcu-operator/pkg/gcuresource/plan"
	"github.com/topsops/gcu-operator/pkg/gcuresource/state"
)

// tryReplacements lets those components fail whose objects are replaced, or those of a component that they exclude, and
// whose workloads the API server would refuse to create in their place: what cannot be replaced stays, and what gets its name. It
// reports whether one fails. Before anything is deleted all are tried, also those that wait: the name of one may be another's. The
// error has what should be retried at once.
func (a applier) tryReplacements(ctx context.Context, obs *state.Observation, decided plan.Plan) (fails bool, err error) {
	if !slices.ContainsFunc(decided.Delete, func(o state.Owned) bool { return !o.Deleting }) {
		return false, nil
	}
	var errs []error
	for i := range obs.Components {
		c := &obs.Components[i]
		replaced := func(o state.Owned) bool { return !o.Deleting && plan.Replaces(c.Name, o.Component) }
		if c.Failure != nil || !slices.ContainsFunc(decided.Replaced, replaced) {
			continue
		}
		err := a.tryWorkloads(ctx, c, decided.Replaced)
		if err == nil {
			continue
		}
		log.FromContext(ctx).Info("Keeping what a component would replace, its own workloads would be refused", "component", c.Name, "cause", err.Error())
		fails = true
		if c.Failure = state.FailureOf(err); c.Failure.Retry {
			errs = append(errs, fmt.Errorf("trying component %s: %w", c.Name, err))
		}
	}
	return fails, errors.Join(errs...)
}

// tryWorkloads applies the workloads of a component that do not exist in a dry run. Those in a namespace that the operator
// creates first are left out. objects are to be deleted before.
func (a applier) tryWorkloads(ctx context.Context, c *state.Component, objects []state.Owned) error {
	for i := range c.Objects {
		d := &c.Objects[i]
		created := func(o component.Desired) bool {
			return o.Ref.Kind == "Namespace" && o.Ref.Name == d.Ref.Namespace && c.Live[o.Ref] == nil
		}
		if !d.Ref.Workload() || d.Ref.CreateOnly() || c.Live[d.Ref] != nil || slices.ContainsFunc(c.Objects, created) {
			continue
		}
		object := client.ApplyConfigurationFromUnstructured(d.Object.DeepCopy())
		err := a.Apply(ctx, object, client.FieldOwner(topsv1.ManagedBy), client.DryRunAll)
		if err != nil && !saysNothing(err, d.Ref, objects) {
			return &state.ApplyError{Ref: d.Ref, Err: err}
		}
	}
	return nil
}

// saysNothing reports whether a dry run was refused though the creation may succeed: the quota may be that of the objects to be
// deleted, and a webhook may not support dry runs.
func saysNothing(err error, ref component.Ref, objects []state.Owned) bool {
	inNamespace := func(o state.Owned) bool { return o.Ref.Namespace == ref.Namespace }
	return strings.Contains(err.Error(), "exceeded quota") && slices.ContainsFunc(objects, inNamespace) ||
		strings.Contains(err.Error(), "does not support dry run")
}
