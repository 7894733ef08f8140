package rollout

import (
	"testing"
	"time"

	"github.com/topsops/gcu-operator/pkg/daemonset"
)

// looking returns a node whose unasked operation looks whether pods use its cards.
func looking(n Node) Node {
	job := jobOf("op-" + n.Name)
	job.OnlyIdle = true
	return withJob(n, job)
}

// idle returns a node on which the operation has seen no pod that uses a card, inUse one on which
// it has seen some.
func idle(n Node) Node {
	n = looking(n)
	n.Operation.Prepared = true
	return n
}

func inUse(n Node) Node {
	n = idle(n)
	n.Operation.InUse = true
	return n
}

func TestUnderOTAAnIdleNodeIsRestartedWithoutARequest(t *testing.T) {
	a, b := func() Node { return atTargets("a") }, func() Node { return atTargets("b") }
	ota := func(limit int, nodes ...Node) Input { return restarting(limit, nodes...).under(daemonset.OTA) }
	outdated := func(n Node) Node { n.Pods[1].Revision = oldHash; return n }
	waits, preparing := "held/AwaitingRequest", "pending/Preparing"
	running := said{Started: []string{"a"}, Slots: []string{"a"}, States: statesOf("a", "in-flight/Operating")}
	atWork := idle(a())
	atWork.Operation.Granted, atWork.Disturbed = true, true
	others := idle(a())
	others.Operation.Ours = false
	held := idle(a())
	held.Operation.KeptCordoned, held.Operation.Granted, held.Disturbed = true, true, true
	paused := ota(1, inUse(a()))
	paused.Settings.Paused = true
	leftOut := ota(1, a())
	leftOut.Nodes[0].LeftOut = true
	failed := ota(1, idle(a()))
	failed.Ledger.Failures = []Failure{{Node: "a", UID: a().UID, Since: epoch.Add(-time.Hour), Reason: ReasonOperationFailed, Targets: []Target{{"kube-system/driver", newHash}}}}
	for _, test := range []operationCase{
		{"an operation looks whether a node is idle", ota(1, a()), said{States: statesOf("a", preparing)}, []string{"a:prepare"}},
		{"it is not made again meanwhile", ota(1, looking(a())), said{States: statesOf("a", preparing)}, nil},
		{"an idle node is restarted", ota(1, idle(a())), running, []string{"a:grant op-a"}},
		{"under the budget", ota(1, idle(a()), idle(b())),
			said{Started: []string{"a"}, Slots: []string{"a"}, States: statesOf("a", "in-flight/Operating", "b", "pending/BudgetExhausted")}, []string{"a:grant op-a"}},
		{"one in use asks, and its operation is kept", ota(1, inUse(a())), said{States: statesOf("a", waits)}, nil},
		{"it keeps no other from being prepared", ota(1, inUse(a()), b()), said{States: statesOf("a", waits, "b", preparing)}, []string{"b:prepare"}},
		{"once asked for it is prepared like any other", ota(1, askingAt(inUse(a()))), said{States: statesOf("a", preparing)}, []string{"a:prepare"}},
		{"so is an idle one", ota(1, askingAt(idle(a()))), said{States: statesOf("a", preparing)}, []string{"a:prepare"}},
		{"and every one when the strategy is another", restarting(1, inUse(a())), said{States: statesOf("a", preparing)}, []string{"a:prepare"}},
		{"without need of a restart the operation is taken back", ota(1, inUse(nodeOf("a", newHash, newHash))), said{States: statesOf("a", "updated/AtTarget")}, []string{"a:abort op-a"}},
		{"so is one that was prepared for a request", ota(1, prepared(a())), said{States: statesOf("a", waits)}, []string{"a:abort op-a"}},
		{"and one that an administrator restarts", ota(1, byHand(inUse(a()))), said{States: statesOf("a", "held/LeftToAdministrator")}, []string{"a:abort op-a"}},
		{"and all in a pause", paused, said{States: statesOf("a", waits)}, []string{"a:abort op-a"}},
		{"an outdated pod is asked for", ota(1, outdated(a())), said{States: statesOf("a", waits)}, nil},
		{"even on an idle node", ota(1, outdated(idle(a()))), said{States: statesOf("a", waits)}, []string{"a:abort op-a"}},
		{"or on one in use", ota(1, outdated(inUse(a()))), said{States: statesOf("a", waits)}, []string{"a:abort op-a"}},
		{"what an operation did not verify is asked for", ota(1, unverified(nodeOf("a", newHash, newHash))), said{States: statesOf("a", waits)}, nil},
		{"no operation of another group is replaced unasked", ota(1, others), said{States: statesOf("a", waits)}, nil},
		{"a node that an operation left out of service is asked for", ota(1, held), said{States: statesOf("a", waits)}, nil},
		{"so is one that failed", failed, said{States: statesOf("a", "failed/OperationFailed")}, nil},
		{"and one that a limited upgrade leaves out", leftOut, said{States: statesOf("a", waits)}, nil},
		{"an operation at work goes on", ota(1, atWork).slots(operating(a())), said{Slots: []string{"a"}, States: statesOf("a", "in-flight/Operating")}, nil},
		{"one that was put off gives the slot back", ota(1, withEnd(a(), "")).slots(operating(a())), said{States: statesOf("a", preparing)}, []string{"a:prepare"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			decides(t, test.in, test.want, test.changes)
		})
	}
}

func TestAnOperationWithoutARequestIsOnlyForAnIdleNode(t *testing.T) {
	for _, test := range []struct {
		name string
		in   Input
		want bool
	}{
		{"nobody asked", restarting(1, atTargets("a")).under(daemonset.OTA), true},
		{"it is asked for", restarting(1, askingAt(atTargets("a"))).under(daemonset.OTA), false},
		{"nobody has to ask", restarting(1, atTargets("a")), false},
		{"it is about something else", restarting(1, heavyNode("a")).under(daemonset.OTA), false},
	} {
		if got := OnlyIdle(&test.in, &test.in.Nodes[0]); got != test.want {
			t.Errorf("%s: %t", test.name, got)
		}
	}
}
