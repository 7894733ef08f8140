package rollout

import (
	"slices"
	"testing"
)

// In the middle of a rollout, InFlight lists the nodes in flight separately from those that
// follow, and a queued node follows like any other.
func TestAPreviewInTheMiddleListsNodesInFlight(t *testing.T) {
	in := inputOf(1, nodeOf("a", oldHash), nodeOf("b", oldHash), nodeOf("c", oldHash), nodeOf("d", newHash))
	first := Plan(in)
	if len(first.Started) != 1 {
		t.Fatalf("started %v", first.Started)
	}
	in.Ledger = first.Ledger
	if !slices.ContainsFunc(in.Ledger.Slots, func(s Slot) bool { return s.Queued }) {
		t.Fatalf("no node is queued: %+v", in.Ledger.Slots)
	}
	got := Preview(in)
	if !slices.Equal(got.InFlight, first.Started) {
		t.Errorf("in flight %v, want %v", got.InFlight, first.Started)
	}
	var follow []string
	for _, s := range got.Starts {
		follow = append(follow, s.Nodes...)
	}
	slices.Sort(follow)
	want := slices.DeleteFunc([]string{"a", "b", "c"}, func(n string) bool { return n == first.Started[0] })
	if !slices.Equal(follow, want) || len(got.Left) > 0 {
		t.Errorf("%v follow, want %v; left %v", follow, want, got.Left)
	}
}
