package main

import (
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// trim keeps of objects only what the controllers read before they get into the
// cache: most of a pod or a node is never looked at. Nothing in the cache is
// written back as a whole, all writes are patches, so nothing is lost.
func trim() toolscache.TransformFunc {
	withoutManagedFields := cache.TransformStripManagedFields()
	return func(object any) (any, error) {
		switch o := object.(type) {
		case *corev1.Pod:
			trimPod(o)
		case *corev1.Node:
			trimNode(o)
		case *appsv1.Deployment:
			o.Spec = appsv1.DeploymentSpec{Replicas: o.Spec.Replicas}
		case *batchv1.Job:
			o.Spec = batchv1.JobSpec{}
		}
		return withoutManagedFields(object)
	}
}

// trimPod keeps where the pod is, whose it is and how it is. Of pods that belong
// neither to a DaemonSet nor to a gr only the name is left.
func trimPod(pod *corev1.Pod) {
	owner := metav1.GetControllerOf(pod)
	if (owner == nil || owner.Kind != "DaemonSet") && pod.Labels[topsv1.LabelGcuResource] == "" {
		pod.ObjectMeta = metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion, OwnerReferences: pod.OwnerReferences,
		}
		pod.Spec, pod.Status = corev1.PodSpec{}, corev1.PodStatus{}
		return
	}
	pod.Annotations = nil
	pod.Spec = corev1.PodSpec{NodeName: pod.Spec.NodeName, Affinity: pod.Spec.Affinity}
	if pod.Spec.NodeName != "" {
		pod.Spec.Affinity = nil // it named the node for the scheduler
	}
	pod.Status = corev1.PodStatus{
		Phase: pod.Status.Phase, Conditions: pod.Status.Conditions,
		InitContainerStatuses: trimContainers(pod.Status.InitContainerStatuses),
		ContainerStatuses:     trimContainers(pod.Status.ContainerStatuses),
	}
}

// trimContainers keeps why containers wait, since when they run and how often they
// restarted.
func trimContainers(statuses []corev1.ContainerStatus) []corev1.ContainerStatus {
	if len(statuses) == 0 {
		return nil
	}
	kept := make([]corev1.ContainerStatus, len(statuses))
	for i := range statuses {
		kept[i] = corev1.ContainerStatus{
			Name: statuses[i].Name, RestartCount: statuses[i].RestartCount,
			State: corev1.ContainerState{Waiting: statuses[i].State.Waiting, Running: statuses[i].State.Running},
		}
	}
	return kept
}

// trimNode leaves out what is on the node's disks.
func trimNode(node *corev1.Node) {
	node.Status = corev1.NodeStatus{
		Conditions: node.Status.Conditions, NodeInfo: node.Status.NodeInfo,
		Capacity: node.Status.Capacity, Allocatable: node.Status.Allocatable,
	}
}
