package daemonupdater

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestDeletedPodsAreRememberedUntilTheCacheShowsIt(t *testing.T) {
	driver := daemonSet("driver")
	mine, other := groupOf(driver), Group{Kind: kindGcuResource, Name: "fleet"}
	seen := func(pods ...*corev1.Pod) *view { return observed([]memberAndPods{memberWith(driver, pods...)}).view }
	const uid = types.UID("uid-driver-a")
	tests := []struct {
		name  string
		prune func(d *deletedPods)
		want  bool
	}{
		{"as long as the cache shows the pod alive", func(d *deletedPods) { d.prune(mine, seen(podOn(driver, "a", oldHash))) }, true},
		{"not when the cache shows it terminating", func(d *deletedPods) { d.prune(mine, seen(deleting(podOn(driver, "a", oldHash)))) }, false},
		{"not when the cache does not show it any more", func(d *deletedPods) { d.prune(mine, seen(podOn(driver, "b", oldHash))) }, false},
		{"not when the group is gone", func(d *deletedPods) { d.prune(mine, nil) }, false},
		{"when another group is looked at", func(d *deletedPods) { d.prune(other, seen()) }, true},
		{"when another group is gone", func(d *deletedPods) { d.prune(other, nil) }, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var d deletedPods
			d.prune(mine, seen()) // of a process that deleted nothing yet
			if d.has(uid) {
				t.Fatal("remembers a pod that was not deleted")
			}
			d.add(uid, mine, "a")
			tt.prune(&d)
			if diff := cmp.Diff(tt.want, d.has(uid)); diff != "" {
				t.Errorf("remembered (-want +got):\n%s", diff)
			}
		})
	}
}
