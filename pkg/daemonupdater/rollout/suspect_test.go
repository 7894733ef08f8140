package rollout

import (
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
