package rollout

import (
	"slices"
	"testing"
	"time"
)

// pairOf returns a group of two members, of which the first has failed node a.
func pairOf(reason Reason, nodes ...Node) Input {
	in := inputOf(2, nodes...)
	in.Members = []Member{{Key: "kube-system/a", Target: newHash}, {Key: "kube-system/b", Target: newHash}}
	in.Ledger.Failures = []Failure{{Node: "a", UID: "uid-a", Reason: reason, Since: epoch.Add(-time.Hour), Targets: []Target{{"kube-system/a", newHash}}}}
	return in
}

func TestAComponentThatWasOnlySlowDoesNotKeepItsNodeFromTheOthers(t *testing.T) {
	slow := broken(nodeOf("a", newHash, oldHash))
	slot := slotOf(slow, DefaultDeadlines.Progress)
	slot.Pod, slot.Members = "pod-a-0-old", []string{"kube-system/a"}
	in := pairOf("", slow).slots(slot)
	in.Ledger.Failures = nil
	d := Plan(in)
	if len(d.Ledger.Failures) != 1 || !slices.Equal(d.Ledger.Failures[0].Targets, []Target{{"kube-system/a", newHash}}) || len(d.Started) > 0 {
		t.Fatalf("failures %+v, started %v at the deadline", d.Ledger.Failures, d.Started)
	}
	in.Ledger, in.Now = d.Ledger, epoch.Add(2*time.Minute)
	in.Nodes[0] = nodeOf("a", newHash, oldHash)
	if d = Plan(in); len(d.Ledger.Failures) > 0 || !slices.Equal(d.Started, []string{"a"}) {
		t.Errorf("failures %+v, started %v, want that the node goes on with the other component", d.Ledger.Failures, d.Started)
	}
	if len(d.Delete) != 1 || d.Delete[0].Member != 1 {
		t.Errorf("deleted %+v", d.Delete)
	}
}

// The plugin comes last as long as it offers none, so other pods are replaced after it.
func TestAPluginThatOffersNoCardsIsToBlameForItsNode(t *testing.T) {
	n := with(nodeOf("a", newHash, newHash), func(n *Node) { n.Pods[0].OffersNone = true })
	slot := slotOf(n, DefaultDeadlines.Progress)
	slot.Pod, slot.Members = "pod-a-1-old", []string{"kube-system/a", "kube-system/b"}
	in := pairOf("", n).slots(slot)
	in.Ledger.Failures = nil
	for pass := range 2 {
		d := Plan(in)
		if len(d.Ledger.Failures) != 1 || !slices.Equal(d.Ledger.Failures[0].Targets, []Target{{"kube-system/a", newHash}}) {
			t.Errorf("pass %d: failures %+v, want that the plugin failed", pass, d.Ledger.Failures)
		}
		in.Ledger = d.Ledger
	}
}

// After an operation, whatever it replaced may be why the plugin offers none.
func TestAPluginWithoutCardsIsNotToBlameAloneAfterAnOperation(t *testing.T) {
	in := pairOf("", nodeOf("a", newHash, newHash))
	g := groupOf(&in)
	n := &in.Nodes[0]
	n.group, n.available = &g, true
	n.Pods[0].OffersNone = true
	for operation, want := range map[string]int{"": 1, "op": 2} {
		slot := slotOf(*n, time.Hour)
		slot.Pod, slot.Members, slot.Operation = "", []string{"kube-system/a", "kube-system/b"}, operation
		if failed, _ := failureOf(&in, &slot, epoch.Add(-time.Hour), n); failed == nil || len(failed.Targets) != want {
			t.Errorf("after operation %q: failure %+v, want %d targets", operation, failed, want)
		}
	}
}

func TestAFailureEndsOnceWhatIsToBlameWorks(t *testing.T) {
	const s = time.Second
	half := func() Node { return nodeOf("a", newHash, oldHash) }
	again := func(ago, ran time.Duration) Node {
		return withPod(half(), func(p *Pod) { p.ReadyAgain, p.Ran = epoch.Add(-ago), ran })
	}
	other := func(change func(*Pod)) Node { return with(half(), func(n *Node) { change(&n.Pods[1]) }) }
	paused := func(in *Input) { in.Settings.Paused = true } // or it would start again
	heavy := func(in *Input) { paused(in); in.Members[0].Heavy = true }
	tests := []struct {
		name    string
		reason  Reason
		node    Node
		change  func(*Input)
		holds   bool
		recheck time.Duration
	}{
		{"it is available again", ReasonProgressDeadlineExceeded, half(), nil, false, 0},
		{"a node that was lost is back", ReasonNodeLost, half(), paused, false, 0},
		{"not while the node is offline", ReasonNodeLost, offline(half()), nil, true, 0},
		{"not if the pod is of another revision", ReasonProgressDeadlineExceeded, nodeOf("a", oldHash, oldHash), nil, true, 0},
		{"not while the pod is not available", ReasonProgressDeadlineExceeded, broken(half()), nil, true, 0},
		{"not while the pod is missing", ReasonProgressDeadlineExceeded, missing(half()), nil, true, 0},
		{"not while the plugin offers no cards", ReasonProgressDeadlineExceeded, withPod(half(), func(p *Pod) { p.OffersNone = true }), nil, true, 0},
		{"not a moment after a container has crashed", ReasonProgressDeadlineExceeded, again(29*s, s), nil, true, s},
		{"but half a minute later", ReasonProgressDeadlineExceeded, again(30*s, s), nil, false, 0},
		{"not in a moment between two crashes", ReasonNodeLost, again(119*s, time.Minute), paused, true, s},
		{"nor between two of the crash loop", ReasonCrashLooping, again(119*s, time.Minute), nil, true, s},
		{"not while another pod of the new version does not work", ReasonProgressDeadlineExceeded, with(nodeOf("a", newHash, newHash), func(n *Node) { n.Pods[1].Available = false }), nil, true, 0},
		{"not in a moment of a pod that is Ready by turns", ReasonProgressDeadlineExceeded, withPod(half(), func(p *Pod) { p.WorksSince = epoch.Add(-29 * s) }), nil, true, s},
		{"but once it has been Ready for half a minute", ReasonProgressDeadlineExceeded, withPod(half(), func(p *Pod) { p.WorksSince = epoch.Add(-30 * s) }), nil, false, 0},
		{"not in a later moment of it", ReasonProgressDeadlineExceeded, withPod(half(), func(p *Pod) { p.AvailableSince, p.WorksSince = epoch.Add(-time.Hour), epoch.Add(-29*s) }), nil, true, s},
		{"whatever a kubelet writes whose clock is ahead", ReasonProgressDeadlineExceeded, withPod(half(), func(p *Pod) { p.AvailableWritten = epoch.Add(time.Hour) }), nil, false, 0},
		{"not in a moment in which the node is back", ReasonNodeLost, with(half(), func(n *Node) { n.ReadySince = epoch.Add(-29 * s) }), paused, true, s},
		{"not if an operation was lost that did not verify its work", ReasonNodeLost, withPod(half(), func(p *Pod) { p.Unverified = true }), heavy, true, 0},
		{"but a light pod is not verified", ReasonNodeLost, withPod(half(), func(p *Pod) { p.Unverified = true }), paused, false, 0},
		{"a crash loop is over though an operation has to verify the node", ReasonCrashLooping, withPod(half(), func(p *Pod) { p.Unverified = true }), heavy, false, 0},
		{"not while an operation keeps the node out of service", ReasonProgressDeadlineExceeded, with(half(), func(n *Node) { n.Disturbed = true }), nil, true, 0},
		{"not if the operation failed: another one has to verify the node", ReasonOperationFailed, half(), nil, true, 0},
		{"not if an older version recorded nothing to blame", ReasonProgressDeadlineExceeded, half(), func(in *Input) { in.Ledger.Failures[0].Targets = nil }, true, 0},
		{"though what is left is not requested", ReasonProgressDeadlineExceeded, half(), func(in *Input) { in.Settings.Strategy = "OTA" }, false, 0},
		{"though what is left has no cards", ReasonProgressDeadlineExceeded, other(func(p *Pod) { p.Revision, p.NoCards = newHash, true }), nil, false, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in := pairOf(tt.reason, tt.node)
			if tt.change != nil {
				tt.change(&in)
			}
			d := Plan(in)
			if holds := d.Counts.Failed == 1; holds != tt.holds || tt.recheck > 0 && d.Recheck != tt.recheck {
				t.Errorf("failures %+v, decides again after %s; want it to hold: %t", d.Ledger.Failures, d.Recheck, tt.holds)
			}
		})
	}
}

func TestTwoNodesWhoseComponentWasOnlySlowEndTheirHalt(t *testing.T) {
	in := pairOf(ReasonProgressDeadlineExceeded, broken(nodeOf("a", newHash, oldHash)), broken(nodeOf("b", newHash, oldHash)), nodeOf("c", oldHash, oldHash))
	in.Ledger.Failures = append(in.Ledger.Failures, in.Ledger.Failures[0])
	in.Ledger.Failures[1].Node, in.Ledger.Failures[1].UID = "b", "uid-b"
	if d := Plan(in); d.Halted == "" {
		t.Fatalf("failures %+v, and no halt", d.Ledger.Failures)
	}
	in.Nodes[0], in.Nodes[1] = nodeOf("a", newHash, oldHash), nodeOf("b", newHash, oldHash)
	if d := Plan(in); d.Halted != "" || len(d.Started) != 2 {
		t.Errorf("halted %q, started %v", d.Halted, d.Started)
	}
}
