package daemonset

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestPodOf(t *testing.T) {
	noon := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	pod := func(uid types.UID, minute int, deleted bool, phase corev1.PodPhase) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid, CreationTimestamp: metav1.NewTime(noon.Add(time.Duration(minute) * time.Minute))},
			Status: corev1.PodStatus{Phase: phase}}
		if deleted {
			p.DeletionTimestamp = &metav1.Time{Time: noon}
		}
		return p
	}
	for _, tc := range []struct {
		name string
		pods []*corev1.Pod
		want types.UID
	}{
		{"there may be none", nil, ""},
		{"the oldest counts", []*corev1.Pod{pod("b", 2, false, corev1.PodRunning), pod("a", 1, false, corev1.PodRunning)}, "a"},
		{"of the same age the first by UID counts", []*corev1.Pod{pod("b", 1, false, corev1.PodRunning), pod("a", 1, false, corev1.PodRunning)}, "a"},
		{"a terminating pod counts before its successor", []*corev1.Pod{pod("new", 3, false, corev1.PodPending), pod("old", 2, true, corev1.PodRunning)}, "old"},
		{"also one of the same second", []*corev1.Pod{pod("new", 2, false, corev1.PodPending), pod("old", 2, true, corev1.PodRunning)}, "old"},
		{"but not before an older one, beside which it was one too many", []*corev1.Pod{pod("surplus", 3, true, corev1.PodRunning), pod("kept", 2, false, corev1.PodRunning)}, "kept"},
		{"a pod that has ended and is kept by a finalizer counts after it", []*corev1.Pod{pod("old", 1, true, corev1.PodFailed), pod("new", 2, false, corev1.PodRunning)}, "new"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got types.UID
			if p := PodOf(tc.pods); p != nil {
				got = p.UID
			}
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
