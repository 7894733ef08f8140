package rollout

import (
	"slices"
	"testing"
	"time"

	"github.com/topsops/gcu-operator/pkg/daemonset"
)

// Whatever dies on a node in flight, only what its slot is for comes back at the target.
func TestANodeInFlightGetsTheTargetOfWhatItsSlotIsFor(t *testing.T) {
	two := func(n Node, change func(*Input)) Input {
		in := inputOf(1, n).slots(slotOf(n, time.Minute))
		in.Members = append(in.Members, Member{Key: "kube-system/b", Target: newHash})
		in.Ledger.Slots[0].Members = []string{"kube-system/a"}
		change(&in)
		return in
	}
	unchanged := func(*Input) {}
	disagree := func(in *Input) {
		in.Settings, in.Blocked = daemonset.Settings{}, &Blocked{Reason: daemonset.ReasonSettingsDisagree, Message: "they differ"}
	}
	n := func() Node { return broken(nodeOf("a", newHash, newHash)) }
	along := withJob(n(), &Operation{ID: "op-a", Ours: true, Granted: true, Targets: map[string]string{"kube-system/a": newHash, "kube-system/b": newHash}})
	for _, tt := range []struct {
		name   string
		in     Input
		first  bool
		second bool
	}{
		{"all of it", two(n(), unchanged), true, true},
		{"but what is left out", two(n(), func(in *Input) { in.Members[1].LeftOut = true }), true, false},
		{"under OTA what its slot names", ota(two(n(), unchanged)), true, false},
		{"under OTA what was requested too", ota(two(askingForSecond(n()), unchanged)), true, true},
		{"under OTA what its operation replaces along", ota(two(along, func(in *Input) { in.Ledger.Slots[0].Operation = "op-a" })), true, true},
		{"while the settings disagree what its slot names", two(n(), disagree), true, false},
		{"while the settings disagree what its operation replaces along", two(along, func(in *Input) { disagree(in); in.Ledger.Slots[0].Operation = "op-a" }), true, true},
		{"nothing without a slot", two(n(), func(in *Input) { in.Ledger.Slots = nil }), false, false},
		{"nothing under the slot of another Node", two(n(), func(in *Input) { in.Ledger.Slots[0].UID = "before" }), false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := Plan(tt.in)
			if first, second := d.GetsTarget("a", "uid-a", 0), d.GetsTarget("a", "uid-a", 1); first != tt.first || second != tt.second {
				t.Errorf("it gets those of a: %t, of b: %t; want %t, %t; slots %+v", first, second, tt.first, tt.second, slices.Clone(d.Ledger.Slots))
			}
		})
	}
}
