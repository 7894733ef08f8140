package harness

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// observed is a pod of a DaemonSet on a node.
func observed(node, uid string, ready, deleted bool) *corev1.Pod {
	pod := &corev1.Pod{Spec: corev1.PodSpec{NodeName: node}, ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: uid, UID: types.UID(uid),
		OwnerReferences: []metav1.OwnerReference{{Kind: "DaemonSet", Name: "exporter", Controller: ptr.To(true)}}}}
	if deleted {
		pod.DeletionTimestamp = &metav1.Time{}
	}
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: status}}
	return pod
}

func TestMostNodesDownAtOnce(t *testing.T) {
	type seen struct {
		pod  *corev1.Pod
		gone bool
	}
	for name, test := range map[string]struct {
		seen []seen
		want int
	}{
		"one after the other": {[]seen{
			{observed("a", "a1", true, true), false}, {observed("a", "a1", true, true), true}, {observed("a", "a2", true, false), false},
			{observed("b", "b1", true, true), false}, {observed("b", "b1", true, true), true}, {observed("b", "b2", true, false), false}}, 1},
		"the successor is there before the other is gone": {[]seen{
			{observed("a", "a1", false, true), false}, {observed("a", "a2", true, false), false}, {observed("a", "a1", false, true), true},
			{observed("b", "b1", true, true), false}}, 1},
		"the second goes before the successor of the first is Ready": {[]seen{
			{observed("a", "a1", true, true), false}, {observed("a", "a1", true, true), true}, {observed("a", "a2", false, false), false},
			{observed("b", "b1", true, true), false}}, 2},
		"only their end is seen": {[]seen{{observed("a", "a1", true, false), true}, {observed("b", "b1", true, false), true}}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			o := &Observer{down: map[string]map[string]bool{}, gone: map[types.UID]string{}, last: map[types.UID]*corev1.Pod{}}
			for _, s := range test.seen {
				o.see(s.pod, s.gone)
			}
			if most := o.Most(); most != test.want {
				t.Errorf("%d nodes were down at once, want %d", most, test.want)
			}
		})
	}
}
