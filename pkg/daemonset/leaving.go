package daemonset

import (
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// A component that a gr no longer asks for leaves its nodes like an upgrade (docs/adr/0014): its
// DaemonSet gets a template whose pods wait at a scheduling gate for ever. Such a pod is a
// placeholder: it takes the place of the pod of a node, and nothing runs in it.

// IsLeaving reports whether pods of the newest template of a DaemonSet are placeholders.
func IsLeaving(ds *appsv1.DaemonSet) bool { return isGated(&ds.Spec.Template.Spec, topsv1.GateRemoved) }

// IsPlaceholder reports whether a pod is a placeholder. One whose gate was removed is none, and one that
// awaits an upgrade is not one yet.
func IsPlaceholder(pod *corev1.Pod) bool {
	return pod.Spec.NodeName == "" && isGated(&pod.Spec, topsv1.GateRemoved) && !AwaitsUpgrade(pod)
}

// AwaitsUpgrade reports whether a pod waits until its node is granted its revision.
func AwaitsUpgrade(pod *corev1.Pod) bool {
	return pod.Spec.NodeName == "" && isGated(&pod.Spec, topsv1.GateAwaitingUpgrade)
}

func isGated(spec *corev1.PodSpec, gate string) bool {
	return slices.ContainsFunc(spec.SchedulingGates, func(g corev1.PodSchedulingGate) bool { return g.Name == gate })
}

// AreRivals reports whether pods of two DaemonSets must not run beside each other on a node: one
// was created to take over from the other.
func AreRivals(a, b *appsv1.DaemonSet) bool { return succeeds(a, b) || succeeds(b, a) }

func succeeds(ds, other *appsv1.DaemonSet) bool {
	names, _ := SuccessorOf(ds.Annotations[topsv1.AnnotationSuccessorOf])
	return slices.Contains(names, other.Namespace+"/"+other.Name)
}

// SuccessorOf returns the namespace/name of the DaemonSets in a value of AnnotationSuccessorOf, nil
// for none, and the hash.
func SuccessorOf(value string) (names []string, template string) {
	list, template, _ := strings.Cut(value, ";")
	if list == "" {
		return nil, template
	}
	return strings.Split(list, ","), template
}
