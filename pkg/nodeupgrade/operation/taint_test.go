package operation

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// TestTaintedForFindsOurTaint: a foreign taint with the same key and another effect does not
// hide ours, in any order.
func TestTaintedForFindsOurTaint(t *testing.T) {
	ours := corev1.Taint{Key: topsv1.TaintDriverUpgrade, Value: "op-1", Effect: corev1.TaintEffectNoSchedule}
	foreign := corev1.Taint{Key: topsv1.TaintDriverUpgrade, Value: "x", Effect: corev1.TaintEffectNoExecute}
	for _, taints := range [][]corev1.Taint{{ours}, {ours, foreign}, {foreign, ours}} {
		if got := TaintedFor(&corev1.Node{Spec: corev1.NodeSpec{Taints: taints}}); got != "op-1" {
			t.Errorf("closed for %q with taints %v", got, taints)
		}
	}
	if got := TaintedFor(&corev1.Node{Spec: corev1.NodeSpec{Taints: []corev1.Taint{foreign}}}); got != "" {
		t.Errorf("closed for %q by a taint that is not ours", got)
	}
}

// TestTaintsOfOthersStay: a device is closed and opened by one taint, and the others are kept.
func TestTaintsOfOthersStay(t *testing.T) {
	foreign := corev1.Taint{Key: "dedicated", Value: "training", Effect: corev1.TaintEffectNoSchedule}
	node := &corev1.Node{Spec: corev1.NodeSpec{Taints: []corev1.Taint{foreign}}}
	node.Spec.Taints = WithDriverTaint(node, "op-1")
	if got := TaintedFor(node); got != "op-1" || !slices.Contains(node.Spec.Taints, foreign) {
		t.Errorf("closed for %q, with taints %v", got, node.Spec.Taints)
	}
	if got := WithoutDriverTaint(node, "op-2"); len(got) != 2 {
		t.Errorf("opened for another operation: %v", got)
	}
	if got := WithoutDriverTaint(node, "op-1"); !slices.Equal(got, []corev1.Taint{foreign}) {
		t.Errorf("opened: %v", got)
	}
}
