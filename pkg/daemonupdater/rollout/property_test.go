package rollout

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"github.com/topsops/gcu-operator/pkg/daemonset"
)

func drawPod(t *rapid.T, node string, member int) Pod {
	p := Pod{Member: member}
	if rapid.IntRange(0, 9).Draw(t, "missing") == 0 {
		return p
	}
	p.Node, p.Name = node, fmt.Sprintf("%s-%d", node, member)
	p.UID = types.UID(p.Name)
	p.Revision = rapid.SampledFrom([]string{oldHash, newHash}).Draw(t, "revision")
	p.Terminating = rapid.IntRange(0, 9).Draw(t, "terminating") == 0
	p.Available = !p.Terminating && rapid.IntRange(0, 3).Draw(t, "available") > 0
	if !p.Available && rapid.IntRange(0, 4).Draw(t, "crash") == 0 {
		p.CrashLooping = "c"
	}
	if rapid.IntRange(0, 3).Draw(t, "request") == 0 {
		p.Request = requestFor(&p, rapid.SampledFrom([]string{"", newHash, "earlier"}).Draw(t, "asked"))
	}
	return p
}

// drawPins draws nodes that are kept at the old revision, or at one that none has.
func drawPins(t *rapid.T, in *Input) (pins []Pin) {
	for i := range 13 {
		if len(in.Members) > 0 && rapid.IntRange(0, 9).Draw(t, "pinned") == 0 {
			pins = append(pins, Pin{Node: fmt.Sprintf("n%02d", i), Member: in.Members[0].Key, From: newHash, Message: "it failed", Failed: rapid.Bool().Draw(t, "failed"),
				Revision: rapid.SampledFrom([]string{oldHash, "older"}).Draw(t, "pinned to")})
		}
	}
	return pins
}

// drawInput draws any group, including states that no real history leads to.
func drawInput(t *rapid.T) Input {
	members := rapid.IntRange(1, 3).Draw(t, "members")
	in := Input{
		Now: epoch,
		Settings: daemonset.Settings{
			Strategy:       rapid.SampledFrom([]daemonset.Strategy{daemonset.AdvancedRollingUpdate, daemonset.OTA}).Draw(t, "strategy"),
			MaxUnavailable: intstr.FromInt32(int32(rapid.IntRange(1, 6).Draw(t, "limit"))),
			Paused:         rapid.IntRange(0, 9).Draw(t, "paused") == 0,
		},
		Revision:  "r2",
		Ledger:    Ledger{Revision: rapid.SampledFrom([]string{"r1", "r2"}).Draw(t, "ledger revision")},
		Deadlines: DefaultDeadlines,
	}
	if rapid.IntRange(0, 9).Draw(t, "blocked") == 0 {
		in.Blocked = &Blocked{Reason: "X", Message: "x"}
	}
	if rapid.IntRange(0, 9).Draw(t, "beforehand") == 0 {
		in.Beforehand = &Blocked{Reason: "AwaitingGlobalTask", Message: "y"}
	}
	for m := range members {
		in.Members = append(in.Members, Member{Key: fmt.Sprint("ds", m), Target: newHash})
	}
	for i := range rapid.IntRange(0, 12).Draw(t, "nodes") {
		n := Node{Name: fmt.Sprintf("n%02d", i), UID: types.UID(fmt.Sprint("u", i)), Zone: rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "zone")}
		n.Ready = rapid.IntRange(0, 3).Draw(t, "ready") > 0
		n.ReadySince = epoch.Add(-time.Duration(rapid.IntRange(0, 40).Draw(t, "ready since")) * time.Minute)
		n.ReadyEarliest = n.ReadySince
		for m := range members {
			n.Pods = append(n.Pods, drawPod(t, n.Name, m))
		}
		in.Nodes = append(in.Nodes, n)
		switch rapid.IntRange(0, 5).Draw(t, "memory") {
		case 0:
			age := time.Duration(rapid.IntRange(0, 30).Draw(t, "age")) * time.Minute
			in.Ledger.Slots = append(in.Ledger.Slots, Slot{Node: n.Name, UID: n.UID, Revision: in.Ledger.Revision, Since: epoch.Add(-age), Progress: epoch.Add(-age)})
		case 1:
			in.Ledger.Failures = append(in.Ledger.Failures, Failure{Node: n.Name, UID: n.UID, Reason: ReasonCrashLooping, Message: "crashed", Since: epoch.Add(-time.Minute)})
		}
	}
	in.Ledger.Pins = drawPins(t, &in)
	return in
}

func TestPlanProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t)
		d := Plan(in)
		facts := map[string]Node{}
		for _, n := range in.Nodes {
			facts[n.Name] = n
		}
		checkBudget(t, in, d, facts)
		checkDeletions(t, in, d, facts)
		checkStops(t, in, d)
		if diff := cmp.Diff(d, Plan(in), cmpopts.IgnoreUnexported(Decision{})); diff != "" {
			t.Fatalf("the same input gave another decision:\n%s", diff)
		}
		in.Ledger = d.Ledger
		if again := Plan(in); len(again.Started) != 0 {
			t.Fatalf("with its own ledger the plan starts more: %v after %v", again.Started, d.Started)
		}
		for _, p := range d.Ledger.Pins {
			if v, ok := d.Verdict(p.Node); ok && v.State == Updated {
				t.Fatalf("node %s is pinned to %s and counts as updated", p.Node, p.Revision)
			}
		}
		if c := d.Counts; c.Updated+c.InFlight+c.Pending+c.Held+c.Skipped+c.Failed+c.Pinned != c.Total || c.Total != len(in.Nodes)+len(d.FailedAndGone()) {
			t.Fatalf("counts do not add up: %+v of %d nodes", c, len(in.Nodes))
		}
		for _, v := range d.Verdicts() {
			if v.State == "" || v.Reason == "" || (v.State != Updated && v.Message == "") {
				t.Fatalf("verdict without a state, reason or message: %+v", v)
			}
		}
	})
}

// allAvailable reports whether a node is Ready with every pod available.
func allAvailable(n Node) bool {
	for _, p := range n.Pods {
		if !p.Available || p.Terminating || p.UID == "" {
			return false
		}
	}
	return n.Ready
}

// checkBudget checks that after a healthy node starts, the slots plus the unavailable Ready nodes
// are within the limit.
func checkBudget(t *rapid.T, in Input, d Decision, facts map[string]Node) {
	used := map[string]bool{}
	for _, s := range d.Ledger.Slots {
		if !s.Queued {
			used[s.Node] = true
		}
	}
	healthyStarts := 0
	for _, name := range d.Started {
		if allAvailable(facts[name]) {
			healthyStarts++
		}
	}
	for _, n := range in.Nodes {
		if n.Ready && !allAvailable(n) {
			used[n.Name] = true
		}
	}
	if healthyStarts > 0 && len(used) > in.Settings.MaxUnavailableOf(len(in.Nodes)) {
		t.Fatalf("started healthy nodes %v with %d nodes used of %d", d.Started, len(used), d.MaxUnavailable)
	}
	if before := in.Ledger.InFlight(); len(d.Started) > 0 && d.Ledger.InFlight() > max(before, in.Settings.MaxUnavailableOf(len(in.Nodes))) {
		t.Fatalf("%d slots in flight of %d", d.Ledger.InFlight(), d.MaxUnavailable)
	}
}

// checkDeletions checks that only outdated pods are deleted, on Ready nodes, under a slot that
// names the pod, at most one per node.
func checkDeletions(t *rapid.T, in Input, d Decision, facts map[string]Node) {
	intent := map[string]types.UID{}
	for _, s := range d.Ledger.Slots {
		intent[s.Node] = s.Pod
	}
	seen := map[string]bool{}
	for _, x := range d.Delete {
		n := facts[x.Node]
		p := n.Pods[x.Member]
		switch {
		case seen[x.Node]:
			t.Fatalf("two deletions on node %s", x.Node)
		case !n.Ready:
			t.Fatalf("deletes pod %s on offline node %s", x.Name, x.Node)
		case p.Terminating || p.UID == "" || p.Revision == pinOf(in, x.Node, x.Member, newHash):
			t.Fatalf("deletes pod %+v, which is not outdated", p)
		case intent[x.Node] != p.UID:
			t.Fatalf("deletes pod %s without having recorded it", x.Name)
		case pinOf(in, x.Node, x.Member, "") != "":
		case in.Settings.Strategy == daemonset.OTA && (p.Request == nil || p.Request.Pod.UID != p.UID):
			t.Fatalf("deletes pod %s that nobody asked for", x.Name)
		case in.Settings.Strategy == daemonset.OTA && p.Request.Revision == "earlier":
			t.Fatalf("deletes pod %s for a request for another revision", x.Name)
		}
		seen[x.Node] = true
	}
}

// pinOf returns the revision that a pod is pinned to, otherwise the given one.
func pinOf(in Input, node string, member int, otherwise string) string {
	for _, p := range in.Ledger.Pins {
		if p.Node == node && p.Member == in.Members[member].Key {
			return p.Revision
		}
	}
	return otherwise
}

// checkStops checks that nothing starts on offline nodes, or while paused, halted, blocked or before the global tasks are
// done, except that pinned nodes go back in a halt.
func checkStops(t *rapid.T, in Input, d Decision) {
	stopped := in.Settings.Paused || d.Halted != "" || in.Blocked != nil || in.Beforehand != nil
	onlyBack := !in.Settings.Paused && in.Blocked == nil && in.Beforehand == nil && !slices.ContainsFunc(d.Started, func(node string) bool { return pinOf(in, node, 0, "") == "" })
	if stopped && len(d.Started) > 0 && !onlyBack {
		t.Fatalf("started %v though it must not (paused %v, halted %q, blocked %v, tasks before %v)", d.Started, in.Settings.Paused, d.Halted, in.Blocked, in.Beforehand)
	}
	if in.Blocked != nil && len(d.Delete) > 0 {
		t.Fatalf("deletes %v while blocked", d.Delete)
	}
	if in.Blocked != nil && !cmp.Equal(in.Ledger, d.Ledger) {
		t.Fatalf("the ledger changed while blocked:\n%s", cmp.Diff(in.Ledger, d.Ledger))
	}
}
