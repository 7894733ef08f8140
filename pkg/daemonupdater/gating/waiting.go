package gating

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
)

// Waiting is a pod at the gate, on a node without another live pod of its DaemonSet.
type Waiting struct {
	Node      *corev1.Node
	DaemonSet *appsv1.DaemonSet
	Pod       *corev1.Pod
}

// WaitingOf returns the pod at the gate among the pods of a DaemonSet on a node. It returns nil if there is none, or if
// another pod lives or its containers may still run: the DaemonSet controller deals with that pod first.
func WaitingOf(ds *appsv1.DaemonSet, node *corev1.Node, pods []*corev1.Pod) *Waiting {
	pod := daemonset.PodOf(pods)
	if pod == nil || !daemonset.AwaitsUpgrade(pod) || pod.DeletionTimestamp != nil || !metav1.IsControlledBy(pod, ds) {
		return nil
	}
	return &Waiting{Node: node, DaemonSet: ds, Pod: pod}
}

// isClosed reports whether the DaemonSet controller creates no pod on the node for now, for example because of a taint. The
// scheduler does not check that for a pod that names its node.
func (w *Waiting) isClosed() bool {
	return !daemonset.ShouldRun(w.DaemonSet, w.Node).Create || slices.ContainsFunc(w.Node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == topsv1.TaintDriverUpgrade }) && !daemonset.ToleratesClosing(w.DaemonSet)
}
