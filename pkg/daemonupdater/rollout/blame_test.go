package rollout

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// TestAFailedOperationBlamesTheRevisionsThatItRanFor: the revision of the group changed before the
// end of the operation was reviewed, because the group was blocked meanwhile.
func TestAFailedOperationBlamesTheRevisionsThatItRanFor(t *testing.T) {
	driver := []Target{{"kube-system/driver", newHash}}
	for _, tt := range []struct {
		name    string
		ran     []Target
		failure Reason
		blamed  []Target
	}{
		{"those that are still targets", driver, ReasonOperationFailed, driver},
		{"not those of before", []Target{{"kube-system/driver", "between"}}, ReasonOperationFailed, nil},
		{"nor revisions that are not known any more", nil, ReasonOperationFailed, nil},
		{"and none when it was dropped", driver, "", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := withEnd(heavyNode("a"), tt.failure)
			n.Ended[0].Targets = tt.ran
			slot := operating(n)
			slot.Revision = "r1" // the exporter has another target since
			var blamed []Target
			for _, f := range Plan(heavyInput(1, n).slots(slot)).Ledger.Failures {
				blamed = f.Targets
			}
			if diff := cmp.Diff(tt.blamed, blamed, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("blamed (-want +got):\n%s", diff)
			}
		})
	}
	n := withEnd(heavyNode("a"), ReasonOperationFailed)
	if f := Plan(heavyInput(1, n).slots(operating(n))).Ledger.Failures; len(f) != 1 || !cmp.Equal(f[0].Targets, driver) {
		t.Errorf("failures %+v of an operation of now whose revisions are not known, want those of its slot blamed", f)
	}
}

// TestAFailureBlamesThePodThatTheNodeWaitedFor: two members are new, and the second one hangs, or
// takes the node down. Another revision of the first one changes nothing about that.
func TestAFailureBlamesThePodThatTheNodeWaitedFor(t *testing.T) {
	first, second := []Target{{"kube-system/a", newHash}}, []Target{{"kube-system/b", newHash}}
	pair := func(change func(*Node), members ...string) Input {
		n := nodeOf("a", newHash, newHash)
		n.Pods[0].Created, n.Pods[1].Created = epoch.Add(-100*time.Second), epoch.Add(-70*time.Second)
		n.Pods[1].Available = false
		change(&n)
		slot := slotOf(n, time.Hour)
		slot.Pod, slot.PodVersion, slot.Members = "pod-a-1-old", "1", members
		in := inputOf(1, n).slots(slot)
		in.Members = []Member{{Key: "kube-system/a", Target: newHash}, {Key: "kube-system/b", Target: newHash}}
		return in
	}
	hangs := func(*Node) {}
	lost := func(n *Node) { *n = offline(*n); n.ReadySince = epoch.Add(-time.Hour) }
	gone := func(n *Node) { lost(n); n.Pods[1] = Pod{Member: 1} }
	aside := func(n *Node) { n.Pods[0].Available, n.Pods[1].Available, n.Pods[1].Placeholder = false, true, true }
	suspect := pair(func(n *Node) { *n = offline(*n); n.ReadyWritten = n.ReadySince })
	suspect.Ledger.Slots, suspect.Ledger.LastStart = nil, epoch.Add(-2*time.Minute)
	crashes := pair(func(n *Node) { n.Pods[0].Available, n.Pods[0].CrashLooping = false, "main" }, "kube-system/a", "kube-system/b")
	byOperation := pair(hangs, "kube-system/a", "kube-system/b")
	byOperation.Ledger.Slots[0].Pod, byOperation.Ledger.Slots[0].Operation = "", "op-a"
	byOperation.Nodes[0] = withDone(byOperation.Nodes[0])
	byOperation.Nodes[0].Ended[0].Time = epoch.Add(-time.Hour)
	for _, tt := range []struct {
		name   string
		in     Input
		blamed []Target
	}{
		{"that hangs", pair(hangs, "kube-system/a", "kube-system/b"), second},
		{"whatever their order is", pair(hangs, "kube-system/b", "kube-system/a"), first},
		{"with which the node was lost", pair(lost, "kube-system/a", "kube-system/b"), second},
		{"also before it was seen", pair(gone, "kube-system/a", "kube-system/b"), second},
		{"not one in which nothing runs", pair(aside, "kube-system/a", "kube-system/b"), first},
		{"the youngest, when the slot was given back before", suspect, second},
		{"but the one that crash-loops", crashes, first},
		{"all, when an operation replaced them", byOperation, append(first, second...)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var blamed []Target
			for _, f := range Plan(tt.in).Ledger.Failures {
				blamed = f.Targets
			}
			if diff := cmp.Diff(tt.blamed, blamed); diff != "" {
				t.Errorf("blamed (-want +got):\n%s", diff)
			}
		})
	}
}
