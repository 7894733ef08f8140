package daemonset

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/utils/ptr"
)

// PodOf returns the pod that counts among a DaemonSet's pods on one node, or nil. A
// terminating pod counts before its successor while its containers may run, but not before an older pod, beside which
// it was one too many; one whose containers have ended, kept only by a finalizer, counts last, because the DaemonSet
// controller does not wait for it. One that awaits an upgrade counts after others that live, and among others
// the oldest counts: those are the ones that the DaemonSet controller keeps.
func PodOf(pods []*corev1.Pod) *corev1.Pod {
	var counts *corev1.Pod
	for _, pod := range pods {
		if counts == nil || before(pod, counts) {
			counts = pod
		}
	}
	return counts
}

func before(a, b *corev1.Pod) bool {
	switch {
	case rank(a) != rank(b):
		return rank(a) < rank(b)
	case !a.CreationTimestamp.Equal(&b.CreationTimestamp):
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	case (a.DeletionTimestamp == nil) != (b.DeletionTimestamp == nil):
		return a.DeletionTimestamp != nil
	}
	return a.UID < b.UID
}

// DeletedAt returns when the deletion of a pod that is being deleted began: deletionTimestamp is the end of its grace period.
func DeletedAt(pod *corev1.Pod) time.Time {
	return pod.DeletionTimestamp.Add(-time.Duration(ptr.Deref(pod.DeletionGracePeriodSeconds, 0)) * time.Second)
}

// HasLeft reports whether a pod is deleted, its containers have ended, and only a finalizer keeps it.
func HasLeft(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil && (pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed)
}

func rank(pod *corev1.Pod) int {
	switch {
	case HasLeft(pod):
		return 2
	case pod.DeletionTimestamp == nil && AwaitsUpgrade(pod):
		return 1
	}
	return 0
}

// Newer reports whether a resourceVersion is later than another one of the same object. If
// they are not numbers, any different version counts as later.
func Newer(version, than string) bool {
	order, err := resourceversion.CompareResourceVersion(version, than)
	if err != nil {
		return version != than
	}
	return order > 0
}
