package gcuresource

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/distribution"
	"github.com/topsops/gcu-operator/pkg/gcuresource/state"
	"github.com/topsops/gcu-operator/pkg/gcuresource/status"
)

// goes passes only deletions of objects of grs.
var goes = predicate.And(
	predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		UpdateFunc: func(event.UpdateEvent) bool { return false },
	},
	predicate.NewPredicateFuncs(func(o client.Object) bool { return o.GetLabels()[topsv1.LabelGcuResource] != "" }),
)

// deletionChanged reports whether deletion was requested.
func deletionChanged(e event.UpdateEvent) bool {
	return (e.ObjectOld.GetDeletionTimestamp() == nil) != (e.ObjectNew.GetDeletionTimestamp() == nil)
}

// finalizersChanged reports whether a finalizer was added or removed: the operator adds its own again when that is removed.
func finalizersChanged(e event.UpdateEvent) bool {
	return !slices.Equal(e.ObjectOld.GetFinalizers(), e.ObjectNew.GetFinalizers())
}

// podChanged reports whether an update of a pod can change a decision: by its node, deletion,
// revision, availability or failing containers.
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
		state.FailingContainer(before) != state.FailingContainer(after)
}

// podReadySince returns when the pod became Ready, zero while it is not, in a comparable form.
func podReadySince(pod *corev1.Pod) metav1.Time {
	for i := range pod.Status.Conditions {
		c := &pod.Status.Conditions[i]
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			return c.LastTransitionTime.Rfc3339Copy()
		}
	}
	return metav1.Time{}
}

// nodeChanged reports whether an update of a node can change a decision: which components belong
// there, whether it counts, whether it offers cards, and whose containerd it has.
func nodeChanged(e event.UpdateEvent) bool {
	before, okBefore := e.ObjectOld.(*corev1.Node)
	after, okAfter := e.ObjectNew.(*corev1.Node)
	return !okBefore || !okAfter || daemonset.NodeChanged(before, after) || !maps.Equal(offered(before), offered(after)) || distribution.Brings(before) != distribution.Brings(after)
}

// offered returns the extended resources of which a node has any.
func offered(node *corev1.Node) map[corev1.ResourceName]bool {
	has := map[corev1.ResourceName]bool{}
	for name, quantity := range node.Status.Allocatable {
		if strings.Contains(string(name), "/") && quantity.Value() > 0 {
			has[name] = true
		}
	}
	return has
}

// hostChanged reports whether an update of a NodeUpgrade can change a decision.
func hostChanged(e event.UpdateEvent) bool {
	before, okBefore := e.ObjectOld.(*topsv1.NodeUpgrade)
	after, okAfter := e.ObjectNew.(*topsv1.NodeUpgrade)
	return !okBefore || !okAfter || state.HostOf(before) != state.HostOf(after)
}

// rejects reports whether an update of a rollout rejects a revision, or ends that.
func rejects(e event.UpdateEvent) bool {
	before, isRollout := e.ObjectOld.(*topsv1.DaemonRollout)
	after, is := e.ObjectNew.(*topsv1.DaemonRollout)
	return !isRollout || !is || !equality.Semantic.DeepEqual(before.Status.Rollback, after.Status.Rollback)
}

// rolloutChanged reports whether a rollout rejected a revision, or whether the part of it that the status of its gr reports
// changed; the targets count too, because they show whether it is for the newest spec.
func rolloutChanged(e event.UpdateEvent) bool {
	before, isRollout := e.ObjectOld.(*topsv1.DaemonRollout)
	after, is := e.ObjectNew.(*topsv1.DaemonRollout)
	if !isRollout || !is {
		return true
	}
	was, now := status.RolloutOf(before), status.RolloutOf(after)
	return rejects(e) || !equality.Semantic.DeepEqual(was, now) || !slices.Equal(before.Status.Targets, after.Status.Targets)
}

// installed passes the roles and bindings of components, as they are shipped.
var installed = predicate.NewPredicateFuncs(func(o client.Object) bool { return o.GetLabels()[topsv1.LabelComponent] != "" })
