package watch

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/upgradeplan/planfile"
)

// Groups maps events to the groups that they enqueue, and records the nodes that they are about.
type Groups struct {
	client.Reader
	// Namespace is that of the DaemonRollouts of GcuResources.
	Namespace string
	// Changed records the nodes.
	Changed *ChangedNodes
	// Clock returns the time, for the budgets of node agents.
	Clock func() time.Time
	// Woken has groups to enqueue without an event; nil for none.
	Woken <-chan observed.Group
	// GateChanged receives when all groups are to be enqueued because the gate has another mode; nil for never.
	GateChanged <-chan struct{}
}

// OfPod returns the group of the DaemonSet that controls a pod, and marks the pod's node to be
// read again.
func (w Groups) OfPod(ctx context.Context, object client.Object) []observed.Group {
	groups := w.OfController(ctx, object)
	for _, g := range groups {
		w.Changed.Add(g, daemonset.NodeName(object.(*corev1.Pod)))
	}
	return groups
}

// OfController returns the group of the DaemonSet that controls an object.
func (w Groups) OfController(ctx context.Context, object client.Object) []observed.Group {
	ref := metav1.GetControllerOf(object)
	if ref == nil || ref.Kind != observed.KindDaemonSet {
		return nil
	}
	var ds appsv1.DaemonSet
	key := client.ObjectKey{Namespace: object.GetNamespace(), Name: ref.Name}
	if err := w.Get(ctx, key, &ds, client.UnsafeDisableDeepCopy); err != nil {
		return nil // not in the cache: its own event will follow
	}
	return []observed.Group{observed.GroupOf(&ds)}
}

// OnNode returns every group that has a strategy or an invalid setting or restarts runtimes, and marks the node to be
// read again.
func (w Groups) OnNode(ctx context.Context, node client.Object) []observed.Group {
	groups := w.with(ctx, dependsOnNodes)
	for _, g := range groups {
		w.Changed.Add(g, node.GetName())
	}
	return groups
}

func dependsOnNodes(ds *appsv1.DaemonSet) bool {
	return daemonset.IsControlled(ds) || observed.Restarts(ds)
}

// UnderPolicy returns the groups that name a policy, also those without a strategy: runtimes are restarted under it.
func (w Groups) UnderPolicy(ctx context.Context, policy client.Object) []observed.Group {
	return w.with(ctx, func(ds *appsv1.DaemonSet) bool {
		s, err := daemonset.SettingsOf(ds)
		if err == nil && !daemonset.IsControlled(ds) {
			s.Policy, err = daemonset.PolicyName(ds.Annotations)
		}
		return err == nil && s.Policy == policy.GetName()
	})
}

// UnderPlan returns the groups that name a plan.
func (w Groups) UnderPlan(ctx context.Context, plan client.Object) []observed.Group {
	return w.with(ctx, func(ds *appsv1.DaemonSet) bool {
		s, err := daemonset.SettingsOf(ds)
		return err == nil && s.Plan == plan.GetName()
	})
}

// OfJob returns the groups that name the plan that owns a Job.
func (w Groups) OfJob(ctx context.Context, job client.Object) []observed.Group {
	ref := metav1.GetControllerOf(job)
	if ref == nil || ref.Kind != planfile.Kind {
		return nil
	}
	return w.UnderPlan(ctx, &topsv1.UpgradePlan{ObjectMeta: metav1.ObjectMeta{Name: ref.Name}})
}

func (w Groups) with(ctx context.Context, which func(*appsv1.DaemonSet) bool) []observed.Group {
	var list appsv1.DaemonSetList
	if err := w.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		log.FromContext(ctx).Error(err, "Listing DaemonSets failed, their groups are not enqueued")
		return nil
	}
	groups := map[observed.Group]bool{}
	for i := range list.Items {
		if which(&list.Items[i]) {
			groups[observed.GroupOf(&list.Items[i])] = true
		}
	}
	return slices.Collect(maps.Keys(groups))
}

// OfNodeUpgrade returns the groups that a NodeUpgrade concerns, and marks its node to be read again in each:
//
//   - the groups of the DaemonSets that it has requests, pulls or prepulls for;
//   - one group of kind Node for all requests of DaemonSets that do not exist;
//   - all groups that OnNode returns, if the node has an operation, a hold or a pin request, because they must keep
//     off the node, or if the agent reports capabilities or the host, because they may wait for that;
//   - the group that owns the operation, which may have no strategy any more or be gone.
func (w Groups) OfNodeUpgrade(ctx context.Context, object client.Object) []observed.Group {
	groups := map[observed.Group]bool{}
	u := object.(*topsv1.NodeUpgrade)
	for _, request := range u.Status.Requests {
		if g, alive := w.named(ctx, request.DaemonSet); alive {
			groups[g] = true
		} else {
			groups[observed.Group{Kind: observed.KindNode, Name: u.Name}] = true // one pass for any number of invented DaemonSets
		}
	}
	for _, pull := range u.Status.Pulls {
		if g, alive := w.named(ctx, pull.DaemonSet); alive {
			groups[g] = true
		}
	}
	for _, prepull := range u.Spec.Prepulls {
		if g, alive := w.named(ctx, prepull.DaemonSet); alive {
			groups[g] = true
		}
	}
	if concernsAll(u) {
		for _, g := range w.with(ctx, dependsOnNodes) {
			groups[g] = true
		}
		if u.Spec.Operation != nil {
			w.addOwner(groups, u.Spec.Operation.Rollout)
		}
		if u.Status.Operation != nil {
			w.addOwner(groups, u.Status.Operation.Rollout)
		}
	}
	for g := range groups {
		w.Changed.Add(g, object.GetName())
	}
	return slices.Collect(maps.Keys(groups))
}

// concernsAll reports whether a NodeUpgrade concerns all groups that depend on nodes.
func concernsAll(u *topsv1.NodeUpgrade) bool {
	reports := u.Status.Host != nil || u.Status.Agent != nil && len(u.Status.Agent.Capabilities) > 0
	return u.Spec.Operation != nil || u.Status.Operation != nil || reports || len(daemonset.HoldsOf(u)) > 0 ||
		slices.ContainsFunc(observed.OpenPinRequests(u), func(r observed.PinRequest) bool { return r.UID == "" })
}

// named returns the group of a DaemonSet, and reports whether the DaemonSet with that UID exists.
func (w Groups) named(ctx context.Context, ref topsv1.NamespacedRef) (g observed.Group, alive bool) {
	var ds appsv1.DaemonSet
	err := w.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, &ds, client.UnsafeDisableDeepCopy)
	if err != nil || ds.UID != ref.UID {
		return observed.Group{}, false
	}
	return observed.GroupOf(&ds), true
}

// addOwner adds the group of an operation by the name of its rollout. Only GcuResources have
// operations, and their rollouts are in the operator's namespace.
func (w Groups) addOwner(groups map[observed.Group]bool, rollout string) {
	if name, ours := strings.CutPrefix(rollout, w.Namespace+"/"); ours {
		groups[observed.Group{Kind: observed.KindGcuResource, Name: name}] = true
	}
}

// OfDaemonSet returns the groups of a DaemonSet that was created (before is nil), changed, or deleted (after is nil). If
// the DaemonSet leaves its group, or no longer has a strategy, node events may no longer reach the group: then all nodes are
// marked to be read again. A deleted DaemonSet is also a group of its own, whose pass answers the requests for it.
func (w Groups) OfDaemonSet(before, after client.Object) (groups []observed.Group) {
	was, existed := before.(*appsv1.DaemonSet)
	is, exists := after.(*appsv1.DaemonSet)
	if existed {
		groups = append(groups, observed.GroupOf(was))
		if !exists || !dependsOnNodes(is) || observed.GroupOf(is) != groups[0] {
			w.Changed.AddAll(groups[0])
		}
	}
	if exists {
		return append(groups, observed.GroupOf(is))
	}
	return append(groups, observed.Group{Kind: observed.KindDaemonSet, Namespace: was.Namespace, Name: was.Name})
}

// OfGcuResource returns the group of a GcuResource.
func OfGcuResource(_ context.Context, object client.Object) []observed.Group {
	return []observed.Group{{Kind: observed.KindGcuResource, Name: object.GetName()}}
}

// OfRollout returns the group of a DaemonRollout.
func (w Groups) OfRollout(_ context.Context, object client.Object) []observed.Group {
	target := object.(*topsv1.DaemonRollout).Spec.TargetRef
	g := observed.Group{Kind: target.Kind, Name: target.Name}
	if g.Kind == observed.KindDaemonSet {
		g.Namespace = object.GetNamespace()
	}
	return []observed.Group{g}
}
