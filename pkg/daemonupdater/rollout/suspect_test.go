package rollout

import (
	"slices"
	"testing"
	"time"
)

// offlineAfterUpdate returns an offline node that went offline some time after its new pod was
// created.
func offlineAfterUpdate(name string, after time.Duration) Node {
	n := withPod(offline(nodeOf(name, newHash)), func(p *Pod) { p.Available = false })
	n.ReadyWritten = n.ReadySince
	n.Pods[0].Created = n.ReadySince.Add(-after)
	return n
}

func TestANodeThatGoesOfflineShortlyAfterItWasUpdatedFailed(t *testing.T) {
	tests := []struct {
		name   string
		node   Node
		change func(*Input)
		failed bool
	}{
		{"within two minutes of its new pod", offlineAfterUpdate("a", time.Minute), func(*Input) {}, true},
		{"not when the pod was older", offlineAfterUpdate("a", 3*time.Minute), func(*Input) {}, false},
		{"not when the pod was made after it went offline", offlineAfterUpdate("a", -time.Second), func(*Input) {}, false},
		{"not when it is outdated: it is skipped", withPod(offlineAfterUpdate("a", time.Minute), func(p *Pod) { p.Revision = oldHash }), func(*Input) {}, false},
		{"not when it joined long after the last start", offlineAfterUpdate("a", time.Minute), func(in *Input) { in.Ledger.LastStart = epoch.Add(-time.Hour) }, false},
		{"not when a person resumed the rollout since", offlineAfterUpdate("a", time.Minute), func(in *Input) { in.Ledger.ResumedAt = epoch }, false},
		{"not when a person resumes the rollout now", offlineAfterUpdate("a", time.Minute), func(in *Input) { in.Resume = "monday" }, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in := inputOf(1, tt.node, nodeOf("b", newHash))
			in.Ledger.LastStart = epoch.Add(-2 * time.Minute)
			tt.change(&in)
			d := Plan(in)
			if failed := d.Counts.Failed == 1; failed != tt.failed {
				t.Errorf("counts %+v, failures %v; want it failed: %v", d.Counts, d.Ledger.Failures, tt.failed)
			}
		})
	}
}

func TestAVersionThatTakesNodesDownLaterHaltsTheRollout(t *testing.T) {
	in := inputOf(1, offlineAfterUpdate("a", time.Minute), offlineAfterUpdate("b", time.Minute), nodeOf("c", oldHash))
	in.Ledger.LastStart = epoch
	d := Plan(in)
	if d.Halted == "" || len(d.Started) != 0 {
		t.Fatalf("halted %q, started %v; want a halt", d.Halted, d.Started)
	}
	in.Ledger = d.Ledger
	in.Nodes[0], in.Nodes[1] = nodeOf("a", newHash), nodeOf("b", newHash)
	if d := Plan(in); d.Halted != "" || len(d.Started) != 1 {
		t.Errorf("halted %q, started %v when both are back; want node c started", d.Halted, d.Started)
	}
}

// givenBack returns a node that gave its slot back that long ago, and whose new pod is not Ready since a later time.
func givenBack(name string, ago, since time.Duration) Node {
	n := withPod(nodeOf(name, newHash), func(p *Pod) { p.Available, p.NotReadySince = false, epoch.Add(-since) })
	n.ReadySince = epoch.Add(-time.Hour)
	n.LastSlot = LastSlot{Members: []string{"kube-system/a"}, End: epoch.Add(-ago)}
	return n
}

// with changes a node.
func with(n Node, change func(*Node)) Node {
	change(&n)
	return n
}

func TestANodeThatStopsWorkingAfterItGaveItsSlotBackFailed(t *testing.T) {
	crashes := func() Node {
		return withPod(givenBack("a", 2*time.Minute, 20*time.Second), func(p *Pod) { p.CrashLooping = "main" })
	}
	hangs := func(since time.Duration) Node { return givenBack("a", since+time.Minute, since) }
	progress := DefaultDeadlines.Progress
	tests := []struct {
		name    string
		node    Node
		change  func(*Input)
		failed  Reason
		recheck time.Duration
	}{
		{"its new pod crash-loops", crashes(), nil, ReasonCrashLooping, 0},
		{"its new pod has not been available for long", hangs(progress - time.Minute), nil, "", time.Minute},
		{"its new pod has not been available for the deadline", hangs(progress), nil, ReasonProgressDeadlineExceeded, 0},
		{"not a node that gave back no slot", with(crashes(), func(n *Node) { n.LastSlot = LastSlot{} }), nil, "", 0},
		{"not for a member that was not replaced", with(crashes(), func(n *Node) { n.LastSlot.Members = []string{"kube-system/b"} }), nil, "", 0},
		{"not for a pod of an earlier revision", withPod(crashes(), func(p *Pod) { p.Revision = oldHash }), func(in *Input) { in.Settings.Paused = true }, "", 0},
		{"not for a pod of a revision that the node is kept at", withPod(crashes(), func(p *Pod) { p.Revision = oldHash }), func(in *Input) {
			in.Ledger.Pins = []Pin{{Node: "a", UID: "uid-a", Member: "kube-system/a", Revision: oldHash, From: newHash}}
		}, "", 0},
		{"not for a pod that is deleted", withPod(crashes(), func(p *Pod) { p.Terminating = true }), nil, "", 0},
		{"not if it worked for long", givenBack("a", 3*progress, progress), nil, "", 0},
		{"not if the node was offline since", with(crashes(), func(n *Node) { n.ReadySince = epoch.Add(-10 * time.Second) }), nil, "", 0},
		{"not when a person resumed the rollout since", crashes(), func(in *Input) { in.Ledger.ResumedAt = epoch.Add(-time.Minute) }, "", 0},
		{"not while another group works on the node", with(crashes(), func(n *Node) { n.Disturbed, n.Operation = true, &Operation{ID: "x", Granted: true} }), nil, "", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in := inputOf(1, tt.node, nodeOf("b", newHash))
			if tt.change != nil {
				tt.change(&in)
			}
			d := Plan(in)
			var failed Reason
			if len(d.Ledger.Failures) > 0 {
				failed = d.Ledger.Failures[0].Reason
			}
			if failed != tt.failed || tt.recheck != 0 && d.Recheck != tt.recheck {
				t.Errorf("failed %q, decides again after %s; want %q, %s", failed, d.Recheck, tt.failed, tt.recheck)
			}
		})
	}
}

func TestOfTwoPodsThatStoppedWorkingTheOneThatCrashLoopsIsBlamed(t *testing.T) {
	n := givenBack("a", 2*time.Minute, 20*time.Second)
	n.Pods = append(n.Pods, n.Pods[0])
	n.Pods[1].Member, n.Pods[1].UID, n.Pods[1].CrashLooping = 1, "uid-other", "main"
	n.LastSlot.Members = append(n.LastSlot.Members, "kube-system/b")
	in := inputOf(1, n)
	in.Members = append(in.Members, Member{Key: "kube-system/b", Target: newHash})
	if d := Plan(in); len(d.Ledger.Failures) != 1 || !slices.Equal(d.Ledger.Failures[0].Targets, []Target{{"kube-system/b", newHash}}) {
		t.Errorf("failures %+v", d.Ledger.Failures)
	}
}

func TestTheSlotsThatNodesGiveBackAreSaid(t *testing.T) {
	slot := slotOf(nodeOf("a", oldHash), time.Minute)
	slot.Members = []string{"kube-system/a"}
	in := inputOf(2, nodeOf("a", newHash), broken(nodeOf("b", newHash))).slots(slot, slotOf(nodeOf("b", oldHash), time.Minute))
	if d := Plan(in); len(d.GivenBack) != 1 || d.GivenBack[0].Node != "a" || !slices.Equal(d.GivenBack[0].Members, slot.Members) {
		t.Errorf("given back %+v", d.GivenBack)
	}
}

// A pod that crash-loops is available for moments: each would end the halt.
func TestACrashLoopIsOverWhenThePodWasAvailableForSomeTime(t *testing.T) {
	looping := func(name string) Node { return crashing(nodeOf(name, newHash)) }
	in := inputOf(2, looping("a"), looping("b"), nodeOf("c", oldHash)).slots(slotOf(nodeOf("a", oldHash), time.Minute), slotOf(nodeOf("b", oldHash), time.Minute))
	d := Plan(in)
	if d.Halted == "" {
		t.Fatalf("failures %v, and no halt", d.Ledger.Failures)
	}
	back := func(name string, since time.Duration) Node {
		return withPod(nodeOf(name, newHash), func(p *Pod) { p.AvailableSince = epoch.Add(-since) })
	}
	in.Ledger = d.Ledger
	in.Nodes[0], in.Nodes[1] = back("a", 5*time.Second), back("b", 5*time.Second)
	if d = Plan(in); d.Halted == "" || d.Recheck != in.Deadlines.Unavailable-5*time.Second {
		t.Errorf("halted %q, decides again after %s, when both are available for a moment", d.Halted, d.Recheck)
	}
	in.Nodes[0], in.Nodes[1] = back("a", in.Deadlines.Unavailable), back("b", in.Deadlines.Unavailable)
	if d = Plan(in); d.Halted != "" {
		t.Errorf("halted %q when both have recovered", d.Halted)
	}
}
