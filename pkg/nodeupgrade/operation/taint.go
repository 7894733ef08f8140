package operation

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// TaintedFor returns the operation whose driver-upgrade taint is on a node, "" for none. Taints
// are unique by key and effect: the same key with another effect is not ours.
func TaintedFor(node *corev1.Node) string {
	for _, taint := range node.Spec.Taints {
		if taint.Key == topsv1.TaintDriverUpgrade && taint.Effect == corev1.TaintEffectNoSchedule {
			return taint.Value
		}
	}
	return ""
}

// WithDriverTaint returns the taints of the node with the driver-upgrade taint of an operation.
func WithDriverTaint(node *corev1.Node, operation string) []corev1.Taint {
	others := slices.DeleteFunc(slices.Clone(node.Spec.Taints), func(t corev1.Taint) bool { return t.Key == topsv1.TaintDriverUpgrade })
	return append(others, corev1.Taint{Key: topsv1.TaintDriverUpgrade, Value: operation, Effect: corev1.TaintEffectNoSchedule})
}

// WithoutDriverTaint returns the taints of the node without the one of an operation.
func WithoutDriverTaint(node *corev1.Node, operation string) []corev1.Taint {
	return slices.DeleteFunc(slices.Clone(node.Spec.Taints), func(t corev1.Taint) bool {
		return t.Key == topsv1.TaintDriverUpgrade && t.Value == operation
	})
}
