// Package watch enqueues rollout groups on changes of everything that a rollout depends on.
// It does not rely on other controllers to write a status at the right time.
package watch

import (
	"context"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/agentbudget"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/nodeupgrade/operation"
)

// Add adds the watches to a controller of groups.
func (w Groups) Add(b *builder.TypedBuilder[observed.Group]) *builder.TypedBuilder[observed.Group] {
	if w.Woken != nil {
		b = b.WatchesRawSource(wakes(w.Woken, func(_ context.Context, g observed.Group) []observed.Group { return []observed.Group{g} }))
	}
	if w.GateChanged != nil {
		b = b.WatchesRawSource(wakes(w.GateChanged, w.underGate))
	}
	return b.
		Watches(&appsv1.DaemonSet{}, w.ofDaemonSet(), builder.WithPredicates(DaemonSetChanged())).
		Watches(&corev1.Pod{}, enqueueSoon(w.OfPod)).
		Watches(&appsv1.ControllerRevision{}, enqueue(w.OfController)).
		Watches(&corev1.Node{}, enqueue(w.OnNode), builder.WithPredicates(NodeChanged())).
		Watches(&topsv1.NodeUpgrade{}, agentbudget.Handler(w.Clock, w.ofNodeUpgrade), builder.WithPredicates(UpgradeChanged())).
		Watches(&topsv1.DaemonRollout{}, enqueue(w.OfRollout)).
		Watches(&topsv1.GcuResource{}, enqueue(OfGcuResource), builder.WithPredicates(DeletionBegan())).
		Watches(&topsv1.UpgradePolicy{}, enqueue(w.UnderPolicy), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&topsv1.UpgradePlan{}, enqueue(w.UnderPlan), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&batchv1.Job{}, enqueue(w.OfJob))
}

// wakes enqueues the groups of each value that it receives, until its context is done.
func wakes[T any](received <-chan T, groups func(context.Context, T) []observed.Group) source.TypedFunc[observed.Group] {
	return func(ctx context.Context, q queue) error {
		go func() {
			for {
				select {
				case <-ctx.Done():
					return
				case value := <-received:
					for _, g := range groups(ctx, value) {
						q.Add(g)
					}
				}
			}
		}()
		return nil
	}
}

// underGate returns all groups that have a strategy or an invalid setting.
func (w Groups) underGate(ctx context.Context, _ struct{}) []observed.Group {
	return w.with(ctx, daemonset.IsControlled)
}

// ofNodeUpgrade is OfNodeUpgrade as agentbudget.Handler calls it.
func (w Groups) ofNodeUpgrade(ctx context.Context, object client.Object, _ time.Duration) []observed.Group {
	return w.OfNodeUpgrade(ctx, object)
}

func enqueue(groups func(context.Context, client.Object) []observed.Group) handler.TypedEventHandler[client.Object, observed.Group] {
	return handler.TypedEnqueueRequestsFromMapFunc(groups)
}

type queue = workqueue.TypedRateLimitingInterface[observed.Group]

// ofDaemonSet enqueues what OfDaemonSet returns.
func (w Groups) ofDaemonSet() handler.TypedEventHandler[client.Object, observed.Group] {
	add := func(q queue, before, after client.Object) {
		for _, g := range w.OfDaemonSet(before, after) {
			q.Add(g)
		}
	}
	return handler.TypedFuncs[client.Object, observed.Group]{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) { add(q, nil, e.Object) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) { add(q, e.ObjectOld, e.ObjectNew) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) { add(q, e.Object, nil) },
	}
}

// A pod event waits for others before it enqueues a pass: every replaced pod has several events, and many pods change
// at once. Only a pod that became Ready frees the budget for another node; the other events matter only for
// reports, so they may wait longer.
const (
	gatherReady = 10 * time.Millisecond
	gatherRest  = 200 * time.Millisecond
)

// enqueueSoon is enqueue with a delay for pod events.
func enqueueSoon(groups func(context.Context, client.Object) []observed.Group) handler.TypedEventHandler[client.Object, observed.Group] {
	add := func(ctx context.Context, q queue, soon time.Duration, objects ...client.Object) {
		for _, object := range objects {
			for _, g := range groups(ctx, object) {
				q.AddAfter(g, soon)
			}
		}
	}
	return handler.TypedFuncs[client.Object, observed.Group]{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) { add(ctx, q, gatherRest, e.Object) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			soon := gatherRest
			if daemonset.BecameReady(e.ObjectOld.(*corev1.Pod), e.ObjectNew.(*corev1.Pod)) {
				soon = gatherReady
			}
			add(ctx, q, soon, e.ObjectOld, e.ObjectNew)
		},
		DeleteFunc:  func(ctx context.Context, e event.DeleteEvent, q queue) { add(ctx, q, gatherRest, e.Object) },
		GenericFunc: func(ctx context.Context, e event.GenericEvent, q queue) { add(ctx, q, gatherRest, e.Object) },
	}
}

// A failed pass is retried after minBackoff, then after twice as long each time, up to
// MaxBackoff: no event says when an API server has recovered, and deadlines go on meanwhile.
const (
	minBackoff = 5 * time.Millisecond
	MaxBackoff = 30 * time.Second
)

// RateLimiter delays failed passes.
func RateLimiter() workqueue.TypedRateLimiter[observed.Group] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[observed.Group](minBackoff, MaxBackoff)
}

// UpgradeChanged passes updates of a NodeUpgrade that can change a decision, but not the report
// that the node agent writes every minute.
func UpgradeChanged() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, after := e.ObjectOld.(*topsv1.NodeUpgrade), e.ObjectNew.(*topsv1.NodeUpgrade)
			return agentbudget.ChangedByOperator(before, after) ||
				!slices.Equal(daemonset.HoldsOf(before), daemonset.HoldsOf(after)) || pinRequestChanged(before, after) ||
				!slices.Equal(observed.AgentOf(before).Capabilities, observed.AgentOf(after).Capabilities) ||
				before.Status.Host.NeedsRestart() != after.Status.Host.NeedsRestart() ||
				!operation.CardsSince(before).Equal(operation.CardsSince(after)) ||
				operation.LeftToAdministrator(before) != operation.LeftToAdministrator(after) ||
				observed.PrepullResultsChanged(before, after) ||
				!equality.Semantic.DeepEqual(before.Status.Requests, after.Status.Requests) ||
				!equality.Semantic.DeepEqual(before.Status.Pulls, after.Status.Pulls)
		},
	}
}

// pinRequestChanged reports whether annotation task-override has a new pin request.
func pinRequestChanged(before, after *topsv1.NodeUpgrade) bool {
	was, is := observed.PinRequestOf(before), observed.PinRequestOf(after)
	return is != nil && (was == nil || *was != *is)
}

// DeletionBegan passes only the update that sets an object's deletion timestamp.
func DeletionBegan() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return e.ObjectOld.GetDeletionTimestamp() == nil && e.ObjectNew.GetDeletionTimestamp() != nil
		},
	}
}

// NodeChanged passes node events that can change a decision: creation, deletion, and changes of
// readiness, labels or taints, and of which extended resources are offered.
func NodeChanged() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, after := e.ObjectOld.(*corev1.Node), e.ObjectNew.(*corev1.Node)
			return daemonset.NodeChanged(before, after) || operation.OffersOthers(before, after)
		},
	}
}

// DaemonSetChanged passes updates of a DaemonSet that can change a decision: of its spec,
// observed generation, labels, annotations or owners. It drops the counts in its status, which
// change with every pod.
func DaemonSetChanged() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, after := e.ObjectOld.(*appsv1.DaemonSet), e.ObjectNew.(*appsv1.DaemonSet)
			return before.UID != after.UID || before.Generation != after.Generation ||
				before.Status.ObservedGeneration != after.Status.ObservedGeneration ||
				(before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil) ||
				!maps.Equal(before.Labels, after.Labels) || !maps.Equal(before.Annotations, after.Annotations) ||
				!equality.Semantic.DeepEqual(before.OwnerReferences, after.OwnerReferences)
		},
	}
}
