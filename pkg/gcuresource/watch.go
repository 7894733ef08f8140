package gcuresource

import (
	"context"
	"slices"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
	"github.com/topsops/gcu-operator/pkg/logging"
)

// SetupWithManager registers the controller with the manager, whose scheme
// must know client-go's kinds and api/v1. The cache holds DaemonSets,
// Deployments, Jobs, pods, nodes and ControllerRevisions of all namespaces in
// full, and the metadata of Namespaces, CustomResourceDefinitions and
// metadataKinds; managedFields may be stripped. It returns an error when a watch
// cannot be set up.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	if r.Client == nil {
		r.Client = mgr.GetClient()
	}
	if r.APIReader == nil {
		r.APIReader = mgr.GetAPIReader()
	}
	if r.Recorder == nil {
		r.Recorder = mgr.GetEventRecorder(topsv1.ManagedBy)
	}
	if r.Namespace == "" {
		r.Namespace = metav1.NamespaceSystem
	}
	if err := r.readCache(mgr); err != nil {
		return err
	}
	return r.watchOwned(ctrl.NewControllerManagedBy(mgr)).
		Named("gcuresource").
		WithOptions(patient()).
		For(&topsv1.GcuResource{}, builder.WithPredicates(
			predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}))).
		Watches(&topsv1.GcuResource{}, handler.EnqueueRequestsFromMapFunc(r.all), builder.WithPredicates(
			predicate.GenerationChangedPredicate{})).
		WatchesMetadata(kindOf("apiextensions.k8s.io", "CustomResourceDefinition"), handler.EnqueueRequestsFromMapFunc(ofLabel)).
		WatchesMetadata(kindOf("", "Namespace"), handler.EnqueueRequestsFromMapFunc(r.all), builder.WithPredicates(
			predicate.Funcs{UpdateFunc: deletionChanged})).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(r.ofWorkload), builder.WithPredicates(
			r.noted(), predicate.Funcs{UpdateFunc: podChanged})).
		Watches(&appsv1.ControllerRevision{}, handler.EnqueueRequestsFromMapFunc(r.ofWorkload)).
		Owns(&appsv1.ControllerRevision{}).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(r.all), builder.WithPredicates(
			r.noted(), predicate.Funcs{UpdateFunc: nodeChanged})).
		Watches(&topsv1.DaemonRollout{}, handler.EnqueueRequestsFromMapFunc(ofRollout), builder.WithPredicates(
			predicate.Funcs{UpdateFunc: haltChanged})).
		WithLogConstructor(r.logger(mgr.GetLogger())).
		Complete(r)
}

const (
	// firstRetry is how soon a failed pass is repeated; each time after takes
	// twice as long, up to failureRetry: nothing tells when an API server is well again.
	firstRetry = 5 * time.Millisecond
	// passTimeout bounds a pass, so that a call without an answer does not hold up
	// a gr for ever.
	passTimeout = time.Minute
)

// patient are the options of a controller that outlives an API server in trouble.
func patient() controller.Options {
	return controller.Options{
		ReconciliationTimeout: passTimeout,
		RateLimiter:           workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, failureRetry),
	}
}

// logger returns what makes the logger of a pass, whose lines all identify the
// gr. The uid is that of the cache: empty when the gr is gone.
func (r *Reconciler) logger(base logr.Logger) func(*reconcile.Request) logr.Logger {
	return func(request *reconcile.Request) logr.Logger {
		controller := []any{"controller", "gcuresource"}
		if request == nil {
			return base.WithValues(controller...)
		}
		gr := &topsv1.GcuResource{}
		_ = r.Get(context.Background(), request.NamespacedName, gr, client.UnsafeDisableDeepCopy) // without it the name has to do
		return base.WithValues(logging.GcuResource(request.Name, gr.UID)...).WithValues(controller...)
	}
}

// watchOwned watches what grs own. Workloads that go may be what another gr
// waits for.
func (r *Reconciler) watchOwned(b *builder.Builder) *builder.Builder {
	for _, workload := range []client.Object{&appsv1.DaemonSet{}, &appsv1.Deployment{}, &batchv1.Job{}} {
		b = b.Owns(workload).Watches(workload, handler.EnqueueRequestsFromMapFunc(r.all), builder.WithPredicates(goes))
	}
	for _, kind := range metadataKinds {
		b = b.Owns(kindOf(kind.Group, kind.Kind), builder.OnlyMetadata)
	}
	return b
}

// goes lets only deletions of objects of grs pass.
var goes = predicate.And(
	predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		UpdateFunc: func(event.UpdateEvent) bool { return false },
	},
	predicate.NewPredicateFuncs(func(o client.Object) bool { return o.GetLabels()[topsv1.LabelGcuResource] != "" }),
)

// kindOf is an empty metadata object of a kind, whose version is v1.
func kindOf(group, kind string) *metav1.PartialObjectMetadata {
	return metadataOf(component.Ref{GroupVersionKind: schema.GroupVersionKind{Group: group, Version: "v1", Kind: kind}})
}

// ofLabel maps an object to the gr its label names.
func ofLabel(_ context.Context, o client.Object) []reconcile.Request {
	name := o.GetLabels()[topsv1.LabelGcuResource]
	if name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: name}}}
}

// ofWorkload maps a pod or a revision to the gr of its workload: by its label
// when it came from a Deployment or a Job, else by its DaemonSet. When the
// DaemonSet is gone, any gr may be waiting for the pod to go.
func (r *Reconciler) ofWorkload(ctx context.Context, o client.Object) []reconcile.Request {
	if o.GetLabels()[topsv1.LabelGcuResource] != "" {
		return ofLabel(ctx, o)
	}
	owner := metav1.GetControllerOf(o)
	if owner == nil || owner.Kind != component.DaemonSetKind.Kind {
		return nil
	}
	ds := &appsv1.DaemonSet{}
	err := r.Get(ctx, types.NamespacedName{Namespace: o.GetNamespace(), Name: owner.Name}, ds, client.UnsafeDisableDeepCopy)
	if err != nil || ds.UID != owner.UID {
		return r.all(ctx, o)
	}
	return ofLabel(ctx, ds)
}

// all maps anything to every gr.
func (r *Reconciler) all(ctx context.Context, _ client.Object) []reconcile.Request {
	var grs topsv1.GcuResourceList
	if err := r.List(ctx, &grs, client.UnsafeDisableDeepCopy); err != nil {
		log.FromContext(ctx).Error(err, "Listing GcuResources for a watch event")
		return nil
	}
	requests := make([]reconcile.Request, 0, len(grs.Items))
	for i := range grs.Items {
		requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Name: grs.Items[i].Name}})
	}
	return requests
}

// deletionChanged reports whether a deletion was asked for.
func deletionChanged(e event.UpdateEvent) bool {
	return (e.ObjectOld.GetDeletionTimestamp() == nil) != (e.ObjectNew.GetDeletionTimestamp() == nil)
}

// podChanged reports whether an update of a pod can change a decision: where it
// is, whether it is available, what is wrong with it.
func podChanged(e event.UpdateEvent) bool {
	before, okBefore := e.ObjectOld.(*corev1.Pod)
	after, okAfter := e.ObjectNew.(*corev1.Pod)
	if !okBefore || !okAfter {
		return true
	}
	return before.Spec.NodeName != after.Spec.NodeName ||
		deletionChanged(e) ||
		daemonset.RevisionHash(before) != daemonset.RevisionHash(after) ||
		podReadySince(before) != podReadySince(after) ||
		podTrouble(before) != podTrouble(after)
}

// podReadySince is comparable: when the pod became Ready, zero while it is not.
func podReadySince(pod *corev1.Pod) metav1.Time {
	for i := range pod.Status.Conditions {
		c := &pod.Status.Conditions[i]
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			return c.LastTransitionTime.Rfc3339Copy()
		}
	}
	return metav1.Time{}
}

// nodeChanged reports whether an update of a node can change a decision: which
// components belong there, and whether it counts.
func nodeChanged(e event.UpdateEvent) bool {
	before, okBefore := e.ObjectOld.(*corev1.Node)
	after, okAfter := e.ObjectNew.(*corev1.Node)
	return !okBefore || !okAfter || daemonset.NodeChanged(before, after)
}

// haltChanged reports whether a rollout is halted, or not any more, or for another reason or
// spec: of all that changes in it, that is what a gr shows.
func haltChanged(e event.UpdateEvent) bool {
	before, isRollout := e.ObjectOld.(*topsv1.DaemonRollout)
	after, is := e.ObjectNew.(*topsv1.DaemonRollout)
	if !isRollout || !is {
		return true
	}
	was, now := haltOf(before), haltOf(after)
	if was == nil || now == nil {
		return was != now
	}
	return *was != *now || !slices.Equal(before.Status.Targets, after.Status.Targets)
}

// ofRollout asks for the gr of a rollout.
func ofRollout(_ context.Context, object client.Object) []reconcile.Request {
	if rollout, ok := object.(*topsv1.DaemonRollout); ok && rollout.Spec.TargetRef.Kind == topsv1.GcuResourceKind {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: rollout.Spec.TargetRef.Name}}}
	}
	return nil
}
