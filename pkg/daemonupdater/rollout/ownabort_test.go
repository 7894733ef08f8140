package rollout

import (
	"slices"
	"testing"

	"github.com/topsops/gcu-operator/pkg/daemonset"
)

// What the group told an operation says nothing about its revisions, also if they are the targets again, or the node is back in the
// group, when the operation has ended.
func TestAnOperationThatTheGroupAbortedFailsNoNode(t *testing.T) {
	for _, test := range []struct {
		name   string
		happen func(*Input)
	}{
		{"for another target, which was taken back", func(in *Input) {
			in.Members = slices.Clone(in.Members)
			in.Members[0].Target, in.Revision = "newer", "r3"
		}},
		{"without a strategy", func(in *Input) { in.Settings.Strategy = daemonset.NoStrategy }},
		{"on a node that left the group for a while", func(in *Input) { in.Nodes[0].Pods = nil }},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := heavyInput(1, granted(heavyNode("a"))).slots(operating(heavyNode("a")))
			before.Ledger.Revision, before.Ledger.Started = before.Revision, 1
			during := before
			during.Nodes = slices.Clone(before.Nodes)
			test.happen(&during)
			d := Plan(during)
			if changes := operationChangesOf(d); !slices.Equal(changes, []string{"a:abort op-a"}) || len(d.Ledger.Slots) != 1 {
				t.Fatalf("changes %v, slots %+v", changes, d.Ledger.Slots)
			}
			after := before
			after.Ledger = d.Ledger
			after.Nodes = []Node{granted(heavyNode("a"))} // a cache that does not show the abort yet
			d = Plan(after)
			if len(d.Operations) != 0 || len(d.Ledger.Slots) != 1 {
				t.Fatalf("changes %+v, slots %+v: it has not ended", d.Operations, d.Ledger.Slots)
			}
			committed := after
			committed.Nodes = []Node{granted(heavyNode("a"))}
			committed.Nodes[0].Operation.Committed, committed.Nodes[0].Operation.Targets = true, map[string]string{"kube-system/driver": newHash}
			if slots := Plan(committed).Ledger.Slots; len(slots) != 1 || slots[0].Revision != before.Revision {
				t.Errorf("slots %+v: the abort came too late, and the operation goes on to the target", slots)
			}
			after.Ledger = d.Ledger
			after.Nodes = []Node{withEnd(heavyNode("a"), ReasonOperationAborted)}
			after.Nodes[0].Ended[0].Targets = []Target{{Member: "kube-system/driver", Revision: newHash}}
			if d = Plan(after); len(d.Ledger.Failures) != 0 || len(d.Ledger.Slots) != 0 || d.Ledger.Started != 0 {
				t.Errorf("failures %+v, slots %+v, started %d", d.Ledger.Failures, d.Ledger.Slots, d.Ledger.Started)
			}
			after.Nodes[0].Ended[0].Failure = ReasonOperationFailed
			if d = Plan(after); len(d.Ledger.Failures) != 1 {
				t.Errorf("failures %+v: it had failed before it was aborted", d.Ledger.Failures)
			}
		})
	}
}

// The target went back to what the node has, so its prepared operation was aborted, and is the target again before that has ended.
func TestANodeDoesNotStartWithAPreparedOperationThatTheGroupAborted(t *testing.T) {
	in := heavyInput(1, prepared(heavyNode("a")))
	in.Members[0].Target = oldHash
	decides(t, in, said{States: statesOf("a", "updated/AtTarget")}, []string{"a:abort op-a"})

	in = heavyInput(1, aborted(prepared(heavyNode("a"))))
	waits := said{States: statesOf("a", "pending/Preparing")}
	decides(t, in, waits, nil)
	in.Nodes[0] = withEnd(heavyNode("a"), "")
	decides(t, in, waits, []string{"a:prepare"})
}
