package rollout

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// TestAFailedOperationBlamesTheRevisionsThatItRanFor: the revision of the group changed before the
// end of the operation was settled, because the group was blocked meanwhile.
func TestAFailedOperationBlamesTheRevisionsThatItRanFor(t *testing.T) {
	driver := []Target{{"kube-system/driver", newHash}}
	for _, tt := range []struct {
		name    string
		ran     []Target
		outcome Outcome
		blamed  []Target
	}{
		{"those that are still targets", driver, Broken, driver},
		{"not those of before", []Target{{"kube-system/driver", "between"}}, Broken, nil},
		{"nor revisions that are not known any more", nil, Broken, nil},
		{"and none when it was dropped", driver, Dropped, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := withEnd(heavyNode("a"), tt.outcome)
			n.Ended[0].Targets = tt.ran
			slot := operating(n)
			slot.Revision = "r1" // the exporter has another target since
			var blamed []Target
			for _, f := range Plan(heavyInput(1, n).slots(slot)).Ledger.Failures {
				blamed = f.Targets
			}
			if diff := cmp.Diff(tt.blamed, blamed, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("blamed (-want +got):\n%s", diff)
			}
		})
	}
	n := withEnd(heavyNode("a"), Broken)
	if f := Plan(heavyInput(1, n).slots(operating(n))).Ledger.Failures; len(f) != 1 || !cmp.Equal(f[0].Targets, driver) {
		t.Errorf("failures %+v of an operation of now whose revisions are not known, want those of its slot blamed", f)
	}
}
