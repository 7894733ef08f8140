package daemonset

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// PodOf returns the pod that counts among those that one DaemonSet has on one node, nil
// when there is none. A terminating pod counts as long as its containers may run, before
// its successor; one whose containers have ended, and which only a finalizer keeps, counts
// last, as the DaemonSet controller does not wait for it. Of others it is the oldest, which
// is the one that the DaemonSet controller keeps.
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
	}
	return a.UID < b.UID
}

func rank(pod *corev1.Pod) int {
	ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	switch {
	case pod.DeletionTimestamp == nil:
		return 1
	case ended:
		return 2
	}
	return 0
}

// Newer reports whether a resourceVersion is later than another one of the same object.
// Where the API server's versions are not numbers, a different one is taken for later.
func Newer(version, than string) bool {
	order, err := resourceversion.CompareResourceVersion(version, than)
	if err != nil {
		return version != than
	}
	return order > 0
}
