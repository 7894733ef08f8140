package rollout

import (
	"testing"
	"time"

	"github.com/topsops/gcu-operator/pkg/daemonset"
)

// skews are how far another clock is ahead.
var skews = []time.Duration{-3 * time.Minute, 0, 3 * time.Minute}

func TestACrashLoopIsOfTheSlotWhateverTheClockOfTheAPIServer(t *testing.T) {
	for _, skew := range skews {
		for name, fails := range map[string]bool{"created since": true, "as old as the slot": false} {
			started := epoch.Add(-time.Minute)
			n := withPod(crashing(nodeOf("a", newHash)), func(p *Pod) { p.Created = started.Add(skew) })
			slot := slotOf(nodeOf("a", oldHash), time.Minute)
			slot.Newest = n.Pods[0].Created
			if fails {
				slot.Newest = slot.Newest.Add(-time.Second)
			}
			in := inputOf(1, n).slots(slot)
			if d := Plan(in); (d.Counts.Failed == 1) != fails {
				t.Errorf("skew %s, %s: counts %+v, want it failed: %v", skew, name, d.Counts, fails)
			}
		}
	}
}

func TestARequestAfterAFailureStartsTheNodeWhateverItsClock(t *testing.T) {
	for _, skew := range skews {
		for name, starts := range map[string]bool{"asked again": true, "asked before": false, "it runs": false} {
			n := asking(nodeOf("a", oldHash))
			n.Requested = epoch.Add(-time.Minute + skew)
			n.Pods[0].Request.RequestTime.Time = n.Requested
			failure := Failure{Node: "a", UID: n.UID, Reason: ReasonCrashLooping, Since: epoch.Add(-2 * time.Minute), Requested: n.Requested}
			if name != "asked before" {
				failure.Requested = failure.Requested.Add(-time.Hour)
			}
			n.Pods[0].RequestRuns = name == "it runs"
			in := inputOf(1, n)
			in.Settings.Strategy = daemonset.OTA
			in.Ledger.Failures = []Failure{failure}
			if d := Plan(in); (len(d.Started) == 1) != starts {
				t.Errorf("skew %s, %s: started %v", skew, name, d.Started)
			}
		}
	}
}

func TestAFailureKnowsTheRequestsBeforeIt(t *testing.T) {
	n := crashing(nodeOf("a", newHash))
	n.Requested = epoch.Add(time.Minute)
	d := Plan(inputOf(1, n).slots(slotOf(nodeOf("a", oldHash), time.Minute)))
	if len(d.Ledger.Failures) != 1 || !d.Ledger.Failures[0].Requested.Equal(n.Requested) {
		t.Errorf("failures %+v, want one with the request of %s", d.Ledger.Failures, n.Requested)
	}
}

func TestASlotKnowsThePodsThatItsNodeHad(t *testing.T) {
	n := withPod(nodeOf("a", oldHash), func(p *Pod) { p.Created = epoch.Add(3 * time.Minute) })
	if d := Plan(inputOf(1, n)); len(d.Ledger.Slots) != 1 || !d.Ledger.Slots[0].Newest.Equal(epoch.Add(3*time.Minute)) {
		t.Errorf("slots %+v, want one that knows the pod", d.Ledger.Slots)
	}
}
