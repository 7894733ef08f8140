package access

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
)

// CorrectSlots rewrites slots from before a time, or of a clock that was ahead, that name a pod version newer than both the
// cache and a live read show, or one that another pod has now: etcd was restored from a backup, so the deletion of that
// version cannot happen.
func (c Cluster) CorrectSlots(ctx context.Context, members []observed.Member, f *rollout.Fleet, slots []rollout.Slot, before time.Time) (err error) {
	pods := map[int][]corev1.Pod{}
	for _, r := range f.Reversed(slots, before) {
		live, read := pods[r.Seen.Member]
		if !read {
			if live, err = c.LivePods(ctx, members[r.Seen.Member]); err != nil {
				return err
			}
			pods[r.Seen.Member] = live
		}
		if isReversed(&r, live) {
			r.Pod, r.PodVersion = r.Seen.UID, r.Seen.Version
		}
	}
	return nil
}

// isReversed reports whether the live pods include the one seen, and none with the UID that the slot names at
// another version.
func isReversed(r *rollout.Reversed, live []corev1.Pod) bool {
	isSeen := func(pod corev1.Pod) bool { return pod.UID == r.Seen.UID && pod.ResourceVersion == r.Seen.Version }
	return slices.ContainsFunc(live, isSeen) && !slices.ContainsFunc(live, func(pod corev1.Pod) bool { return pod.UID == r.Pod && !isSeen(pod) })
}
