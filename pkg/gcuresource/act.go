package gcuresource

import (
	"context"
	"errors"
	"fmt"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// memory remembers per gr, by name, what was last applied to each of its
// objects. Losing it costs one apply per object that changes nothing.
type memory struct {
	mu      sync.Mutex
	applied map[string]map[types.UID]Applied
}

// of returns the memory of one gr. Only the reconcile of that gr touches it.
func (m *memory) of(gr string) map[types.UID]Applied {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.applied == nil {
		m.applied = map[string]map[types.UID]Applied{}
	}
	if m.applied[gr] == nil {
		m.applied[gr] = map[types.UID]Applied{}
	}
	return m.applied[gr]
}

func (m *memory) forget(gr string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.applied, gr)
}

// act carries out a plan and lays what came out over the observation. A pass
// that changed or failed a component creates none after it: whether the one
// before still runs is for the next pass to see. The error holds what is worth
// trying again at once; it is in the failed component's Failure too.
func (r *Reconciler) act(ctx context.Context, obs *Observation, plan Plan) error {
	errs := []error{r.deleteAll(ctx, plan.Delete)}
	held := false
	for i := range plan.Steps {
		step, c := &plan.Steps[i], &obs.Components[i]
		if step.Create && held {
			continue
		}
		generation := generationOf(c.DaemonSet)
		err := r.applyStep(ctx, obs, c, step)
		held = held || err != nil || generationOf(c.DaemonSet) != generation
		// A conflict is a stale cache: the next pass sees what is there.
		if err != nil && !apierrors.IsConflict(err) {
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

// failureOf turns the error of an apply into what a person is told. What the
// API server refuses as wrong stays wrong until somebody changes the gr.
func failureOf(err error) *Failure {
	var conflict *conflictError
	if errors.As(err, &conflict) {
		return conflict.failure
	}
	fault := apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)
	return &Failure{Reason: ReasonApplyFailed, Message: err.Error(), Retry: !fault}
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
		if d.Ref.GroupVersionKind != daemonSetKind {
			c.Live[d.Ref] = metadataFrom(d.Ref, result)
			continue
		}
		ds := &appsv1.DaemonSet{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(result.Object, ds); err != nil {
			return fmt.Errorf("decoding %s: %w", d.Ref, err)
		}
		c.setDaemonSet(ds)
	}
	return nil
}

// apply brings one object to the cluster and returns it as it is there. An
// existing one must still have the UID that was seen to be ours; where none was
// seen, the API server is asked before anything is written, and a field that
// somebody else set meanwhile is not taken from him.
func (r *Reconciler) apply(ctx context.Context, gr *topsv1.GcuResource, c *Component, d *Desired) (*unstructured.Unstructured, error) {
	live := c.Live[d.Ref]
	if live == nil {
		var err error
		if live, err = r.readLive(ctx, gr, d.Ref); err != nil {
			return nil, err
		}
	}
	object := d.Object.DeepCopy()
	options := []client.ApplyOption{client.FieldOwner(topsv1.ManagedBy)}
	if live != nil {
		object.SetUID(live.GetUID())
		options = append(options, client.ForceOwnership)
	}
	log.FromContext(ctx).Info("Applying object", "object", d.Ref.String(), "component", c.Name, "exists", live != nil)
	if err := r.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), options...); err != nil {
		return nil, fmt.Errorf("applying %s: %w", d.Ref, err)
	}
	return object, nil
}

// readLive asks the API server for an object the cache does not have; nil when
// it does not exist.
func (r *Reconciler) readLive(ctx context.Context, gr *topsv1.GcuResource, ref Ref) (*metav1.PartialObjectMetadata, error) {
	live := metadataOf(ref)
	if err := r.APIReader.Get(ctx, client.ObjectKeyFromObject(live), live); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("reading %s: %w", ref, err)
	}
	if !ours(gr, ref, live) {
		return nil, &conflictError{conflictFailure(ref, live)}
	}
	return live, nil
}

func metadataFrom(ref Ref, object *unstructured.Unstructured) *metav1.PartialObjectMetadata {
	m := metadataOf(ref)
	m.UID, m.Generation, m.ResourceVersion = object.GetUID(), object.GetGeneration(), object.GetResourceVersion()
	m.Labels, m.Annotations, m.OwnerReferences = object.GetLabels(), object.GetAnnotations(), object.GetOwnerReferences()
	return m
}

func generationOf(ds *appsv1.DaemonSet) int64 {
	if ds == nil {
		return 0
	}
	return ds.Generation
}
