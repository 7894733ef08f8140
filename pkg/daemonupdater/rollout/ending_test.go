package rollout

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// When the gr is gone, nothing releases the nodes.
func TestEveryOperationIsAbortedWhenTheGcuResourceIsDeleted(t *testing.T) {
	kept := withEnd(heavyNode("kept"), ReasonOperationFailed)
	kept.Operation, kept.Disturbed = &Operation{ID: "op-kept", Ours: true, Granted: true, KeptCordoned: true}, true
	took := granted(heavyNode("took"))
	took.Operation.Committed = true
	outside := granted(heavyNode("outside"))
	outside.Pods = nil
	other := granted(heavyNode("other"))
	other.Operation.Ours = false
	for _, blocked := range []*Blocked{nil, {Reason: "InvalidSettings"}} {
		in := heavyInput(4, granted(heavyNode("runs")), prepared(heavyNode("waits")), kept, took, outside, other,
			aborted(granted(heavyNode("told"))), heavyNode("idle"))
		in = in.slots(operating(in.Nodes[0]), operating(took))
		in.Ending, in.Blocked = true, blocked
		want := []string{"kept:abort op-kept", "outside:abort op-outside", "runs:abort op-runs", "took:abort op-took", "waits:abort op-waits"}
		d := Plan(in)
		if diff := cmp.Diff(want, operationChangesOf(d)); diff != "" {
			t.Errorf("blocked by %v (-want +got):\n%s", blocked, diff)
		}
		for _, change := range d.Operations {
			if change.AtWork {
				t.Errorf("%s stays cordoned if its operation fails before it is aborted", change.Node)
			}
		}
	}
}

func TestANodeGetsNoOtherOperationWhenTheGcuResourceIsDeleted(t *testing.T) {
	down := broken(withEnd(heavyNode("a"), ReasonOperationAborted))
	in := heavyInput(1, down).slots(operating(down))
	in.Ending = true
	if d := Plan(in); len(d.Operations) != 0 || len(d.Ledger.Slots) != 0 || len(d.Ledger.Failures) != 0 {
		t.Errorf("operations %+v, slots %+v, failures %+v: its operation was aborted because the gr is deleted", d.Operations, d.Ledger.Slots, d.Ledger.Failures)
	}
	in = heavyInput(1, broken(heavyNode("a"))).slots(slotOf(heavyNode("a"), 0))
	in.Ending = true
	if d := Plan(in); len(d.Operations) != 0 || len(d.Ledger.Slots) != 1 || d.Ledger.Slots[0].Operation != "" {
		t.Errorf("operations %+v, slots %+v: a new one would only be aborted", d.Operations, d.Ledger.Slots)
	}
}
