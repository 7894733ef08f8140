package world

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
)

// Deploy creates what the first component of a stored gr is on Ready nodes NAME-1 to NAME-3: its DaemonSet, the
// revision and a pod on each. create creates an object with its status, and sets its UID. There can be one such
// DaemonSet at a time.
func Deploy(gr *topsv1.GcuResource, create func(client.Object)) error {
	rendered, err := component.Render(gr, gr.Name+"-1")
	if err != nil {
		return fmt.Errorf("rendering gr %s: %w", gr.Name, err)
	}
	set := rendered[0].PerNode
	set.Status.ObservedGeneration = 1
	create(set)
	owner := []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: set.Name, UID: set.UID, Controller: ptr.To(true)}}
	hash := map[string]string{component.LabelName: set.Name, appsv1.ControllerRevisionHashLabelKey: "old"}
	revision := &appsv1.ControllerRevision{Revision: 1, ObjectMeta: metav1.ObjectMeta{Namespace: set.Namespace, Name: set.Name + "-old", Labels: hash, OwnerReferences: owner}}
	revision.Data.Raw = []byte("{}")
	create(revision)
	for i := range 3 {
		node := fmt.Sprintf("%s-%d", gr.Name, i+1)
		create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node, Labels: map[string]string{topsv1.LabelGcuPresent: "true"}},
			Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}})
		create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: set.Namespace, Name: node, Labels: hash, OwnerReferences: owner},
			Spec:   corev1.PodSpec{NodeName: node, TerminationGracePeriodSeconds: ptr.To[int64](0), Containers: []corev1.Container{{Name: "main", Image: "app:1"}}},
			Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}})
	}
	return nil
}
