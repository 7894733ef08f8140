package daemonset

import (
	"iter"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// crashLoopRestarts is how often a container must have restarted before a CrashLoopBackOff
// is blamed on its version: pods that start before their dependencies may restart once or
// twice.
const crashLoopRestarts = 3

// NodeReady reports whether a node is Ready, and when that last changed. A node without a Ready
// condition has not been ready since its creation.
func NodeReady(node *corev1.Node) (ready bool, since metav1.Time) {
	for i := range node.Status.Conditions {
		c := &node.Status.Conditions[i]
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue, c.LastTransitionTime
		}
	}
	return false, node.CreationTimestamp
}

// NotReadySince returns when a pod became not Ready: the time of its Ready condition, or of its
// creation or deletion; zero if it is Ready.
func NotReadySince(pod *corev1.Pod) metav1.Time {
	ready := condition(pod, corev1.PodReady)
	switch {
	case pod.DeletionTimestamp != nil:
		return *pod.DeletionTimestamp
	case ready == nil:
		return pod.CreationTimestamp
	case ready.Status == corev1.ConditionTrue:
		return metav1.Time{}
	}
	return ready.LastTransitionTime
}

// CrashLooping reports whether a container of the pod is in CrashLoopBackOff after at least
// three restarts, and returns its name.
func CrashLooping(pod *corev1.Pod) (container string, looping bool) {
	if c := crashLooping(pod); c != nil {
		return c.Name, true
	}
	return "", false
}

// HasRestarted reports whether a container of a pod, which may be a sidecar, has restarted.
func HasRestarted(pod *corev1.Pod) bool {
	for c := range containersOf(pod) {
		if c.RestartCount > 0 {
			return true
		}
	}
	return false
}

// RanFor returns how long a container of a pod ran before it last ended, the longest of several; zero if none has ended.
func RanFor(pod *corev1.Pod) (longest time.Duration) {
	for c := range containersOf(pod) {
		if end := c.LastTerminationState.Terminated; end != nil {
			longest = max(longest, end.FinishedAt.Sub(end.StartedAt.Time))
		}
	}
	return longest
}

func crashLooping(pod *corev1.Pod) *corev1.ContainerStatus {
	for c := range containersOf(pod) {
		w := c.State.Waiting
		if w != nil && w.Reason == "CrashLoopBackOff" && c.RestartCount >= crashLoopRestarts {
			return c
		}
	}
	return nil
}

// containersOf returns the states of the containers of a pod, those of init containers and sidecars first.
func containersOf(pod *corev1.Pod) iter.Seq[*corev1.ContainerStatus] {
	return func(yield func(*corev1.ContainerStatus) bool) {
		for _, list := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
			for i := range list {
				if !yield(&list[i]) {
					return
				}
			}
		}
	}
}

// maxWords bounds the result of TerminationMessage, in bytes.
const maxWords = 300

// TerminationMessage returns the last line of the termination message of a container in a crash
// loop, or "". With policy FallbackToLogsOnError that may be the last line of its log.
func TerminationMessage(pod *corev1.Pod) string {
	c := crashLooping(pod)
	if c == nil || c.LastTerminationState.Terminated == nil {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(c.LastTerminationState.Terminated.Message), "\n")
	last := strings.TrimSpace(lines[len(lines)-1])
	if len(last) > maxWords {
		last = strings.ToValidUTF8(last[:maxWords], "") + "…"
	}
	return last
}

// BecameReady reports whether an update of a pod made it Ready.
func BecameReady(before, after *corev1.Pod) bool { return IsReady(after) && !IsReady(before) }

// IsReady reports whether a pod is Ready.
func IsReady(pod *corev1.Pod) bool {
	c := condition(pod, corev1.PodReady)
	return c != nil && c.Status == corev1.ConditionTrue
}

func condition(pod *corev1.Pod, t corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == t {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

// NeedUpgrade returns the PodNeedUpgrade condition of a pod, or nil.
func NeedUpgrade(pod *corev1.Pod) *corev1.PodCondition {
	return condition(pod, podNeedUpgrade)
}

// ImageReady returns the PodImageReady condition of a pod, or nil.
func ImageReady(pod *corev1.Pod) *corev1.PodCondition {
	return condition(pod, topsv1.PodImageReady)
}
