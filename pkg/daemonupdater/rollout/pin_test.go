package rollout

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// back returns a group whose nodes of these names are pinned to the old revision.
func (in Input) back(failed bool, names ...string) Input {
	for _, name := range names {
		in.Ledger.Pins = append(in.Ledger.Pins, Pin{Node: name, Member: "kube-system/a", Revision: oldHash, From: newHash, Message: "it failed", Failed: failed})
	}
	return in
}

func (in Input) threshold(n int32) Input {
	threshold := intstr.FromInt32(n)
	in.Policy.Threshold = &threshold
	return in
}

func gated(n Node) Node { return withPod(broken(n), func(p *Pod) { p.Gated = true }) }

func TestAPinnedNodeGoesBackAndStaysThere(t *testing.T) {
	a, b := nodeOf("a", newHash), nodeOf("b", oldHash)
	paused := inputOf(1, a, b).back(false, "a")
	paused.Settings.Paused = true
	beforehand := inputOf(2, a, b).back(false, "a")
	beforehand.Beforehand = &Blocked{Reason: "AwaitingGlobalTask", Message: "waiting for database_backup"}
	later := inputOf(2, nodeOf("a", newHash), b).back(false, "a")
	later.Policy.Waves = []Wave{sizedWave("none", "0"), {Name: "site", Manual: true}}
	for _, test := range []struct {
		name string
		in   Input
		want said
	}{
		{"it stays where it is, and others start", inputOf(2, nodeOf("a", oldHash), b).back(false, "a"),
			said{Started: []string{"b"}, Delete: []string{"b-0"}, Slots: []string{"b"}, States: statesOf("a", "pinned/Pinned", "b", "in-flight/Replacing")}},
		{"its pod at the target is replaced under a slot", inputOf(1, a, b).back(false, "a"),
			said{Started: []string{"a"}, Delete: []string{"a-0"}, Slots: []string{"a"}, States: statesOf("a", "in-flight/Replacing", "b", "pending/Queued")}},
		{"it waits for the budget like any other", inputOf(1, a, broken(nodeOf("b", newHash))).back(false, "a"),
			said{States: statesOf("a", "pending/BudgetExhausted", "b", "pending/Unavailable")}},
		{"it goes back in a halt, and no other node starts", inputOf(2, a, b, broken(nodeOf("c", newHash))).back(true, "a", "c").threshold(1),
			said{Started: []string{"a", "c"}, Delete: []string{"a-0", "c-0"}, Slots: []string{"a", "c"}, States: statesOf("a", "in-flight/Replacing", "b", "held/Halted", "c", "in-flight/Replacing"), Halted: true}},
		{"it does not while the rollout is paused", paused, said{States: statesOf("a", "held/Paused", "b", "held/Paused")}},
		{"nor before the global tasks of a plan", beforehand, said{States: statesOf("a", "held/AwaitingGlobalTask", "b", "held/AwaitingGlobalTask")}},
		{"its wave does not matter", later, said{Started: []string{"a"}, Delete: []string{"a-0"}, Slots: []string{"a"}, States: statesOf("a", "in-flight/Replacing", "b", "held/WaveNotReached")}},
		{"under OTA it needs no request", ota(inputOf(1, a).back(false, "a")),
			said{Started: []string{"a"}, Delete: []string{"a-0"}, Slots: []string{"a"}, States: statesOf("a", "in-flight/Replacing")}},
		{"a hold keeps it where it is", inputOf(1, held(a)).back(false, "a"), said{States: statesOf("a", "held/NodeHeld")}},
		{"the limit of the upgrade does not matter", inputOf(1, leftOutOf(a)).back(false, "a"),
			said{Started: []string{"a"}, Delete: []string{"a-0"}, Slots: []string{"a"}, States: statesOf("a", "in-flight/Replacing")}},
		{"a pod at the gate is not deleted: it is replaced there", inputOf(1, gated(nodeOf("a", newHash))).back(false, "a"),
			said{States: statesOf("a", "pending/Unavailable")}},
		{"what is back gives its slot back", inputOf(1, nodeOf("a", oldHash)).back(false, "a").slots(slotOf(nodeOf("a", oldHash), time.Minute)), said{States: statesOf("a", "pinned/Pinned")}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, say(Plan(test.in)), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("decision (-want +got):\n%s", diff)
			}
		})
	}
}

// Another component of a pinned node is upgraded like that of any other node.
func TestAPinnedNodeThatIsBackStartsInItsTurn(t *testing.T) {
	group := func(change func(*Input)) Input {
		in := inputOf(2, nodeOf("a", oldHash, oldHash), nodeOf("b", oldHash, oldHash)).back(false, "a")
		in.Members = append(in.Members, Member{Key: "kube-system/b", Target: newHash})
		change(&in)
		return in
	}
	halted := func(in *Input) {
		in.Ledger.Failures = []Failure{{Node: "b", UID: "uid-b", Reason: ReasonNodeLost, Since: epoch}}
		in.Policy.Threshold = ptr.To(intstr.FromInt32(1))
	}
	afterB := func(in *Input) {
		in.Nodes[1] = labeled(in.Nodes[1], "first", "yes")
		in.Policy.Waves = []Wave{{Name: "first", Selector: labels.SelectorFromSet(labels.Set{"first": "yes"})}}
	}
	away := func(in *Input) { in.Nodes[0].Pods[0].Revision = newHash }
	for name, tt := range map[string]struct {
		in      Input
		want    []string
		touched int
	}{
		"it starts":                   {group(func(*Input) {}), []string{"a", "b"}, 2},
		"not in a halt":               {group(halted), nil, 0},
		"not before its wave":         {group(afterB), []string{"b"}, 1},
		"in a halt, back to its pin":  {group(func(in *Input) { halted(in); away(in) }), []string{"a"}, 0},
		"before its wave, to its pin": {group(func(in *Input) { afterB(in); away(in) }), []string{"a", "b"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			d := Plan(tt.in)
			slices.Sort(d.Started)
			if diff := cmp.Diff(tt.want, d.Started, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("started (-want +got):\n%s", diff)
			}
			if d.Ledger.Touched != tt.touched {
				t.Errorf("%d nodes were touched, want %d", d.Ledger.Touched, tt.touched)
			}
		})
	}
}

// A pod that does not work at the revision that its node is pinned to begins no upgrade there. For what else is left to do, the
// node counts as one that is unavailable: it awaits the approval of its batch.
func TestANodeThatDoesNotWorkWhereItIsPinnedAwaitsItsBatch(t *testing.T) {
	group := func(nodes ...Node) Input {
		in := planned([]string{"1", "2!"}, nodes...).back(false, "a")
		in.Members = append(in.Members, Member{Key: "kube-system/b", Target: newHash})
		in.Settings.MaxUnavailable.IntVal = 1
		return in
	}
	a := inBatch(broken(nodeOf("a", oldHash, oldHash)), 1)
	other := func(works bool) Node {
		return with(inBatch(nodeOf("b", newHash, oldHash), 0), func(n *Node) { n.Pods[1].Available = works })
	}
	approved := group(a)
	approved.Policy.Approved = map[string]bool{Plan(approved).Unapproved: true}
	for _, test := range []struct {
		name     string
		in       Input
		want     said
		inFlight int
	}{
		{"it awaits approval", group(a), said{States: statesOf("a", "held/AwaitingApproval")}, 0},
		{"and starts with it", approved, said{Started: []string{"a"}, Slots: []string{"a"}, States: statesOf("a", "in-flight/AwaitingAvailable")}, 1},
		{"it has begun while a pod is being replaced", group(inBatch(missing(nodeOf("a", oldHash, oldHash)), 1)),
			said{Started: []string{"a"}, Slots: []string{"a"}, States: statesOf("a", "in-flight/AwaitingPod")}, 1},
		{"and while it goes back under its slot", group(a).slots(slotOf(a, time.Minute)), said{Slots: []string{"a"}, States: statesOf("a", "in-flight/AwaitingAvailable")}, 1},
		{"it uses the budget of a healthy node", group(a, other(true)), said{States: statesOf("a", "held/AwaitingApproval", "b", "pending/BudgetExhausted")}, 0},
		{"but not that of another one that does not work", group(a, other(false)),
			said{Started: []string{"b"}, Delete: []string{"b-1"}, Slots: []string{"b"}, States: statesOf("a", "held/AwaitingApproval", "b", "in-flight/Replacing")}, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := Plan(test.in)
			if diff := cmp.Diff(test.want, say(d), cmpopts.EquateEmpty()); diff != "" || d.InFlight != test.inFlight {
				t.Errorf("%d in flight, want %d; decision (-want +got):\n%s", d.InFlight, test.inFlight, diff)
			}
		})
	}
}

// Its slot does not last for ever: it waits for the pod that does not work as for one of an upgrade.
func TestANodeThatDoesNotWorkWhereItIsPinnedFailsByItsDeadline(t *testing.T) {
	in := inputOf(1, broken(nodeOf("a", oldHash, oldHash))).back(false, "a")
	in.Members = append(in.Members, Member{Key: "kube-system/b", Target: newHash})
	for passed := time.Duration(0); passed <= in.Deadlines.Progress; passed += 30 * time.Second {
		in.Now = epoch.Add(passed)
		d := Plan(in)
		if want := passed == in.Deadlines.Progress; len(d.Delete) > 0 || (len(d.Ledger.Failures) > 0) != want || (len(d.Ledger.Slots) > 0) == want {
			t.Fatalf("after %s: deletes %v, slots %+v, failures %+v", passed, d.Delete, d.Ledger.Slots, d.Ledger.Failures)
		}
		in.Ledger = d.Ledger
	}
}

func TestANodeThatWentBackCountsForTheHaltOnce(t *testing.T) {
	in := inputOf(3, nodeOf("a", oldHash), broken(nodeOf("b", oldHash)), nodeOf("c", oldHash)).back(true, "a", "b").threshold(2)
	in.Ledger.Failures = []Failure{{Node: "b", UID: "uid-b", Reason: ReasonCrashLooping, Since: epoch, Targets: []Target{{"kube-system/a", newHash}}}}
	if d := Plan(in); !strings.HasPrefix(d.Halted, "2 of ") || len(d.Started) > 0 {
		t.Errorf("halted %q, started %v: b failed a second time, on its way back", d.Halted, d.Started)
	}
	for i := range in.Ledger.Pins {
		in.Ledger.Pins[i].Failed = false
	}
	if d := Plan(in); d.Halted != "" || len(d.Started) != 1 || d.Counts.Pinned != 1 || d.Counts.Failed != 1 {
		t.Errorf("after a resume: halted %q, started %v, %+v", d.Halted, d.Started, d.Counts)
	}
}

// Nodes that went back at the revision before are not a halt of the next one, of which none was started.
func TestNodesThatWentBackAreAShareOfThoseThatWereTouched(t *testing.T) {
	in := inputOf(3, nodeOf("a", oldHash, oldHash), nodeOf("b", oldHash, oldHash), nodeOf("c", newHash, oldHash)).back(true, "a", "b")
	in.Members = append(in.Members, Member{Key: "kube-system/b", Target: newHash})
	in.Ledger.Revision, in.Ledger.Touched = "before", 50
	if d := Plan(in); d.Halted != "" || len(d.Started) == 0 {
		t.Errorf("halted %q, started %v: 2 of 50 failed", d.Halted, d.Started)
	}
}

// TestAHaltOutlivesTheNextAttemptToGoBack: a node that failed on its way back may try again in a halt, which its failure is part of.
func TestAHaltOutlivesTheNextAttemptToGoBack(t *testing.T) {
	in := inputOf(3, broken(nodeOf("a", newHash)), nodeOf("b", oldHash)).back(false, "a").threshold(1)
	in.Ledger.Failures = []Failure{{Node: "a", UID: "uid-a", Reason: ReasonNodeLost, Since: epoch.Add(-time.Hour)}}
	in.Ledger.Revision = in.Revision
	for pass, want := range [][]string{{"a"}, nil} {
		d := Plan(in)
		if diff := cmp.Diff(want, d.Started, cmpopts.EquateEmpty()); diff != "" || d.Halted == "" {
			t.Errorf("pass %d: halted %q, started (-want +got):\n%s", pass, d.Halted, diff)
		}
		in.Ledger = d.Ledger
	}
}

// A person had undone one component; then the node was lost when it got another one.
func TestANodeThatWasLostHasNotGoneBackBecauseOfThePinOfAnotherComponent(t *testing.T) {
	for _, targets := range [][]Target{{{"kube-system/b", newHash}}, {{"kube-system/a", newHash}, {"kube-system/b", newHash}}} {
		in := inputOf(2, nodeOf("a", oldHash, oldHash), nodeOf("b", newHash, newHash)).back(false, "a").threshold(2)
		in.Members = append(in.Members, Member{Key: "kube-system/b", Target: newHash})
		in.Ledger.Failures = []Failure{{Node: "a", UID: "uid-a", Reason: ReasonNodeLost, Since: epoch.Add(-time.Hour), Targets: targets}}
		d := Plan(in)
		if !slices.Equal(d.Started, []string{"a"}) || len(d.Ledger.Failures) > 0 {
			t.Fatalf("%v: started %v, failures %+v when it is back", targets, d.Started, d.Ledger.Failures)
		}
		in.Ledger, in.Nodes[0] = d.Ledger, nodeOf("a", oldHash, newHash)
		if d = Plan(in.threshold(1)); d.Halted != "" || d.Counts.Pinned != 1 {
			t.Errorf("%v: halted %q, %+v once it is upgraded", targets, d.Halted, d.Counts)
		}
	}
}

// Only what the failure blames went back without effect.
func TestAPinOfAnotherComponentThanTheFailedOneHasNotFailed(t *testing.T) {
	for member, failed := range map[string]bool{"kube-system/a": true, "kube-system/b": false} {
		in := inputOf(2, with(nodeOf("a", newHash, newHash), func(n *Node) { n.Pods[1].Available = false }), nodeOf("b", newHash, newHash)).back(false, "a").threshold(2)
		in.Members = []Member{{Key: "kube-system/a", Target: newHash}, {Key: "kube-system/b", Target: newHash}}
		in.Ledger.Pins[0].Member = "kube-system/a"
		in.Ledger.Failures = []Failure{{Node: "a", UID: "uid-a", Reason: ReasonNodeLost, Since: epoch.Add(-time.Hour), Targets: []Target{{member, newHash}}}}
		d := Plan(in)
		if !slices.Equal(d.Started, []string{"a"}) || len(d.Ledger.Pins) != 1 || d.Ledger.Pins[0].Failed != failed {
			t.Errorf("%s failed: started %v, pins %+v", member, d.Started, d.Ledger.Pins)
		}
	}
}

func TestANodeThatFailsOnItsWayBackIsNotStartedAgain(t *testing.T) {
	n := withPod(crashing(nodeOf("a", oldHash)), func(p *Pod) { p.Created = epoch.Add(time.Minute) })
	in := inputOf(1, n).back(true, "a").slots(slotOf(n, time.Minute)).threshold(5)
	for range 3 {
		d := Plan(in)
		if v, _ := d.Verdict("a"); v.State != Failed || len(d.Started) > 0 {
			t.Fatalf("a is %+v, started %v", v, d.Started)
		}
		in.Ledger = d.Ledger
	}
}

func TestAPinIsForTheMachine(t *testing.T) {
	n := nodeOf("a", oldHash)
	in := inputOf(1, n).back(false, "a")
	in.Ledger.Pins[0].Machine = "m1"
	for machine, want := range map[string]State{"": Pinned, "m1": Pinned, "m2": InFlight} {
		in.Nodes[0].Machine = machine
		d := Plan(in)
		if v, _ := d.Verdict("a"); v.State != want {
			t.Errorf("machine %q: %+v, want %s", machine, v, want)
		}
	}
}

func TestAPinnedNodeTakesPartInNoTouchedCount(t *testing.T) {
	d := Plan(inputOf(1, nodeOf("a", newHash)).back(false, "a"))
	if len(d.Started) != 1 || d.Ledger.Touched != 0 || !d.Ledger.LastStart.Equal(epoch) {
		t.Errorf("started %v, touched %d: more failed nodes would be needed for a halt", d.Started, d.Ledger.Touched)
	}
	if d.Behind != 0 {
		t.Errorf("%d nodes are behind", d.Behind)
	}
	if d := Plan(inputOf(1, nodeOf("a", oldHash)).back(false, "a")); d.Behind != 1 {
		t.Errorf("%d nodes are behind, though one has an earlier revision than the target", d.Behind)
	}
}

// backHeavy pins nodes of these names to the old revision of the driver.
func (in Input) backHeavy(names ...string) Input {
	for _, name := range names {
		in.Ledger.Pins = append(in.Ledger.Pins, Pin{Node: name, Member: "kube-system/driver", Revision: oldHash, From: newHash, Message: "it failed", Failed: true})
	}
	return in
}

func TestADriverGoesBackByAnOperation(t *testing.T) {
	at := nodeOf("a", newHash, newHash)
	failed := withJob(at, &Operation{ID: "op-a", Ours: true, Granted: true, KeptCordoned: true, Targets: map[string]string{"kube-system/driver": newHash}})
	back := withJob(nodeOf("a", newHash, newHash), &Operation{ID: "op-a", Ours: true, Prepared: true, Targets: map[string]string{"kube-system/driver": oldHash}})
	halted := heavyInput(2, back, broken(nodeOf("c", newHash, newHash))).backHeavy("a", "c").threshold(1)
	stale := heavyInput(1, granted(at)).backHeavy("a").slots(operating(at))
	for _, test := range []struct {
		name    string
		in      Input
		want    said
		changes []string
	}{
		{"it is prepared", heavyInput(1, at).backHeavy("a"), said{States: statesOf("a", "pending/Preparing")}, []string{"a:prepare"}},
		{"one that is kept cordoned gets its operation at once", heavyInput(1, failed).backHeavy("a"),
			said{Started: []string{"a"}, Slots: []string{"a"}, States: statesOf("a", "in-flight/Operating")}, []string{"a:grant r2-mjuohs00-af63dc4c8601ec8c-0"}},
		{"under OTA too", ota(heavyInput(1, failed).backHeavy("a")),
			said{Started: []string{"a"}, Slots: []string{"a"}, States: statesOf("a", "in-flight/Operating")}, []string{"a:grant r2-mjuohs00-af63dc4c8601ec8c-0"}},
		{"in a halt what is prepared is granted", halted,
			said{Started: []string{"a"}, Slots: []string{"a"}, States: statesOf("a", "in-flight/Operating", "c", "pending/Preparing"), Halted: true}, []string{"a:grant op-a", "c:prepare"}},
		{"and kept while the budget has no room", heavyInput(1, back, broken(nodeOf("c", newHash, newHash))).backHeavy("a", "c").threshold(1),
			said{States: statesOf("a", "pending/BudgetExhausted", "c", "pending/Preparing"), Halted: true}, []string{"c:prepare"}},
		{"an operation for the newest revision is ended", stale, said{Slots: []string{"a"}, States: statesOf("a", "in-flight/Operating")}, []string{"a:abort op-a"}},
		{"it stays where it is", heavyInput(1, nodeOf("a", oldHash, newHash)).backHeavy("a"), said{States: statesOf("a", "pinned/Pinned")}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			decides(t, test.in, test.want, test.changes)
		})
	}
}

// TestANodeIsFreedBeforeItsOperationGaveItsSlotBack: the driver that the operation left there is older than the slot, and a cache
// that is behind would show one that was there before.
func TestANodeIsFreedBeforeItsOperationGaveItsSlotBack(t *testing.T) {
	n := withDone(nodeOf("a", oldHash, newHash))
	in := heavyInput(1, n).slots(operating(n))
	if d := Plan(in); len(d.Ledger.Slots) != 1 {
		t.Errorf("slots %+v: the driver may be one from before the operation", d.Ledger.Slots)
	}
	in.Nodes[0].Ended[0].Left = []Target{{"kube-system/driver", oldHash}}
	if d := Plan(in); len(d.Ledger.Slots) != 0 {
		t.Errorf("slots %+v: the operation left that driver there for a pin, which has ended", d.Ledger.Slots)
	}
}
