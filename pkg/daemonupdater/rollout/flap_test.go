package rollout

import (
	"testing"
	"time"
)

// shortly returns a node that has not been Ready for ten seconds: it may only flap.
func shortly(n Node) Node {
	n.Ready, n.ReadySince, n.ReadyEarliest = false, epoch.Add(-10*time.Second), epoch.Add(-10*time.Second)
	return n
}

func TestANodeIsSkippedOnceItIsOfflineForLong(t *testing.T) {
	for name, tt := range map[string]struct {
		node Node
		want int
	}{"for ten seconds": {shortly(nodeOf("a", oldHash)), 0}, "for a minute": {offline(nodeOf("a", oldHash)), 1}} {
		if got := Plan(inputOf(1, tt.node)).Counts.Skipped; got != tt.want {
			t.Errorf("offline %s: %d nodes are skipped", name, got)
		}
	}
}

func TestANodeThatFlapsAfterItsUpdateHasNotFailed(t *testing.T) {
	n := offlineAfterUpdate("a", time.Minute)
	n.ReadySince = epoch.Add(-10 * time.Second)
	in := inputOf(1, n, nodeOf("b", newHash))
	in.Ledger.LastStart = epoch.Add(-2 * time.Minute)
	d := Plan(in)
	if len(d.Ledger.Failures) > 0 || d.Recheck == 0 || d.Recheck > DefaultDeadlines.Unavailable {
		t.Errorf("failures %+v, and it is looked again after %s", d.Ledger.Failures, d.Recheck)
	}
	in.Nodes[0].ReadySince = epoch.Add(-time.Minute)
	if d := Plan(in); len(d.Ledger.Failures) != 1 {
		t.Errorf("failures %+v of a node that stays away", d.Ledger.Failures)
	}
}

func TestAQueuedNodeThatFlapsStaysInTheQueue(t *testing.T) {
	in := inputOf(1, fleetInVersions(3)...)
	in.Ledger = Plan(in).Ledger
	in.Now = in.Now.Add(time.Second)
	waiting := queued(Plan(in))
	if len(waiting) == 0 {
		t.Fatal("no node is queued")
	}
	n := &in.Nodes[indexOf(in.Nodes, waiting[0])]
	n.Ready, n.ReadySince, n.ReadyEarliest = false, in.Now.Add(-time.Second), in.Now.Add(-time.Second)
	n.Pods[0].Version = "300" // its pod is marked as not Ready, which rules the deletion out
	for range 3 {             // each with what the one before stored
		d := Plan(in)
		if in.Ledger = d.Ledger; len(queued(d)) != len(waiting) {
			t.Fatalf("queued %v, before %v", queued(d), waiting)
		}
	}
}

// A hold starts nothing, and stops nothing that runs.
func TestANodeThatIsHeldGoesOnWithItsOperation(t *testing.T) {
	in := inputOf(1)
	in.Members[0].Heavy = true
	g := groupOf(&in)
	n := held(nodeOf("a", oldHash))
	if f := g.factsOf(&n, epoch); f.phase != phaseHeld {
		t.Errorf("phase %d of a held node", f.phase)
	}
	n.Operation = &Operation{ID: "op-a", Ours: true, Granted: true, Targets: map[string]string{"kube-system/a": newHash}}
	if f := g.factsOf(&n, epoch); f.phase == phaseHeld {
		t.Error("its operation is held")
	}
}
