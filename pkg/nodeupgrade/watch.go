package nodeupgrade

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
)

// parallelism is how many nodes are reconciled at once. They are independent of each other,
// and one may wait for the response to an eviction.
const parallelism = 8

// A failed pass is repeated after firstRetry, then after twice as long each time, up to lastRetry:
// no event reports that an API server has recovered, and deadlines keep running meanwhile.
const (
	firstRetry = 5 * time.Millisecond
	lastRetry  = 30 * time.Second
)

// options returns the options of the controller.
func options() controller.Options {
	return controller.Options{
		MaxConcurrentReconciles: parallelism,
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lastRetry),
	}
}

// SetupWithManager adds the controller, its cache index, and the sweep.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	if err := mgr.GetFieldIndexer().IndexField(context.Background(), &corev1.Pod{}, nodeOfPod, indexByNode); err != nil {
		return fmt.Errorf("indexing pods by node: %w", err)
	}
	b := ctrl.NewControllerManagedBy(mgr).
		Named("nodeupgrade").
		WithOptions(options()).
		WithLogConstructor(logger(mgr.GetLogger()))
	for _, w := range r.Watches() {
		b = b.Watches(w.Object, handler.EnqueueRequestsFromMapFunc(w.Nodes), builder.WithPredicates(w.Matters))
	}
	if err := b.Complete(r); err != nil {
		return fmt.Errorf("adding controller nodeupgrade: %w", err)
	}
	if err := mgr.Add(r.sweeper); err != nil {
		return fmt.Errorf("adding the sweep of nodes: %w", err)
	}
	return nil
}

// Watch is one kind of objects that the controller watches.
type Watch struct {
	// Object is of that kind.
	Object client.Object
	// Nodes returns the nodes whose operations an object concerns.
	Nodes handler.MapFunc
	// Matters passes the events that can change a decision.
	Matters predicate.Predicate
}

// Watches returns everything that the controller watches: everything that it reads from the
// cache. Pods to be evicted are not in the cache, so a drain requeues.
func (r *Reconciler) Watches() []Watch {
	return []Watch{
		{&topsv1.NodeUpgrade{}, sameName, predicate.Funcs{}},
		{&corev1.Node{}, sameName, nodeChanged()},
		{&corev1.Pod{}, r.nodeOf, predicate.Funcs{}},
		{&appsv1.DaemonSet{}, r.nodesWithTarget, daemonSetChanged()},
		{&appsv1.ControllerRevision{}, r.nodesWithTarget, predicate.Funcs{}},
	}
}

func logger(base logr.Logger) func(*reconcile.Request) logr.Logger {
	return func(request *reconcile.Request) logr.Logger {
		l := base.WithValues("controller", "nodeupgrade")
		if request == nil {
			return l
		}
		return l.WithValues("NodeUpgrade", request.Name)
	}
}

func indexByNode(object client.Object) []string {
	return []string{daemonset.NodeName(object.(*corev1.Pod))}
}

func sameName(_ context.Context, object client.Object) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: object.GetName()}}}
}

// nodeOf returns the node of a DaemonSet pod, if the node has an active operation.
func (r *Reconciler) nodeOf(ctx context.Context, object client.Object) []reconcile.Request {
	pod := object.(*corev1.Pod)
	name := daemonset.NodeName(pod)
	if name == "" || daemonset.Owner(pod) == nil {
		return nil
	}
	var upgrade topsv1.NodeUpgrade
	if err := r.cache.Get(ctx, client.ObjectKey{Name: name}, &upgrade, client.UnsafeDisableDeepCopy); err != nil || !active(&upgrade) {
		return nil // not in the cache: its own event follows
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: name}}}
}

// nodesWithTarget returns the nodes with an active operation that has this DaemonSet, or the
// owner of this ControllerRevision, as a target.
func (r *Reconciler) nodesWithTarget(ctx context.Context, object client.Object) []reconcile.Request {
	uid := object.GetUID()
	if _, revision := object.(*appsv1.ControllerRevision); revision {
		owner := metav1.GetControllerOf(object)
		if owner == nil {
			return nil
		}
		uid = owner.UID
	}
	var list topsv1.NodeUpgradeList
	if err := r.cache.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		log.FromContext(ctx).Error(err, "Listing NodeUpgrades failed, their nodes are not woken")
		return nil
	}
	var requests []reconcile.Request
	for i := range list.Items {
		u := &list.Items[i]
		if u.Spec.Operation == nil || !active(u) {
			continue
		}
		if slices.ContainsFunc(u.Spec.Operation.Targets, func(target topsv1.OperationTarget) bool {
			return slices.ContainsFunc(target.All(), func(of topsv1.DaemonSetRevision) bool { return of.DaemonSet.UID == uid })
		}) {
			requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Name: u.Name}})
		}
	}
	return requests
}

// nodeChanged passes Node updates that can change a decision: readiness, labels, annotations,
// taints, the cordon, and allocatable resources.
func nodeChanged() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, after := e.ObjectOld.(*corev1.Node), e.ObjectNew.(*corev1.Node)
			return daemonset.NodeChanged(before, after) || before.Spec.Unschedulable != after.Spec.Unschedulable ||
				!equality.Semantic.DeepEqual(before.Annotations, after.Annotations) ||
				!equality.Semantic.DeepEqual(before.Status.Allocatable, after.Status.Allocatable)
		},
	}
}

// daemonSetChanged passes DaemonSet updates that can change a decision: the spec and
// observedGeneration. The counts in its status change with every pod.
func daemonSetChanged() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, after := e.ObjectOld.(*appsv1.DaemonSet), e.ObjectNew.(*appsv1.DaemonSet)
			return before.UID != after.UID || before.Generation != after.Generation ||
				before.Status.ObservedGeneration != after.Status.ObservedGeneration
		},
	}
}
