package rollout

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/topsops/gcu-operator/pkg/daemonset"
)

// The limit was lowered while two nodes were in flight. The operation of the first has ended, and left a
// pod that it did not know, whose deletion waits for the second, which was started later; and the grant
// of the second waits for the first, which was started before.
func TestAnOperationThatIsNotGrantedMakesWayForANodeThatWasStartedBefore(t *testing.T) {
	first, second := withDone(nodeOf("a", newHash, oldHash)), prepared(heavyNode("b"))
	in := heavyInput(1, first, second).slots(operating(first), operating(second))
	in.Ledger.Slots[0].Turn, in.Ledger.Slots[1].Turn = 1, 2
	d := decides(t, in, said{Slots: []string{"a", "b"}, States: statesOf("a", "in-flight/Replacing", "b", "in-flight/Operating")}, []string{"b:abort op-b"})

	in.Ledger, in.Nodes[1] = d.Ledger, withEnd(heavyNode("b"), "")
	decides(t, in, said{Delete: []string{"a-1"}, Slots: []string{"a"}, States: statesOf("a", "in-flight/Replacing", "b", "pending/Preparing")}, []string{"b:prepare"})
}

// The manager died before it granted the operation of a node that was started while one before it in the queue was only flapping; then the
// limit was lowered. The queued node waits for the budget, and the grant for its turn.
func TestAnOperationThatIsNotGrantedMakesWayForANodeThatIsQueuedBefore(t *testing.T) {
	first, second := nodeOf("a", newHash, oldHash), prepared(heavyNode("b"))
	waiting := slotOf(first, time.Minute)
	waiting.Queued, waiting.Turn = true, 1
	waiting.Pod, waiting.Members = first.Pods[1].UID, []string{"kube-system/exporter"}
	in := heavyInput(1, first, second).slots(waiting, operating(second))
	in.Ledger.Slots[1].Turn = 2
	d := decides(t, in, said{Slots: []string{"b"}, States: statesOf("a", "pending/Queued", "b", "in-flight/Operating")}, []string{"b:abort op-b"})

	in.Ledger, in.Nodes[1] = d.Ledger, withEnd(heavyNode("b"), "")
	decides(t, in, said{Started: []string{"a"}, Delete: []string{"a-1"}, Slots: []string{"a"}, States: statesOf("a", "in-flight/Replacing", "b", "pending/Preparing")}, []string{"b:prepare"})
}

// One that is not there, because its NodeUpgrade was deleted or it is not made yet, is made: only then can it end. It gets no grant, and
// no abort: it may be there, and at work, and not be shown yet.
func TestAnOperationThatIsNotThereIsMadeToMakeWay(t *testing.T) {
	first := withDone(nodeOf("a", newHash, oldHash))
	theirs := withJob(heavyNode("b"), &Operation{ID: "theirs", WaitingSince: epoch.Add(-time.Minute)})
	for name, test := range map[string]struct {
		second  Node
		instead string
	}{"none is there": {heavyNode("b"), ""}, "that of another group waits": {theirs, "theirs"}} {
		t.Run(name, func(t *testing.T) {
			in := heavyInput(1, first, test.second).slots(operating(first), operating(heavyNode("b")))
			in.Ledger.Slots[0].Turn, in.Ledger.Slots[1].Turn = 1, 2
			d := Plan(in)
			want := []OperationChange{{Node: "b", UID: "uid-b", Operation: "op-b", Instead: test.instead}}
			if diff := cmp.Diff(want, d.Operations); diff != "" || len(d.Unready) != 0 {
				t.Errorf("unready %v, changes (-want +got):\n%s", d.Unready, diff)
			}
			if len(d.Ledger.Slots) != 2 || d.Ledger.Slots[1].Revision != "r2" {
				t.Errorf("slots %+v: it is not aborted yet", d.Ledger.Slots)
			}
			in.Ledger, in.Nodes[1] = d.Ledger, withJob(heavyNode("b"), jobOf("op-b"))
			decides(t, in, said{Slots: []string{"a", "b"}, States: statesOf("a", "in-flight/Replacing", "b", "in-flight/Operating")}, []string{"b:abort op-b"})
		})
	}
}

func TestAnOperationThatIsNotGrantedMakesWayForNobodyElse(t *testing.T) {
	first, second := withDone(nodeOf("a", newHash, oldHash)), prepared(heavyNode("b"))
	for name, test := range map[string]struct {
		in   Input
		want []string
	}{
		"there is room for both":                       {heavyInput(2, first, second).slots(operating(first), operating(second)), []string{"b:grant op-b"}},
		"the node before works":                        {heavyInput(1, granted(heavyNode("a")), second).slots(operating(first), operating(second)), nil},
		"the node before has nothing to do":            {heavyInput(1, withPod(withDone(nodeOf("a", newHash, newHash)), func(p *Pod) { p.Available = false }), second).slots(operating(first), operating(second)), nil},
		"the node before is unavailable":               {heavyInput(1, broken(withDone(nodeOf("a", newHash, oldHash))), second).slots(operating(first), operating(second)), nil},
		"one that is not there does not wait for that": {heavyInput(1, granted(heavyNode("a")), heavyNode("b")).slots(operating(first), operating(second)), nil},
		"it is granted":                                {heavyInput(1, first, granted(heavyNode("b"))).slots(operating(first), operating(second)), nil},
	} {
		t.Run(name, func(t *testing.T) {
			test.in.Ledger.Slots[0].Turn, test.in.Ledger.Slots[1].Turn = 1, 2
			test.in.Settings.Strategy = daemonset.AdvancedRollingUpdate
			if got := operationChangesOf(Plan(test.in)); len(got) != len(test.want) || len(got) > 0 && got[0] != test.want[0] {
				t.Errorf("changes %v, want %v", got, test.want)
			}
		})
	}
}
