package rollout

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// askingFor returns the node with a request for a revision of the first member; running: its task
// says that it was started.
func askingFor(revision string, running bool, n Node) Node {
	n.Pods = slices.Clone(n.Pods)
	return withPod(asking(n), func(p *Pod) { p.Request.Revision, p.RequestRuns = revision, running })
}

// askingForSecond adds a request for the newest revision of the second member.
func askingForSecond(n Node) Node {
	n.Pods[1].Request = requestFor(&n.Pods[1], newHash)
	return n
}

func TestARequestIsForOneRevisionOfItsOwnDaemonSet(t *testing.T) {
	const earlier = "earlier"
	a := nodeOf("a", oldHash)
	two := nodeOf("a", oldHash, oldHash)
	pair := func(in Input) Input {
		in.Members = append(in.Members, Member{Key: "kube-system/b", Target: newHash})
		return in
	}
	retargeted := func(in Input) Input {
		in.Ledger.Revision = "r1"
		for i := range in.Ledger.Slots {
			in.Ledger.Slots[i].Revision = "r1"
		}
		return in
	}
	named := slotOf(a, time.Minute)
	named.Pod, named.PodVersion, named.Members = a.Pods[0].UID, "1", []string{"kube-system/a"}
	versioned := func(version string, n Node) Node {
		return withPod(n, func(p *Pod) { p.Version = version })
	}
	failed := inputOf(2, askingFor(earlier, false, a))
	failed.Ledger.Failures = []Failure{{Node: "a", UID: a.UID, Since: epoch.Add(-time.Hour), Reason: ReasonCrashLooping}}
	failedFirst := func(n Node) Input {
		in := pair(inputOf(2, n))
		in.Ledger.Failures = []Failure{{Node: "a", UID: a.UID, Since: epoch.Add(-time.Hour), Reason: ReasonCrashLooping, Targets: []Target{{"kube-system/a", newHash}}}}
		return in
	}
	kept := withJob(a, &Operation{ID: "op-a", Ours: true, Granted: true, KeptCordoned: true, Message: "the driver crash-loops"})
	waits := said{States: statesOf("a", "held/AwaitingRequest")}
	starts := said{Started: []string{"a"}, Delete: []string{"a-0"}, Slots: []string{"a"}, States: statesOf("a", "in-flight/Replacing")}
	for _, tt := range []struct {
		name    string
		in      Input
		want    said
		changes []string
	}{
		{"one for the newest starts its node", inputOf(1, askingFor(newHash, false, a)), starts, nil},
		{"one of an older agent, which names none, starts its node", inputOf(1, askingFor("", false, a)), starts, nil},
		{"none starts a node that its operation left out of service, where no successor would be created", inputOf(1, askingFor(newHash, false, kept)),
			said{States: statesOf("a", "pending/NodeBusy")}, nil},
		{"one for an earlier revision starts nothing", inputOf(1, askingFor(earlier, false, a)), waits, nil},
		{"the end of a halt by a newer revision starts nothing either", retargeted(failed), waits, nil},
		{"a node that failed starts again for one of the DaemonSet that may have failed", failedFirst(askingFor(newHash, false, nodeOf("a", oldHash, oldHash))), starts, nil},
		{"or for one of another DaemonSet when nothing is left to do for it, because that may be what it needs", failedFirst(askingForSecond(broken(nodeOf("a", newHash, oldHash)))),
			said{Started: []string{"a"}, Delete: []string{"a-1"}, Slots: []string{"a"}, States: statesOf("a", "in-flight/Replacing")}, nil},
		{"but not for one of another DaemonSet", failedFirst(askingForSecond(nodeOf("a", oldHash, oldHash))), said{States: statesOf("a", "failed/CrashLooping")}, nil},
		{"what changes elsewhere in the group does not matter", retargeted(inputOf(1, askingFor(newHash, false, a))), starts, nil},
		{"beside a newer one of another DaemonSet it stays undone", pair(inputOf(1, askingForSecond(askingFor(earlier, false, two)))),
			said{Started: []string{"a"}, Delete: []string{"a-1"}, Slots: []string{"a"}, States: statesOf("a", "in-flight/Replacing")}, nil},
		{"a node that was started for it goes on", retargeted(inputOf(1, versioned("1", askingFor(earlier, true, a))).slots(named)),
			said{Delete: []string{"a-0"}, Slots: []string{"a"}, States: statesOf("a", "in-flight/Replacing")}, nil},
		{"a node that gave its slot back does not start again for it", inputOf(1, askingFor(earlier, true, a)),
			said{States: statesOf("a", "pending/Unavailable")}, nil},
		{"no operation is prepared for it", heavyInput(1, askingFor(earlier, false, heavyNode("a"))), waits, nil},
		{"an operation that was prepared for it is taken back", heavyInput(1, askingFor(earlier, false, prepared(heavyNode("a")))), waits, []string{"a:abort op-a"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := Plan(ota(tt.in))
			if diff := cmp.Diff(tt.want, say(d), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("Plan (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.changes, operationChangesOf(d), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("changes (-want +got):\n%s", diff)
			}
		})
	}
}
