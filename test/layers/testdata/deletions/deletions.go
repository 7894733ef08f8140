// Package deletions deletes pods on its own, and other objects.
package deletions

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Delete deletes a pod in each way that there is, and a node.
func Delete(ctx context.Context, c client.Client, pods corev1client.PodInterface, pod *corev1.Pod) error {
	return errors.Join(
		c.Delete(ctx, pod),
		c.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(pod.Namespace)),
		pods.Delete(ctx, pod.Name, metav1.DeleteOptions{}),
		c.Delete(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: pod.Spec.NodeName}}),
	)
}
