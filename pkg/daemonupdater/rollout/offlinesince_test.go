package rollout

import (
	"testing"
	"time"
)

// TestStepped: tasks of operations count while their nodes are in flight with them.
func TestStepped(t *testing.T) {
	at := func(minutes int) time.Time { return epoch.Add(-time.Duration(minutes) * time.Minute) }
	working := func(name, operation string, stepped time.Time) (Node, Slot) {
		n := nodeOf(name, oldHash)
		n.Operation = &Operation{ID: operation, Ours: true, Granted: true, Targets: map[string]string{"kube-system/a": newHash}, LastTaskEnd: stepped}
		slot := slotOf(n, time.Minute)
		slot.Operation, slot.Members = "op-"+name, []string{"kube-system/a"}
		return n, slot
	}
	a, slotA := working("a", "op-a", at(5))
	b, slotB := working("b", "op-b", at(3))
	other, _ := working("c", "op-of-another-group", at(1))
	other.Operation.Ours = false
	in := inputOf(3, a, b, other).slots(slotA, slotB)
	in.Members[0].Heavy = true
	if d := Plan(in); !d.LastTaskEnd.Equal(at(3)) {
		t.Errorf("the last step was at %v, want %v", d.LastTaskEnd, at(3))
	}
	if d := Plan(inputOf(1, nodeOf("a", oldHash))); !d.LastTaskEnd.IsZero() {
		t.Errorf("without operations there was a step at %v", d.LastTaskEnd)
	}
}

// TestOfflineSince: of the skipped nodes, not of those that are updated, have a slot or failed.
func TestOfflineSince(t *testing.T) {
	away := func(name, revision string, days int) Node {
		n := offline(nodeOf(name, revision))
		n.ReadySince = epoch.Add(-time.Duration(days) * 24 * time.Hour)
		return n
	}
	lost := away("lost", oldHash, 9)
	in := inputOf(1, nodeOf("here", newHash), away("recent", oldHash, 1), away("old", oldHash, 8), away("updated", newHash, 10), lost).slots(slotOf(lost, time.Minute))
	if d := Plan(in); !d.OfflineSince.Equal(epoch.Add(-8 * 24 * time.Hour)) {
		t.Errorf("a node is offline since %v, want 8 days (%+v)", d.OfflineSince, d.Counts)
	}
	if d := Plan(inputOf(1, nodeOf("here", oldHash))); !d.OfflineSince.IsZero() {
		t.Errorf("without skipped nodes one is offline since %v", d.OfflineSince)
	}
}
