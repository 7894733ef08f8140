package rollout

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// denied returns a node whose pod may not be deleted, which is to be tried again now.
func denied(n Node) Node {
	n.DeniedDeletion = &Denial{Object: n.Pods[0].UID, Since: epoch.Add(-time.Hour), Retry: epoch.Add(-time.Second), Message: "no"}
	return n
}

func TestNodesWhoseDeletionWasDeniedComeLast(t *testing.T) {
	a, b := nodeOf("a", oldHash), nodeOf("b", oldHash)
	for _, tt := range []struct {
		name  string
		in    Input
		start []string
	}{
		{"after a healthy node", inputOf(1, denied(a), b), []string{"b"}},
		{"whatever their names are", inputOf(1, a, denied(b)), []string{"a"}},
		{"after others that are unavailable too", inputOf(1, denied(broken(nodeOf("a", oldHash))), broken(nodeOf("b", oldHash))), []string{"b"}},
		{"and start when no other can", inputOf(1, denied(a), held(b)), []string{"a"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.start, Plan(tt.in).Started, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("started (-want +got):\n%s", diff)
			}
		})
	}
}

// A deletion was denied long ago; then the node went offline with the pods replaced before.
func TestANodeThatIsOfflineKeepsItsSlotThoughADeletionWasDenied(t *testing.T) {
	a := withPod(offline(nodeOf("a", oldHash)), func(p *Pod) { p.Available = false })
	a.DeniedDeletion = &Denial{Object: a.Pods[0].UID, Since: epoch.Add(-time.Hour), Retry: epoch.Add(time.Minute)}
	slot := slotOf(a, 5*time.Minute)
	slot.Pod = a.Pods[0].UID
	in := inputOf(1, a, nodeOf("b", oldHash)).slots(slot)
	if d := Plan(in); len(d.Started) > 0 || d.InFlight != 1 {
		t.Errorf("started %v, %d in flight; want a to keep its slot", d.Started, d.InFlight)
	}
	in.Now = epoch.Add(in.Deadlines.Lost)
	in.Ledger.Decided = in.Now
	if d := Plan(in); len(d.Ledger.Failures) != 1 || d.Ledger.Failures[0].Reason != ReasonNodeLost {
		t.Errorf("failures %+v, want a lost", d.Ledger.Failures)
	}
}

func TestTheDeadlineRestartsWhenADeletionIsNoLongerDenied(t *testing.T) {
	a := broken(nodeOf("a", oldHash))
	slot := slotOf(a, 30*time.Minute)
	slot.Pod, slot.Members, slot.Newest = a.Pods[0].UID, []string{"kube-system/a"}, epoch.Add(-time.Hour)
	a.DeniedDeletion = &Denial{Object: a.Pods[0].UID, Since: epoch.Add(-5 * time.Minute), Retry: epoch.Add(time.Minute)}
	in := inputOf(1, a).slots(slot)
	d := Plan(in)
	in.Ledger, in.Now, in.Nodes[0] = d.Ledger, epoch.Add(time.Minute), terminating(a) // it was not denied again
	in.Nodes[0].DeniedDeletion = nil
	if d := Plan(in); len(d.Ledger.Failures) > 0 || d.InFlight != 1 {
		t.Errorf("failures %+v, %d in flight, want the node to have its time", d.Ledger.Failures, d.InFlight)
	}
}

// Deletions were denied for hours. Then the version takes down each node that gets it.
func TestANodeThatGoesOfflineAfterItsDeletionWasDeniedFailed(t *testing.T) {
	for name, before := range map[string]time.Duration{
		"when it was tried again": 10 * time.Hour,
		"under its first slot":    DefaultDeadlines.Progress - time.Second, // of its first start
	} {
		t.Run(name, func(t *testing.T) {
			a := denied(nodeOf("a", oldHash))
			a.DeniedDeletion.Since = epoch.Add(-before)
			in := inputOf(1, a, held(nodeOf("b", oldHash)))
			in.Ledger.LastStart = epoch.Add(-before)
			if before < DefaultDeadlines.Progress {
				slot := slotOf(a, before)
				slot.Pod, slot.Members = a.Pods[0].UID, []string{"kube-system/a"}
				in = in.slots(slot)
			}
			pass := func(after time.Duration, n Node) Decision {
				in.Now, in.Nodes[0] = epoch.Add(after), n
				d := Plan(in)
				in.Ledger = d.Ledger
				return d
			}
			if d := pass(0, a); len(d.Delete) != 1 {
				t.Fatalf("deleted %+v", d.Delete)
			}
			created := epoch.Add(10 * time.Second)
			made := func() Node { return withPod(nodeOf("a", newHash), func(p *Pod) { p.Created = created }) }
			if d := pass(20*time.Second, made()); len(d.Ledger.Slots) > 0 {
				t.Fatalf("slots %+v", d.Ledger.Slots)
			}
			gone := broken(made())
			gone.Ready, gone.ReadySince = false, epoch.Add(50*time.Second)
			gone.ReadyEarliest, gone.ReadyWritten = gone.ReadySince, gone.ReadySince
			in.Nodes[1].Holds = nil
			if d := pass(100*time.Second, gone); len(d.Ledger.Failures) != 1 || len(d.Started) > 0 {
				t.Errorf("failures %+v, started %v", d.Ledger.Failures, d.Started)
			}
		})
	}
}
