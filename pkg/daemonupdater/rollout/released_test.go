package rollout

import "testing"

// A group without a strategy releases a node whose operation has failed. Meanwhile it gets a strategy again, and another version: the
// node starts with an operation of its own, because the failure of the last one is not that version's.
func TestANodeThatStartsWhileItIsReleasedGetsAnotherOperation(t *testing.T) {
	released := &Operation{ID: "op-a", Revision: "before", Ours: true, Granted: true, Committed: true, Message: "the driver crash-loops"}
	in := heavyInput(1, withJob(withEnd(heavyNode("a"), ReasonOperationFailed), released), heavyNode("b"))
	in.Nodes[0].Ended[0].Touched = true
	d := Plan(in)
	if slots := d.Ledger.Slots; len(slots) != 1 || slots[0].Node != "a" || slots[0].Operation == released.ID || slots[0].Operation == "" {
		t.Fatalf("slots %+v, want one of a, for another operation than %s", slots, released.ID)
	}
	if len(d.Operations) == 0 || d.Operations[0].Operation != d.Ledger.Slots[0].Operation || !d.Operations[0].Grant {
		t.Errorf("operations %+v, want that of the slot", d.Operations)
	}
	in.Ledger = d.Ledger
	if d := Plan(in); len(d.Ledger.Failures) > 0 || len(d.Ledger.Slots) != 1 {
		t.Errorf("failures %+v, slots %+v; want the node in flight", d.Ledger.Failures, d.Ledger.Slots)
	}
}
