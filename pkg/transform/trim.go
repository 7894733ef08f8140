// Package transform has what the manager's cache keeps of the objects that it watches. The simulations' caches of
// a manager keep the same, so that a decision that reads a field that is dropped here is seen there.
package transform

import (
	"runtime"
	"slices"
	"strings"
	"sync"
	"weak"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
)

// Trim returns a function that reduces objects to the fields that the controllers read. All writes are patches, so
// the other fields are not lost. It changes the object that it is given, and may be called concurrently.
func Trim() toolscache.TransformFunc {
	withoutManagedFields := cache.TransformStripManagedFields()
	byImage := &versions{}
	return func(object any) (any, error) {
		switch o := object.(type) {
		case *corev1.Pod:
			trimPod(o, byImage)
		case *corev1.Node:
			trimNode(o)
		case *appsv1.Deployment:
			o.Spec = appsv1.DeploymentSpec{Replicas: o.Spec.Replicas}
		case *batchv1.Job:
			o.Spec = batchv1.JobSpec{}
		case *topsv1.NodeUpgrade:
			trimNodeUpgrade(o)
		}
		return withoutManagedFields(object)
	}
}

// trimPod keeps the node, the owner, the state and the version of a pod, which is in the image of its
// first container; of pods of neither a DaemonSet nor a gr only the identity. Pods of one version share the
// list of containers in byImage, which is read only: there are many more pods than versions.
func trimPod(pod *corev1.Pod, byImage *versions) {
	owner := metav1.GetControllerOf(pod)
	if (owner == nil || owner.Kind != "DaemonSet") && pod.Labels[topsv1.LabelGcuResource] == "" {
		pod.ObjectMeta = metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion, OwnerReferences: pod.OwnerReferences,
		}
		pod.Spec, pod.Status = corev1.PodSpec{}, corev1.PodStatus{}
		return
	}
	pod.GenerateName, pod.Annotations = "", nil
	pod.Spec = corev1.PodSpec{NodeName: pod.Spec.NodeName, Affinity: pod.Spec.Affinity, SchedulingGates: pod.Spec.SchedulingGates, Containers: trimSpecs(pod.Spec.Containers, byImage)}
	if pod.Spec.NodeName != "" {
		pod.Spec.Affinity = nil // it is only for the scheduler
	}
	pod.Status = corev1.PodStatus{
		Phase: pod.Status.Phase, StartTime: pod.Status.StartTime,
		Conditions: only(pod.Status.Conditions, func(c *corev1.PodCondition) bool {
			return slices.Contains(keptConditions, c.Type)
		}),
		InitContainerStatuses: trimContainers(pod.Status.InitContainerStatuses),
		ContainerStatuses:     trimContainers(pod.Status.ContainerStatuses),
	}
}

// keptConditions are the kept conditions of pods. PodReadyToStartContainers says when the sandbox was last created.
var keptConditions = []corev1.PodConditionType{corev1.PodReady, corev1.PodReadyToStartContainers, topsv1.PodNeedUpgrade, topsv1.PodImageReady}

// trimSpecs keeps the image of the first container, and the names under which a device plugin offers cards.
func trimSpecs(containers []corev1.Container, byImage *versions) []corev1.Container {
	if len(containers) == 0 {
		return nil
	}
	kept, key := corev1.Container{Image: containers[0].Image}, containers[0].Image
	for i := range containers {
		for _, v := range containers[i].Env {
			if v.Name == daemonset.VariableOfResources {
				kept.Env = append(kept.Env, corev1.EnvVar{Name: v.Name, Value: v.Value})
				key += " " + v.Value
			}
		}
	}
	return byImage.share(key, &[1]corev1.Container{kept})
}

// versions are the lists of containers that pods have, by what is kept of them. One that no pod has any more is forgotten:
// anybody who may write pods invents images.
type versions struct{ sync.Map }

// share returns the list that pods already have, or this one.
func (v *versions) share(key string, list *[1]corev1.Container) []corev1.Container {
	own := weak.Make(list)
	for {
		stored, there := v.LoadOrStore(key, own)
		if !there {
			runtime.AddCleanup(list, func(key string) { v.CompareAndDelete(key, own) }, key)
			return list[:]
		}
		if shared := stored.(weak.Pointer[[1]corev1.Container]).Value(); shared != nil {
			return shared[:]
		}
		v.CompareAndDelete(key, stored) // as its cleanup is about to do
	}
}

// trimContainers keeps, of containers that wait, run or were restarted, the reason, the start time, the restarts, how long
// they ran before they last ended and, while they wait, the last termination message. Others have ended for good.
func trimContainers(statuses []corev1.ContainerStatus) []corev1.ContainerStatus {
	trimmed := only(statuses, func(s *corev1.ContainerStatus) bool {
		return s.State.Waiting != nil || s.State.Running != nil || s.RestartCount > 0
	})
	for i, s := range trimmed {
		trimmed[i] = corev1.ContainerStatus{Name: s.Name, RestartCount: s.RestartCount,
			State: corev1.ContainerState{Waiting: s.State.Waiting, Running: s.State.Running}}
		ended := s.LastTerminationState.Terminated
		if ended == nil {
			continue
		}
		kept := &corev1.ContainerStateTerminated{StartedAt: ended.StartedAt, FinishedAt: ended.FinishedAt}
		if s.State.Waiting != nil {
			kept.Message = ended.Message
		}
		trimmed[i].LastTerminationState.Terminated = kept
	}
	return trimmed
}

// trimNode keeps condition Ready, the extended resources, because an operation is reconciled when
// the accelerator is back, the machine, for policies of versions the kernel and, for what the toolkit
// has to configure, the version of the kubelet.
func trimNode(node *corev1.Node) {
	var offers corev1.ResourceList
	for name, quantity := range node.Status.Allocatable {
		if !strings.Contains(string(name), "/") {
			continue
		}
		if offers == nil {
			offers = corev1.ResourceList{}
		}
		offers[name] = quantity
	}
	node.Status = corev1.NodeStatus{
		Conditions:  only(node.Status.Conditions, func(c *corev1.NodeCondition) bool { return c.Type == corev1.NodeReady }),
		Allocatable: offers,
		NodeInfo: corev1.NodeSystemInfo{MachineID: node.Status.NodeInfo.MachineID, KernelVersion: node.Status.NodeInfo.KernelVersion,
			KubeletVersion: node.Status.NodeInfo.KubeletVersion},
	}
}

// trimNodeUpgrade removes the tasks of an operation that has ended: its writers read the object without the
// cache. What is kept of earlier ones, up to twenty per node, has the names of the same tasks again and again:
// each name is kept once.
func trimNodeUpgrade(upgrade *topsv1.NodeUpgrade) {
	names := map[string]string{}
	for i := range upgrade.Status.History {
		result := &upgrade.Status.History[i].Result
		for _, tasks := range [][]string{result.Done, result.Fail, result.Undo} {
			for j, name := range tasks {
				if _, found := names[name]; !found {
					names[name] = name
				}
				tasks[j] = names[name]
			}
		}
	}
	if op := upgrade.Status.Operation; op != nil && op.Phase.Final() && !op.Held {
		op.Tasks = nil
	}
}

// only returns a new list of the elements to keep, nil if there are none.
func only[T any](list []T, keep func(*T) bool) []T {
	var kept []T
	for i := range list {
		if keep(&list[i]) {
			kept = append(kept, list[i])
		}
	}
	return kept
}
