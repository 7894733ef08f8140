package gcuresource

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
)

// act carries out a plan and lays what came out over the observation. A pass
// that changed or failed a component creates none after it: whether the one
// before still runs is for the next pass to see. The error holds what is worth
// trying again at once; it is in the failed component's Failure too.
func (r *Reconciler) act(ctx context.Context, obs *Observation, plan Plan) error {
	failed := r.deleteAll(ctx, plan.Delete)
	obs.Trouble = r.trouble(obs.Resource.Name, failed)
	errs := []error{failed}
	held := false
	for i := range plan.Steps {
		step, c := &plan.Steps[i], &obs.Components[i]
		if step.Create && held {
			continue
		}
		before := generations(c)
		err := r.applyStep(ctx, obs, c, step)
		held = held || err != nil || !maps.Equal(before, generations(c))
		if err != nil && (!stale(err) || r.memory.lasts(obs.Resource.Name, r.now())) {
			c.Failure = failureOf(err)
		}
		if err != nil && (c.Failure == nil || c.Failure.Retry) {
			errs = append(errs, fmt.Errorf("applying component %s: %w", c.Name, err))
		}
	}
	return errors.Join(errs...)
}

// conflictError carries the Failure of an object that belongs to somebody else.
type conflictError struct{ failure *Failure }

func (e *conflictError) Error() string { return e.failure.Message }

// applyError says which object was not applied.
type applyError struct {
	ref component.Ref
	err error
}

func (e *applyError) Error() string { return "applying " + e.ref.String() + ": " + e.err.Error() }
func (e *applyError) Unwrap() error { return e.err }

// stale reports whether an error means that the cache is behind: the next pass
// sees what is there.
func stale(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }

// failureOf turns the error of an apply into what a person is told. What the
// API server refuses as wrong stays wrong until somebody changes the gr, and
// what it refuses for the sake of the namespace until that changes.
func failureOf(err error) *Failure {
	var conflict *conflictError
	if errors.As(err, &conflict) {
		return conflict.failure
	}
	var apply *applyError
	if errors.As(err, &apply) && apply.ref.Namespace != "" {
		switch {
		case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
			return &Failure{Reason: ReasonNamespaceTerminating, Message: fmt.Sprintf(
				"namespace %s is being deleted: %s is applied when that is over", apply.ref.Namespace, apply.ref)}
		case apierrors.IsNotFound(err):
			return &Failure{Reason: ReasonNamespaceMissing, Message: fmt.Sprintf(
				"namespace %s does not exist: create it, %s goes there", apply.ref.Namespace, apply.ref)}
		}
	}
	fault := (apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)) && !nodePortTaken(err)
	return &Failure{Reason: ReasonApplyFailed, Message: err.Error(), Retry: !fault}
}

// nodePortTaken reports whether a Service was refused for its node port: the API
// server frees that of a deleted one a little after it is gone.
func nodePortTaken(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	return slices.ContainsFunc(status.Status().Details.Causes, func(c metav1.StatusCause) bool {
		return strings.HasSuffix(c.Field, ".nodePort")
	})
}

func (r *Reconciler) applyStep(ctx context.Context, obs *Observation, c *Component, step *Step) error {
	for i := range step.Apply {
		d := &step.Apply[i]
		result, err := r.apply(ctx, obs.Resource, c, d)
		if err != nil {
			return err
		}
		obs.Applied[result.GetUID()] = Applied{
			Hash: d.Hash, Generation: result.GetGeneration(), ResourceVersion: result.GetResourceVersion(),
		}
		live, err := typed(d.Ref, result)
		if err != nil {
			return err
		}
		c.setLive(obs.Resource, d.Ref, live)
	}
	return nil
}

// typed decodes an object whose state counts, and returns others as they are.
func typed(ref component.Ref, u *unstructured.Unstructured) (client.Object, error) {
	var o client.Object
	switch ref.GroupVersionKind {
	case component.DaemonSetKind:
		o = &appsv1.DaemonSet{}
	case component.DeploymentKind:
		o = &appsv1.Deployment{}
	case component.JobKind:
		o = &batchv1.Job{}
	default:
		return u, nil
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, o); err != nil {
		return nil, fmt.Errorf("decoding %s: %w", ref, err)
	}
	return o, nil
}

// apply brings one object to the cluster and returns it as it is there. An
// existing one must still have the UID that was seen to be ours; where none was
// seen, the API server is asked before anything is written, and a field that
// somebody else set meanwhile is not taken from him. What is made once is
// created, so that nothing that exists by then is changed.
func (r *Reconciler) apply(ctx context.Context, gr *topsv1.GcuResource, c *Component, d *component.Desired) (*unstructured.Unstructured, error) {
	live := c.Live[d.Ref]
	if live == nil {
		var err error
		if live, err = r.readLive(ctx, gr, d.Ref); err != nil {
			return nil, err
		}
	}
	object := d.Object.DeepCopy()
	if d.Ref.MadeOnce() {
		return r.make(ctx, object, d.Ref, live)
	}
	options := []client.ApplyOption{client.FieldOwner(topsv1.ManagedBy)}
	if live != nil {
		object.SetUID(live.GetUID())
		options = append(options, client.ForceOwnership)
	}
	log.FromContext(ctx).Info("Applying object", "object", d.Ref.String(), "component", c.Name, "exists", live != nil)
	if err := r.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), options...); err != nil {
		return nil, &applyError{d.Ref, err}
	}
	return object, nil
}

// make creates what is made once, unless the API server has it.
func (r *Reconciler) make(ctx context.Context, object *unstructured.Unstructured, ref component.Ref, live *metav1.PartialObjectMetadata) (*unstructured.Unstructured, error) {
	if live != nil {
		object.SetUID(live.GetUID())
		return object, nil
	}
	if err := fillSecret(object); err != nil {
		return nil, &applyError{ref, err}
	}
	log.FromContext(ctx).Info("Creating object", "object", ref.String())
	if err := r.Create(ctx, object, client.FieldOwner(topsv1.ManagedBy)); err != nil {
		return nil, &applyError{ref, err}
	}
	return object, nil
}

// fillSecret puts random text where stringData has empty values. Of objects
// without stringData it changes nothing.
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

// readLive asks the API server for an object the cache does not have; nil when
// it does not exist.
func (r *Reconciler) readLive(ctx context.Context, gr *topsv1.GcuResource, ref component.Ref) (*metav1.PartialObjectMetadata, error) {
	live := metadataOf(ref)
	if err := r.APIReader.Get(ctx, client.ObjectKeyFromObject(live), live); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("reading %s: %w", ref, err)
	}
	if !ref.Shared() && !ours(gr, ref, live) {
		return nil, &conflictError{conflictFailure(ref, live)}
	}
	return live, nil
}

// generations are those of the workloads of a component that exist.
func generations(c *Component) map[component.Ref]int64 {
	of := map[component.Ref]int64{}
	for _, ref := range c.Workloads() {
		if live := c.Live[ref]; live != nil {
			of[ref] = live.Generation
		}
	}
	return of
}
