package gcuresource

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
	"github.com/topsops/gcu-operator/pkg/gcuresource/plan"
	"github.com/topsops/gcu-operator/pkg/gcuresource/revision"
	"github.com/topsops/gcu-operator/pkg/gcuresource/state"
	"github.com/topsops/gcu-operator/pkg/gcuresource/status"
)

// applier applies what was decided for a gr.
type applier struct {
	client.Client
	APIReader client.Reader
}

// carryOut carries out a plan and updates the observation with the results. After a component
// that changed or failed, the pass creates no further one: the next pass sees whether the one before
// still runs. A transient failure is reported once lasts returns true, that is, when passes have been failing
// for long. The error has what should be retried at once; it is also in the failed component's
// Failure, or in the observation. leaving are the DaemonSets that have been told to leave.
func (a applier) carryOut(ctx context.Context, obs *state.Observation, decided plan.Plan, lasts func() bool) (leaving []*state.Owned, err error) {
	failed := deleteObjects(ctx, a.Client, decided.Delete)
	leaving, err = a.startLeaving(ctx, obs, decided.Leave)
	if failed = errors.Join(failed, err); failed != nil && lasts() {
		obs.ReconcileFailure = status.ReconcileFailure(failed)
	}
	errs := []error{failed}
	held := false
	for i := range decided.Steps {
		step, c := &decided.Steps[i], &obs.Components[i]
		if step.Create && held {
			continue
		}
		before := generations(c)
		err := a.applyStep(ctx, obs, c, step)
		held = held || err != nil || !maps.Equal(before, generations(c))
		if err != nil && (!stale(err) || lasts()) {
			c.Failure = state.FailureOf(err)
		}
		if err != nil && (c.Failure == nil || c.Failure.Retry) {
			errs = append(errs, fmt.Errorf("applying component %s: %w", c.Name, err))
		}
	}
	return leaving, errors.Join(errs...)
}

// startLeaving lets the pods of DaemonSets leave their nodes one by one. It returns those for which that was possible.
func (a applier) startLeaving(ctx context.Context, obs *state.Observation, leaving []*state.Owned) (begun []*state.Owned, err error) {
	name, err := revision.Name(obs.Resource)
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, o := range leaving {
		if err := a.letLeave(ctx, obs, o, name); err != nil {
			errs = append(errs, fmt.Errorf("removing %s node by node: %w", o.Ref, err))
			continue
		}
		begun = append(begun, o)
	}
	return begun, errors.Join(errs...)
}

// letLeave lets the pods of a DaemonSet leave, for a revision of the spec.
func (a applier) letLeave(ctx context.Context, obs *state.Observation, o *state.Owned, revision string) error {
	d, err := component.Leaving(obs.Resource, revision, o.DaemonSet)
	if err != nil {
		return err
	}
	d.Object.SetUID(o.UID)
	log.FromContext(ctx).Info("Removing object node by node", "object", d.Ref.String(), "component", o.Component)
	if err := a.Apply(ctx, client.ApplyConfigurationFromUnstructured(d.Object), client.FieldOwner(topsv1.ManagedBy), client.ForceOwnership); err != nil {
		return &state.ApplyError{Ref: d.Ref, Err: err}
	}
	obs.Applied[o.UID] = state.Applied{Generation: d.Object.GetGeneration(), ResourceVersion: d.Object.GetResourceVersion()}
	return nil
}

func (a applier) applyStep(ctx context.Context, obs *state.Observation, c *state.Component, step *plan.Step) error {
	for i := range step.Apply {
		d := &step.Apply[i]
		result, err := a.apply(ctx, obs.Resource, c, d)
		if err != nil {
			return err
		}
		obs.Applied[result.GetUID()] = state.Applied{
			Hash: d.Hash, Generation: result.GetGeneration(), ResourceVersion: result.GetResourceVersion(),
		}
		if err := c.SetLive(obs.Resource, d.Ref, result); err != nil {
			return err
		}
	}
	return nil
}

// apply applies one object and returns it as it is in the cluster. If the observed object is
// ours, its UID is a precondition. If none was observed, apply first reads it live, and does not
// force ownership of fields that someone else has set meanwhile. Objects that are CreateOnly are
// created instead, so that an existing one is not changed.
func (a applier) apply(ctx context.Context, gr *topsv1.GcuResource, c *state.Component, d *component.Desired) (*unstructured.Unstructured, error) {
	live := c.Live[d.Ref]
	if live == nil {
		var err error
		if live, err = a.readLive(ctx, gr, d.Ref); err != nil {
			return nil, err
		}
	}
	object := d.Object.DeepCopy()
	if d.Ref.CreateOnly() {
		return a.createOnce(ctx, object, d, live)
	}
	options := []client.ApplyOption{client.FieldOwner(topsv1.ManagedBy)}
	if live != nil {
		object.SetUID(live.GetUID())
		options = append(options, client.ForceOwnership)
	}
	log.FromContext(ctx).Info("Applying object", "object", d.Ref.String(), "component", c.Name, "exists", live != nil)
	if err := a.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), options...); err != nil {
		return nil, &state.ApplyError{Ref: d.Ref, Err: err}
	}
	return object, nil
}

// createOnce creates an object that is CreateOnly, unless it exists. A Job names what it is created from.
func (a applier) createOnce(ctx context.Context, object *unstructured.Unstructured, d *component.Desired, live *metav1.PartialObjectMetadata) (*unstructured.Unstructured, error) {
	if live != nil {
		object.SetUID(live.GetUID())
		object.SetAnnotations(live.GetAnnotations())
		return object, nil
	}
	if err := fillSecret(object); err != nil {
		return nil, &state.ApplyError{Ref: d.Ref, Err: err}
	}
	if d.Ref.GroupVersionKind == component.JobKind {
		object.SetAnnotations(map[string]string{topsv1.AnnotationCreatedFrom: d.Hash})
	}
	log.FromContext(ctx).Info("Creating object", "object", d.Ref.String())
	if err := a.Create(ctx, object, client.FieldOwner(topsv1.ManagedBy)); err != nil {
		return nil, &state.ApplyError{Ref: d.Ref, Err: err}
	}
	return object, nil
}

// fillSecret fills the empty values of stringData with random text. It changes nothing in objects
// without stringData.
func fillSecret(object *unstructured.Unstructured) error {
	data, found, err := unstructured.NestedStringMap(object.Object, "stringData")
	if err != nil || !found {
		return err
	}
	for key, value := range data {
		if value == "" {
			data[key] = rand.Text()
		}
	}
	return unstructured.SetNestedStringMap(object.Object, data, "stringData")
}

// readLive reads an object that is not in the cache from the API server; nil if it does not
// exist.
func (a applier) readLive(ctx context.Context, gr *topsv1.GcuResource, ref component.Ref) (*metav1.PartialObjectMetadata, error) {
	live := ref.Metadata()
	if err := a.APIReader.Get(ctx, client.ObjectKeyFromObject(live), live); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("reading %s: %w", ref, err)
	}
	if !ref.Shared() && !state.Ours(gr, ref, live) {
		return nil, state.ObjectConflict(ref, live)
	}
	return live, nil
}

// generations returns the generations of the existing workloads of a component.
func generations(c *state.Component) map[component.Ref]int64 {
	of := map[component.Ref]int64{}
	for _, ref := range c.Workloads() {
		if live := c.Live[ref]; live != nil {
			of[ref] = live.Generation
		}
	}
	return of
}
