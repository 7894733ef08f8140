package operation

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// TestClosedForFindsOurTaint: a foreign taint with the same key and another effect does not
// hide ours, in any order.
func TestClosedForFindsOurTaint(t *testing.T) {
	ours := corev1.Taint{Key: topsv1.TaintDriverUpgrade, Value: "op-1", Effect: corev1.TaintEffectNoSchedule}
	foreign := corev1.Taint{Key: topsv1.TaintDriverUpgrade, Value: "x", Effect: corev1.TaintEffectNoExecute}
	for _, taints := range [][]corev1.Taint{{ours}, {ours, foreign}, {foreign, ours}} {
		if got := ClosedFor(&corev1.Node{Spec: corev1.NodeSpec{Taints: taints}}); got != "op-1" {
			t.Errorf("closed for %q with taints %v", got, taints)
		}
	}
	if got := ClosedFor(&corev1.Node{Spec: corev1.NodeSpec{Taints: []corev1.Taint{foreign}}}); got != "" {
		t.Errorf("closed for %q by a taint that is not ours", got)
	}
}
