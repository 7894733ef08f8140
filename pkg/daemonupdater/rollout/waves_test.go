package rollout

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/labels"
)

// canaryOf returns a policy whose wave canary has the nodes with a label.
func canaryOf(label string) Policy {
	return Policy{Waves: []Wave{{Name: "canary", Selector: labels.SelectorFromSet(labels.Set{label: "early"})}}}
}

func TestAWaveThatHadNoNodesIsNotPassedOnceItHasSome(t *testing.T) {
	in := inputOf(3, nodeOf("a", oldHash), nodeOf("b", oldHash), labeled(nodeOf("f", oldHash), "ring", "early")).withPolicy(canaryOf("rign"))
	plan := func(paused bool) (d Decision, canary WaveProgress) {
		in.Settings.Paused, in.Now = paused, in.Now.Add(time.Hour)
		d = Plan(in)
		in.Ledger = d.Ledger
		return d, d.Ledger.Waves[0]
	}
	_, empty := plan(true)
	if _, canary := plan(true); empty.Completed.IsZero() || canary != empty {
		t.Errorf("wave %+v, then %+v, want that it is passed while it has no nodes", empty, canary)
	}
	in = in.withPolicy(canaryOf("ring"))
	plan(true)
	d, canary := plan(false)
	if diff := cmp.Diff([]string{"f"}, d.Started); diff != "" || !canary.Completed.IsZero() {
		t.Errorf("wave %+v, started (-want +got):\n%s", canary, diff)
	}
	in.Nodes[2] = labeled(nodeOf("f", newHash), "ring", "early")
	if _, canary = plan(false); !canary.Completed.Equal(in.Now) {
		t.Errorf("wave %+v, want that it is complete since %s", canary, in.Now)
	}
}

// A passed wave whose selector is edited stays passed at this revision. Under another name it goes first.
func TestAWaveThatIsRedefinedGoesFirstUnderAnotherName(t *testing.T) {
	done, later := labeled(nodeOf("f", newHash), "first", "early"), labeled(nodeOf("b", oldHash), "second", "early")
	in := inputOf(3, nodeOf("a", oldHash), later, done).paused().withPolicy(canaryOf("first"))
	in.Ledger = Plan(in).Ledger
	in.Settings.Paused = false
	for name, want := range map[string][]string{"canary": {"a", "b"}, "canary-2": {"b"}} {
		policy := canaryOf("second")
		policy.Waves[0].Name = name
		if diff := cmp.Diff(want, Plan(in.withPolicy(policy)).Started); diff != "" {
			t.Errorf("wave %s: started (-want +got):\n%s", name, diff)
		}
	}
}

// A pool may be scaled to zero for the night: its wave stays passed, and does not soak again.
func TestAPassedWaveStaysPassedWhenItsNodesAreGoneForAWhile(t *testing.T) {
	a, f, back := nodeOf("a", oldHash), labeled(nodeOf("f", newHash), "ring", "early"), offline(labeled(nodeOf("f", newHash), "ring", "early"))
	back.ReadyWritten = epoch // long after its pod was created
	policy := canaryOf("ring")
	policy.Waves[0].Soak = 90 * time.Minute
	in := inputOf(3).withPolicy(policy)
	var started []string
	for _, nodes := range [][]Node{{a, f}, {a}, {a, back}} {
		in.Nodes = nodes
		d := Plan(in)
		in.Ledger, started = d.Ledger, d.Started
		in.Ledger.Decided = time.Time{} // else the soak does not count the hour in which nothing is decided
		if canary := d.Ledger.Waves[0]; !canary.Completed.Equal(epoch) || canary.Total != 1 {
			t.Errorf("at %s the wave is %+v, want that it is complete with one node since %s", in.Now, canary, epoch)
		}
		in.Now = in.Now.Add(time.Hour)
	}
	if diff := cmp.Diff([]string{"a"}, started); diff != "" {
		t.Errorf("started (-want +got):\n%s", diff)
	}
}

// What starts before the next wave, in the one that soaks or ahead of all, does not end the soak.
func TestASoakDoesNotEndWhileANewPodIsNotAvailable(t *testing.T) {
	policy := canaryOf("ring")
	policy.Waves[0].Soak = 10 * time.Minute
	early := func(n Node) Node { return labeled(n, "ring", "early") }
	in := inputOf(3, nodeOf("a", oldHash), early(broken(nodeOf("f", newHash))), early(nodeOf("g", newHash))).withPolicy(policy).passed(5*time.Minute, "canary")
	in.Ledger.LastStart = epoch.Add(-time.Hour)
	const want = "wave canary is complete and soaks until 2026-01-01T00:05:00Z, and until node f is available: " +
		"waiting for pod f-0 of kube-system/a to be available; if it lasts, repair the node or roll out another revision"
	for _, started := range []time.Time{epoch.Add(-time.Hour), epoch.Add(6 * time.Minute)} {
		in.Ledger.LastStart = started
		d := Plan(in)
		if v, _ := d.Verdict("a"); v.Reason != ReasonSoaking || v.Message != want {
			t.Errorf("at %s a is %s: %s", in.Now, v.Reason, v.Message)
		}
		in.Now = in.Now.Add(10 * time.Minute)
	}
	in.Nodes[1] = early(nodeOf("f", newHash))
	if d := Plan(in); !cmp.Equal(d.Started, []string{"a"}) {
		t.Errorf("%v are started when f is available again, want a", d.Started)
	}
}

// An unavailable node starts before its wave.
func TestANodeThatStartsAheadDoesNotEndASoak(t *testing.T) {
	policy := canaryOf("ring")
	policy.Waves[0].Soak = 10 * time.Minute
	early := func(n Node) Node { return labeled(n, "ring", "early") }
	in := inputOf(3, nodeOf("a", oldHash), broken(nodeOf("b", oldHash)), early(broken(nodeOf("f", newHash))), early(nodeOf("g", newHash))).withPolicy(policy).passed(15*time.Minute, "canary")
	d := Plan(in)
	if !cmp.Equal(d.Started, []string{"b"}) {
		t.Fatalf("%v are started, want b", d.Started)
	}
	in.Ledger, in.Nodes[1], in.Now = d.Ledger, nodeOf("b", newHash), in.Now.Add(time.Minute)
	if d = Plan(in); len(d.Started) > 0 {
		t.Errorf("%v are started while f is not available", d.Started)
	}
	in.Ledger, in.Nodes[2], in.Settings.Paused = d.Ledger, early(nodeOf("f", newHash)), true
	if d = Plan(in); !d.Ledger.Waves[0].Soaked.IsZero() {
		t.Errorf("the soak was over at %s although no node could start after it", d.Ledger.Waves[0].Soaked)
	}
	in.Ledger, in.Settings.Paused = d.Ledger, false
	if d = Plan(in); !cmp.Equal(d.Started, []string{"a"}) || !d.Ledger.Waves[0].Soaked.Equal(in.Now) {
		t.Errorf("%v are started when f is available, and the soak was over at %s", d.Started, d.Ledger.Waves[0].Soaked)
	}
}

// The nodes that proved the revision are gone, or were moved to another wave.
func TestAWaveThatStaysPassedWithoutNodesProvesNothing(t *testing.T) {
	policy := canaryOf("ring")
	policy.Waves = append(policy.Waves, Wave{Name: "second", Selector: labels.SelectorFromSet(labels.Set{"second": "early"})})
	in := inputOf(3, nodeOf("a", oldHash), offline(labeled(nodeOf("b", oldHash), "second", "early")), labeled(nodeOf("f", newHash), "ring", "early")).withPolicy(policy).paused()
	in.Ledger = Plan(in).Ledger
	in.Ledger.Waves[1].Completed = time.Time{}
	in.Nodes, in.Settings.Paused = in.Nodes[:2], false
	d := Plan(in)
	if waves := d.Ledger.Waves; waves[0].Completed.IsZero() || !waves[1].Completed.IsZero() || len(d.Started) > 0 {
		t.Errorf("waves %+v, %v are started, want that only the first wave is passed and nothing starts", waves, d.Started)
	}
}

// What is left out does not get the version, so no wave waits until it works, but for a node that is still in flight.
func TestNoWaveWaitsForABrokenNodeThatIsLeftOut(t *testing.T) {
	b := nodeOf("b", oldHash)
	limited := func(x Node, others ...Node) Input {
		in := underWaves(inputOf(3, append(others, x, b)...), false, time.Hour)
		in.Settings.Only = "nodes=b"
		return in
	}
	underPlan := func(x Node, others ...Node) Input {
		for i := range others {
			others[i] = inBatch(others[i], 0)
		}
		return underWaves(planned([]string{"1"}, append(others, inBatch(x, 1), inBatch(b, 0))...), false, time.Hour)
	}
	x, y := canary(broken(nodeOf("x", newHash))), func() Node { return canary(nodeOf("y", newHash)) }
	failed := func(in Input) Input {
		in.Ledger.Failures = []Failure{{Node: "x", UID: "uid-x", Reason: ReasonProgressDeadlineExceeded, Since: epoch, Targets: []Target{{"kube-system/a", newHash}}}}
		return in
	}
	kept := func(x Node) Node {
		return leftOutOf(withJob(x, &Operation{ID: "op-x", Ours: true, Granted: true, KeptCordoned: true}))
	}
	for name, tt := range map[string]struct {
		in     Input
		starts bool
	}{
		"by a limit, and is kept cordoned":  {failed(limited(kept(x), y())), true},
		"by a limit, outdated and cordoned": {failed(limited(kept(canary(nodeOf("x", oldHash))), y())), true},
		"by a limit":                        {limited(leftOutOf(x), y()), true},
		"by a limit, with its whole wave":   {limited(leftOutOf(x)), true},
		"by a limit, and has failed":        {failed(limited(leftOutOf(x), y())), true},
		"by a limit, and is in flight":      {limited(leftOutOf(x), y()).slots(slotOf(x, time.Minute)), false},
		"by a plan":                         {underPlan(x, y()), true},
		"by a plan, with its whole wave":    {underPlan(x), true},
		"by a plan, and has failed":         {failed(underPlan(x, y())), true},
		"by a plan, and is in flight":       {underPlan(x, y()).slots(slotOf(x, time.Minute)), false},
		"not at all":                        {limited(x, y()), false},
		"not at all, though it has failed":  {failed(limited(x, y())), false},
		"not at all, without a plan":        {limited(inBatch(x, 0), y()), false},
	} {
		in := tt.in
		for range 2 { // when the wave is complete, and after its soak
			in.Ledger = Plan(in).Ledger
			in.Now, in.Ledger.Decided = in.Now.Add(time.Hour), time.Time{}
			for i := range in.Ledger.Slots {
				in.Ledger.Slots[i].Since, in.Ledger.Slots[i].Progress = in.Now, in.Now
			}
		}
		in.Ledger.Decided = in.Now
		if v, _ := new(Plan(in)).Verdict("b"); (v.State == InFlight) != tt.starts {
			t.Errorf("%s: b is %s (%s: %s), want it started: %t", name, v.State, v.Reason, v.Message, tt.starts)
		}
	}
}
