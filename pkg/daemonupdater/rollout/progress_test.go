package rollout

import (
	"testing"
	"time"
)

// Whoever reads the ledger knows when the rollout last went on.
func TestTheLedgerHasTheLastProgress(t *testing.T) {
	before, end := epoch.Add(-time.Hour), epoch.Add(-time.Second) // that of withEnd
	a, updated := nodeOf("a", oldHash), nodeOf("b", newHash)
	replaced := slotOf(updated, time.Minute)
	pair := nodeOf("a", newHash, oldHash)
	halfWay := slotOf(pair, time.Minute)
	halfWay.Pod, halfWay.Members = "pod-a-0-old", []string{"kube-system/a"}
	asked := halfWay
	asked.Pod, asked.PodVersion, asked.Members = pair.Pods[1].UID, pair.Pods[1].Version, []string{"kube-system/a", "kube-system/b"}
	both := func(slot Slot) Input {
		in := inputOf(1, pair).slots(slot)
		in.Members = []Member{{Key: "kube-system/a", Target: newHash}, {Key: "kube-system/b", Target: newHash}}
		return in
	}
	failed, done, runs := withEnd(heavyNode("a"), ReasonOperationFailed), withDone(nodeOf("a", newHash, newHash)), granted(heavyNode("a"))
	blocked := inputOf(1, a)
	blocked.Blocked = &Blocked{Reason: "Invalid"}
	for _, tt := range []struct {
		name string
		in   Input
		want time.Time
	}{
		{"nothing goes on while nodes are held", func() Input { in := inputOf(1, a); in.Settings.Paused = true; return in }(), before},
		{"nor while the group is blocked", blocked, before},
		{"nor while a pod is not available yet", inputOf(1, broken(nodeOf("b", newHash))).slots(replaced), before},
		{"a node is started", inputOf(1, a), epoch},
		{"a deletion that was denied is tried again", inputOf(1, func() Node {
			n := nodeOf("a", oldHash)
			n.DeniedDeletion = &Denial{Object: n.Pods[0].UID, Since: before, Retry: end}
			return n
		}()), before},
		{"a node has finished, and it was the last one", inputOf(1, updated).slots(replaced), epoch},
		{"the next pod of a node is due", both(halfWay), epoch},
		{"and is still there", both(asked), before},
		{"an operation runs: its tasks are in the NodeUpgrade", heavyInput(1, runs).slots(operating(runs)), before},
		{"an operation has failed", heavyInput(1, failed).slots(operating(failed)), end},
		{"an operation is done", heavyInput(1, done).slots(operating(done)), epoch},
	} {
		tt.in.Ledger.LastProgress = before
		if got := Plan(tt.in).Ledger.LastProgress; !got.Equal(tt.want) {
			t.Errorf("%s: the last progress was at %v, want %v", tt.name, got, tt.want)
		}
	}
	ahead := inputOf(1)
	ahead.Ledger.LastProgress = epoch.Add(time.Hour)
	if got := Plan(ahead).Ledger.LastProgress; !got.Equal(epoch) {
		t.Errorf("after the clock went back the last progress was at %v, want now", got)
	}
}
