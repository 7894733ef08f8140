package rollout

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/topsops/gcu-operator/pkg/daemonset"
)

// atTargets returns a node whose toolkit and exporter are at their targets, but whose runtime has
// to be restarted.
func atTargets(name string) Node {
	n := nodeOf(name, newHash, newHash)
	n.NeedsRestart = true
	return n
}

func unverified(n Node) Node { return withPod(n, func(p *Pod) { p.Unverified = true }) }

func byHand(n Node) Node {
	n.LeftToAdministrator = "systemctl restart docker"
	return n
}

func setBack(n Node) Node {
	n.Retry, n.RetryWhy, n.SetBack = epoch.Add(time.Minute), "it is set back", "it is set back"
	return n
}

// restarting is heavyInput with a toolkit.
func restarting(limit int, nodes ...Node) Input {
	in := heavyInput(limit, nodes...)
	in.Members[0].Restarts = true
	return in
}

func (in Input) under(s daemonset.Strategy) Input {
	in.Settings.Strategy = s
	return in
}

func askingAt(n Node) Node {
	return withPod(n, func(p *Pod) { p.Request = requestFor(p, newHash) })
}

func restartCases() []operationCase {
	a, b := func() Node { return atTargets("a") }, func() Node { return nodeOf("b", newHash, newHash) }
	preparing, updated := "pending/Preparing", "updated/AtTarget"
	one := func(n Node) Input { return restarting(2, n) }
	// The first wave has a node that is updated, and so would be complete without the other.
	waves := restarting(2, byHand(a()), heavyNode("b"), nodeOf("c", newHash, newHash)).
		withPolicy(Policy{Waves: []Wave{{Name: "first", Selector: labels.SelectorFromSet(labels.Set{"first": "yes"})}}})
	waves.Nodes[0].Labels, waves.Nodes[2].Labels = map[string]string{"first": "yes"}, map[string]string{"first": "yes"}
	late := unverified(b())
	late.Retry, late.RetryWhy = epoch.Add(time.Minute), "the drain took too long"
	paused := one(a())
	paused.Settings.Paused = true
	leftOut := one(a())
	leftOut.Members[0].LeftOut = true
	notHeavy := one(unverified(b()))
	notHeavy.Members[0].Heavy = false
	busy := one(withJob(a(), &Operation{ID: "other", Granted: true}))
	joined := restarting(2, inBatch(nodeOf("a", newHash, newHash), 0), inBatch(atTargets("b"), 1))
	joined.Policy.Plan, joined.Policy.PlanVersion, joined.Policy.Batches = "plan", "plan/1", []Batch{{Name: "one"}}
	return []operationCase{
		{"a runtime that has to be restarted takes an operation", restarting(2, a(), b()), said{States: statesOf("a", preparing, "b", updated)}, []string{"a:prepare"}},
		{"under the budget", restarting(1, prepared(a()), prepared(atTargets("b"))),
			said{Started: []string{"a"}, Slots: []string{"a"}, States: statesOf("a", "in-flight/Operating", "b", "pending/BudgetExhausted")}, []string{"a:grant op-a"}},
		{"not where the toolkit is not available", one(broken(a())), said{States: statesOf("a", "pending/Unavailable")}, nil},
		{"one that is not at its target is replaced first", one(withPod(atTargets("a"), func(p *Pod) { p.Revision = oldHash })), said{States: statesOf("a", preparing)}, []string{"a:prepare"}},
		{"an offline node waits", one(offline(a())), said{States: statesOf("a", "skipped/NodeOffline")}, nil},
		{"so does a node that is held", one(held(a())), said{States: statesOf("a", "held/NodeHeld")}, nil},
		{"so does one of another group", busy, said{States: statesOf("a", "pending/NodeBusy")}, nil},
		{"so do all in a pause", paused, said{States: statesOf("a", "held/Paused")}, nil},
		{"a limited upgrade leaves it out", leftOut, said{States: statesOf("a", "held/LeftOut")}, nil},
		{"an administrator is waited for", one(byHand(a())), said{States: statesOf("a", "held/LeftToAdministrator")}, nil},
		{"what is prepared is taken back", one(byHand(prepared(a()))), said{States: statesOf("a", "held/LeftToAdministrator")}, []string{"a:abort op-a"}},
		{"waves wait for him too", waves, said{States: statesOf("a", "held/LeftToAdministrator", "b", "held/WaveNotReached", "c", "updated/AtTarget")}, nil},
		{"a newer version does not", one(byHand(withPod(atTargets("a"), func(p *Pod) { p.Revision = oldHash }))), said{States: statesOf("a", preparing)}, []string{"a:prepare"}},
		{"under OTA it is asked for where a pod uses a card", one(inUse(a())).under(daemonset.OTA), said{States: statesOf("a", "held/AwaitingRequest")}, nil},
		{"and done then", one(askingAt(prepared(a()))).under(daemonset.OTA),
			said{Started: []string{"a"}, Slots: []string{"a"}, States: statesOf("a", "in-flight/Operating")}, []string{"a:grant op-a"}},
		{"a request for another revision is not one for it", one(withPod(askingAt(inUse(a())), func(p *Pod) { p.Request.Revision = oldHash })).under(daemonset.OTA),
			said{States: statesOf("a", "held/AwaitingRequest")}, nil},
		{"without a strategy it is done", one(prepared(a())).under(RestartsOnly),
			said{Started: []string{"a"}, Slots: []string{"a"}, States: statesOf("a", "in-flight/Operating")}, []string{"a:grant op-a"}},
		{"and nothing else", restarting(2, heavyNode("a"), unverified(b())).under(RestartsOnly), said{States: statesOf("a", updated, "b", updated)}, nil},
		{"a node that such an operation left out of service needs another one", one(withJob(b(), &Operation{ID: "op-b", Ours: true, Granted: true, KeptCordoned: true})).under(RestartsOnly),
			said{Started: []string{"b"}, Slots: []string{"b"}, States: statesOf("b", "in-flight/Operating")}, []string{"b:grant r2-mjuohs00-" + fmt.Sprintf("%x", hashOf("b")) + "-0"}},
		{"what an operation did not verify takes another one", one(unverified(b())), said{States: statesOf("b", preparing)}, []string{"b:prepare"}},
		{"in its time", one(late), said{States: statesOf("b", "pending/Deferred")}, nil},
		{"not what is replaced without one", notHeavy, said{States: statesOf("b", updated)}, nil},
		{"a node that an operation ended early on gives its slot back and is not updated", one(unverified(withEnd(b(), ""))).slots(operating(b())),
			said{States: statesOf("b", preparing)}, []string{"b:prepare"}},
		{"a runtime that was set back since the operation was done takes another one", one(withDone(a())).slots(operating(a())),
			said{States: statesOf("a", preparing)}, []string{"a:prepare"}},
		{"one that is set back again and again is restarted later", one(setBack(a())), said{States: statesOf("a", "pending/RuntimeSetBack")}, nil},
		{"under OTA too", one(setBack(a())).under(daemonset.OTA), said{States: statesOf("a", "pending/RuntimeSetBack")}, nil},
		{"not if an operation has to verify something else", one(setBack(unverified(b()))), said{States: statesOf("b", "pending/Deferred")}, nil},
		{"a node in no batch of a plan", joined, said{States: statesOf("a", updated, "b", preparing)}, []string{"b:prepare"}},
		{"a node that waits for a pod gives its slot to the operation", one(a()).slots(slotOf(a(), time.Minute)), said{States: statesOf("a", preparing)}, []string{"a:prepare"}},
	}
}

// noCards returns a node whose runtime was restarted by a person: its light pod has no cards.
func noCards(name string) Node {
	n := nodeOf(name, newHash, newHash)
	n.Pods[1].NoCards = true
	return n
}

// offersNone returns a node whose light pod should offer cards, and does not yet.
func offersNone(name string) Node {
	n := nodeOf(name, newHash, newHash)
	n.Pods[1].OffersNone = true
	return n
}

// noCardsBesidePlugin returns a node whose plugin has no cards, and a pod after it.
func noCardsBesidePlugin(n Node) Input {
	n.Pods[1].OffersNone = true
	n.Pods = append(n.Pods, Pod{Member: 2, Name: "a-2", UID: "gfd", Revision: newHash, Available: true, NoCards: true})
	in := restarting(1, n)
	in.Members = append(in.Members, Member{Key: "kube-system/gfd", Target: newHash})
	return in
}

// slotOfPlugin returns the slot under which the light pod of a node was replaced.
func slotOfPlugin(name string, age time.Duration) Slot {
	s := slotOf(nodeOf(name), age)
	s.Members = []string{"kube-system/exporter"}
	return s
}

func formerly(s Slot) Slot {
	s.Revision = "r1"
	return s
}

// failedPlugin adds the failure of the light pod of node a.
func failedPlugin(in Input) Input {
	in.Ledger.Failures = []Failure{{Node: "a", UID: "uid-a", Reason: ReasonProgressDeadlineExceeded, Since: epoch, Targets: []Target{{"kube-system/exporter", newHash}}}}
	return in
}

// The device plugin is replaced like any outdated pod, but by every strategy: it disturbs nobody.
func noCardsCases() []operationCase {
	one, started := func(n Node) Input { return restarting(1, n) }, said{Started: []string{"a"}, Slots: []string{"a"}, Delete: []string{"a-1"}, States: statesOf("a", "in-flight/Replacing")}
	paused, leftOut, unmanaged := one(noCards("a")), one(noCards("a")), one(noCards("a")).under(daemonset.NoStrategy)
	paused.Settings.Paused, leftOut.Members[1].LeftOut = true, true
	outdated := one(noCards("a")).under(daemonset.OTA)
	outdated.Nodes[0].Pods[1].Revision = oldHash
	canary := Policy{Waves: []Wave{{Name: "canary", Selector: labels.SelectorFromSet(labels.Set{"canary": "yes"})}}}
	wave := restarting(2, labeled(offersNone("a"), "canary", "yes"), nodeOf("b", newHash, oldHash)).withPolicy(canary)
	return []operationCase{
		{"a plugin without cards is replaced", one(noCards("a")), started, nil},
		{"without a strategy", one(noCards("a")).under(RestartsOnly), started, nil},
		{"unasked under OTA", one(noCards("a")).under(daemonset.OTA), started, nil},
		{"but not to another revision", outdated, said{States: statesOf("a", "held/AwaitingRequest")}, nil},
		{"within the budget", restarting(1, noCards("a"), noCards("b")),
			said{Started: []string{"a"}, Slots: []string{"a"}, Delete: []string{"a-1"}, States: statesOf("a", "in-flight/Replacing", "b", "pending/Queued")}, nil},
		{"not in a pause", paused, said{States: statesOf("a", "held/Paused")}, nil},
		{"not if it is left out", leftOut, said{States: statesOf("a", "held/LeftOut")}, nil},
		{"not if nothing is managed", unmanaged, said{States: statesOf("a", "updated/AtTarget")}, nil},
		{"its slot is given back once another one is there", one(nodeOf("a", newHash, newHash)).slots(slotOf(nodeOf("a", newHash, newHash), time.Minute)), said{States: statesOf("a", "updated/AtTarget")}, nil},
		{"but not before the node offers cards", one(offersNone("a")).slots(slotOfPlugin("a", time.Minute)),
			said{Slots: []string{"a"}, States: statesOf("a", "in-flight/AwaitingAvailable")}, nil},
		{"also when the target changes", one(offersNone("a")).slots(formerly(slotOfPlugin("a", time.Minute))),
			said{Slots: []string{"a"}, States: statesOf("a", "in-flight/AwaitingAvailable")}, nil},
		{"for as long as any pod may take", one(offersNone("a")).slots(slotOfPlugin("a", DefaultDeadlines.Progress)),
			said{States: statesOf("a", "failed/ProgressDeadlineExceeded")}, nil},
		{"and holds up the waves after its own", wave.slots(slotOfPlugin("a", time.Minute)),
			said{Slots: []string{"a"}, States: statesOf("a", "in-flight/AwaitingAvailable", "b", "held/WaveNotReached")}, nil},
		{"also once it has failed", failedPlugin(wave), said{States: statesOf("a", "failed/ProgressDeadlineExceeded", "b", "held/WaveNotReached")}, nil},
		{"last of those without cards, which are known by its node", noCardsBesidePlugin(noCards("a")), said{Started: []string{"a"}, Slots: []string{"a"}, Delete: []string{"a-2"}, States: statesOf("a", "in-flight/Replacing")}, nil},
		{"a slot for another pod does not wait for cards", one(offersNone("a")).slots(slotOf(nodeOf("a", newHash, newHash), time.Minute)), said{States: statesOf("a", "updated/AtTarget")}, nil},
		{"a failed plugin has recovered when the node offers cards", failedPlugin(one(nodeOf("a", newHash, newHash))), said{States: statesOf("a", "updated/AtTarget")}, nil},
		{"and not before", failedPlugin(one(offersNone("a"))), said{States: statesOf("a", "failed/ProgressDeadlineExceeded")}, nil},
	}
}

func TestAPluginWithoutCardsIsReplaced(t *testing.T) {
	for _, test := range noCardsCases() {
		t.Run(test.name, func(t *testing.T) {
			decides(t, test.in, test.want, test.changes)
		})
	}
	if d := Plan(restarting(1, noCards("a")).under(RestartsOnly)); d.IsIdle() {
		t.Error("restarts without a strategy end before the plugin is replaced")
	}
	if out := Preview(restarting(1, noCards("a"))); len(out.Starts) != 1 || len(out.Left) != 0 {
		t.Errorf("preview: starts %v, left %v", out.Starts, out.Left)
	}
}

func TestRestarts(t *testing.T) {
	for _, test := range restartCases() {
		t.Run(test.name, func(t *testing.T) {
			decides(t, test.in, test.want, test.changes)
		})
	}
}

func TestADecisionIsIdleWhenNothingIsLeft(t *testing.T) {
	a, b := func() Node { return atTargets("a") }, func() Node { return nodeOf("b", newHash, newHash) }
	for _, test := range []struct {
		name string
		in   Input
		want bool
	}{
		{"a runtime has to be restarted", restarting(2, a()), false},
		{"by an administrator", restarting(2, byHand(a())), false},
		{"on a node that is offline", restarting(2, offline(a())), false},
		{"a slot is left", restarting(2, granted(b())).slots(operating(b())), false},
		{"an operation is left", restarting(2, prepared(b())), false},
		{"nothing is left", restarting(2, b(), broken(nodeOf("c", newHash, newHash)), heavyNode("d")), true},
	} {
		if d := Plan(test.in.under(RestartsOnly)); d.IsIdle() != test.want {
			t.Errorf("%s: idle is %t", test.name, !test.want)
		}
	}
}

func TestAPreviewEndsWithTheRestarts(t *testing.T) {
	out := Preview(restarting(1, atTargets("a"), unverified(nodeOf("b", newHash, newHash)), byHand(atTargets("c"))))
	if len(out.Starts) != 2 || len(out.Left) != 1 || out.Left[0].Reason != ReasonLeftToAdministrator {
		t.Errorf("starts %v, left %v; want two nodes one after the other, and one left", out.Starts, out.Left)
	}
}
