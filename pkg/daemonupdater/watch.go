package daemonupdater

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/logging"
)

// SetupWithManager adds the controller and the cache indexes it needs: pods and
// ControllerRevisions by the UID of their controller. A rollout is woken by
// everything it looks at; nothing depends on another controller happening to
// write a status.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	r.written, r.views = map[Group]writtenRollout{}, map[Group]*view{}
	for _, object := range []client.Object{&corev1.Pod{}, &appsv1.ControllerRevision{}} {
		if err := mgr.GetFieldIndexer().IndexField(context.Background(), object, controllerUID, indexByController); err != nil {
			return fmt.Errorf("indexing %T by controller: %w", object, err)
		}
	}
	err := builder.TypedControllerManagedBy[Group](mgr).
		Named("daemonupdater").
		Watches(&appsv1.DaemonSet{}, enqueue(func(_ context.Context, object client.Object) []Group {
			return []Group{groupOf(object.(*appsv1.DaemonSet))}
		}), builder.WithPredicates(daemonSetChanged())).
		Watches(&appsv1.DaemonSet{}, enqueue(ownGroup), builder.WithPredicates(onlyDeletion())).
		Watches(&corev1.Pod{}, enqueueSoon(r.groupOfPod)).
		Watches(&appsv1.ControllerRevision{}, enqueue(r.groupOfController)).
		Watches(&corev1.Node{}, enqueue(r.groupsOnNode), builder.WithPredicates(nodeChanged())).
		Watches(&topsv1.NodeUpgrade{}, enqueue(r.groupsAskedFor), builder.WithPredicates(upgradeChanged())).
		Watches(&topsv1.DaemonRollout{}, enqueue(r.groupOfRollout)).
		Watches(&topsv1.UpgradePolicy{}, enqueue(r.groupsUnderPolicy)).
		WithLogConstructor(r.logger(mgr.GetLogger())).
		Complete(r)
	if err != nil {
		return fmt.Errorf("adding controller daemonupdater: %w", err)
	}
	return nil
}

// logger returns what makes the logger of a pass, whose lines all say which
// group they are about. The uid of a gr is that of the cache: empty when it is gone.
func (r *Reconciler) logger(base logr.Logger) func(*Group) logr.Logger {
	return func(g *Group) logr.Logger {
		controller := []any{"controller", "daemonupdater"}
		if g == nil {
			return base.WithValues(controller...)
		}
		if g.Kind != kindGcuResource {
			return base.WithValues(g.Kind, klog.KRef(g.Namespace, g.Name)).WithValues(controller...)
		}
		var gr topsv1.GcuResource
		_ = r.Get(context.Background(), client.ObjectKey{Name: g.Name}, &gr, client.UnsafeDisableDeepCopy) // without it the name has to do
		return base.WithValues(logging.GcuResource(g.Name, gr.UID)...).WithValues(controller...)
	}
}

func enqueue(groups func(context.Context, client.Object) []Group) handler.TypedEventHandler[client.Object, Group] {
	return handler.TypedEnqueueRequestsFromMapFunc(groups)
}

// A pass waits for more events of pods: there are several for each pod that is
// replaced, and many pods at once. Only one of them makes room for another node,
// that the pod is Ready; what the others say is in time for a report.
const (
	gatherReady = 10 * time.Millisecond
	gatherRest  = 200 * time.Millisecond
)

// enqueueSoon is enqueue for events of pods.
func enqueueSoon(groups func(context.Context, client.Object) []Group) handler.TypedEventHandler[client.Object, Group] {
	type queue = workqueue.TypedRateLimitingInterface[Group]
	add := func(ctx context.Context, q queue, soon time.Duration, objects ...client.Object) {
		for _, object := range objects {
			for _, g := range groups(ctx, object) {
				q.AddAfter(g, soon)
			}
		}
	}
	return handler.TypedFuncs[client.Object, Group]{
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

// groupOfPod returns the group of the DaemonSet that controls a pod, and notes
// that the pod's node is to be read again.
func (r *Reconciler) groupOfPod(ctx context.Context, object client.Object) []Group {
	groups := r.groupOfController(ctx, object)
	for _, g := range groups {
		r.dirty.add(g, daemonset.NodeName(object.(*corev1.Pod)))
	}
	return groups
}

// groupOfController returns the group of the DaemonSet that controls an object.
func (r *Reconciler) groupOfController(ctx context.Context, object client.Object) []Group {
	ref := metav1.GetControllerOf(object)
	if ref == nil || ref.Kind != kindDaemonSet {
		return nil
	}
	var ds appsv1.DaemonSet
	key := client.ObjectKey{Namespace: object.GetNamespace(), Name: ref.Name}
	if err := r.Get(ctx, key, &ds, client.UnsafeDisableDeepCopy); err != nil {
		return nil // not in the cache: its own event will come
	}
	return []Group{groupOf(&ds)}
}

// groupsOnNode returns every group that has a strategy or claims to have one,
// and notes that the node is to be read again.
func (r *Reconciler) groupsOnNode(ctx context.Context, node client.Object) []Group {
	groups := r.groupsWith(ctx, controlled)
	for _, g := range groups {
		r.dirty.add(g, node.GetName())
	}
	return groups
}

// controlled reports whether a DaemonSet has a strategy or claims to have one.
func controlled(s daemonset.Settings, err error) bool {
	return err != nil || s.Strategy != daemonset.NoStrategy
}

// groupsUnderPolicy returns the groups that name a policy.
func (r *Reconciler) groupsUnderPolicy(ctx context.Context, policy client.Object) []Group {
	return r.groupsWith(ctx, func(s daemonset.Settings, err error) bool {
		return err == nil && s.Policy == policy.GetName()
	})
}

func (r *Reconciler) groupsWith(ctx context.Context, which func(daemonset.Settings, error) bool) []Group {
	var list appsv1.DaemonSetList
	if err := r.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		log.FromContext(ctx).Error(err, "Listing DaemonSets failed, their groups are not woken")
		return nil
	}
	groups := map[Group]bool{}
	for i := range list.Items {
		if which(daemonset.SettingsOf(&list.Items[i])) {
			groups[groupOf(&list.Items[i])] = true
		}
	}
	return slices.Collect(maps.Keys(groups))
}

// groupsAskedFor returns the groups of the DaemonSets a node asks for or pulls images
// for, and, when an operation is on the node, which others keep off, or somebody holds
// it, all, with
// the one that the operation belongs to, which may have no strategy any more, or be
// gone. It notes that the node is to be read again.
func (r *Reconciler) groupsAskedFor(ctx context.Context, object client.Object) []Group {
	groups := map[Group]bool{}
	u := object.(*topsv1.NodeUpgrade)
	for _, request := range u.Status.Requests {
		if g, alive := r.groupNamed(ctx, request.DaemonSet); alive {
			groups[g] = true
		} else {
			groups[Group{Kind: kindDaemonSet, Namespace: request.DaemonSet.Namespace, Name: request.DaemonSet.Name}] = true
		}
	}
	for _, pull := range u.Status.Pulls {
		if g, alive := r.groupNamed(ctx, pull.DaemonSet); alive {
			groups[g] = true
		}
	}
	if u.Spec.Operation != nil || u.Status.Operation != nil || len(daemonset.HoldsOf(u)) > 0 {
		for _, g := range r.groupsWith(ctx, controlled) {
			groups[g] = true
		}
		if u.Spec.Operation != nil {
			r.addOwner(groups, u.Spec.Operation.Rollout)
		}
		if u.Status.Operation != nil {
			r.addOwner(groups, u.Status.Operation.Rollout)
		}
	}
	for g := range groups {
		r.dirty.add(g, object.GetName())
	}
	return slices.Collect(maps.Keys(groups))
}

// groupNamed returns the group of a DaemonSet, and whether that very one is there.
func (r *Reconciler) groupNamed(ctx context.Context, ref topsv1.NamespacedRef) (g Group, alive bool) {
	var ds appsv1.DaemonSet
	err := r.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, &ds, client.UnsafeDisableDeepCopy)
	if err != nil || ds.UID != ref.UID {
		return Group{}, false
	}
	return groupOf(&ds), true
}

// addOwner adds the group of an operation, which names its rollout: only GcuResources
// have operations, and their rollouts are in the operator's namespace.
func (r *Reconciler) addOwner(groups map[Group]bool, rollout string) {
	if name, ours := strings.CutPrefix(rollout, r.Namespace+"/"); ours {
		groups[Group{Kind: kindGcuResource, Name: name}] = true
	}
}

// upgradeChanged passes updates of a NodeUpgrade that can change a decision: what
// the node agent reads off its node every minute is none of them.
func upgradeChanged() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, after := e.ObjectOld.(*topsv1.NodeUpgrade), e.ObjectNew.(*topsv1.NodeUpgrade)
			return before.UID != after.UID || !equality.Semantic.DeepEqual(before.Spec, after.Spec) ||
				!equality.Semantic.DeepEqual(before.Status.Operation, after.Status.Operation) ||
				!equality.Semantic.DeepEqual(before.Status.History, after.Status.History) ||
				!slices.Equal(daemonset.HoldsOf(before), daemonset.HoldsOf(after)) ||
				!equality.Semantic.DeepEqual(before.Status.Requests, after.Status.Requests) ||
				!equality.Semantic.DeepEqual(before.Status.Pulls, after.Status.Pulls) ||
				!equality.Semantic.DeepEqual(before.Status.Tasks, after.Status.Tasks)
		},
	}
}

// ownGroup is a DaemonSet as a group of its own: when it is gone, the requests
// for it are answered there, whatever group it belonged to.
func ownGroup(_ context.Context, object client.Object) []Group {
	return []Group{{Kind: kindDaemonSet, Namespace: object.GetNamespace(), Name: object.GetName()}}
}

func onlyDeletion() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		UpdateFunc:  func(event.UpdateEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

func (r *Reconciler) groupOfRollout(_ context.Context, object client.Object) []Group {
	target := object.(*topsv1.DaemonRollout).Spec.TargetRef
	g := Group{Kind: target.Kind, Name: target.Name}
	if g.Kind == kindDaemonSet {
		g.Namespace = object.GetNamespace()
	}
	return []Group{g}
}

// nodeChanged passes node events that can change a decision: readiness, labels,
// taints, appearing and vanishing.
func nodeChanged() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			return daemonset.NodeChanged(e.ObjectOld.(*corev1.Node), e.ObjectNew.(*corev1.Node))
		},
	}
}

// daemonSetChanged passes updates of a DaemonSet that can change a decision: its
// spec, that it was observed, what it is annotated with and whose it is. The
// counts in its status change with every pod.
func daemonSetChanged() predicate.Predicate {
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
