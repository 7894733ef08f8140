package rollout

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

const oldHash, newHash = "old", "new"

// nodeOf returns a Ready node with an available pod for each given revision.
func nodeOf(name string, revisions ...string) Node {
	n := Node{Name: name, UID: types.UID("uid-" + name), Ready: true, ReadySince: epoch.Add(-time.Hour)}
	for i, r := range revisions {
		n.Pods = append(n.Pods, Pod{Node: name, Member: i, Name: fmt.Sprintf("%s-%d", name, i), UID: types.UID(fmt.Sprintf("pod-%s-%d-%s", name, i, r)), Revision: r, Available: true})
	}
	return n
}

func offline(n Node) Node {
	n.Ready, n.ReadySince, n.ReadyEarliest = false, epoch.Add(-time.Minute), epoch.Add(-time.Minute)
	return n
}

// withPod changes the pod of the first member.
func withPod(n Node, change func(*Pod)) Node {
	change(&n.Pods[0])
	return n
}

func broken(n Node) Node      { return withPod(n, func(p *Pod) { p.Available = false }) }
func terminating(n Node) Node { return withPod(n, func(p *Pod) { p.Terminating = true }) }
func missing(n Node) Node {
	return withPod(n, func(p *Pod) { *p = Pod{Node: p.Node, Member: p.Member} })
}
func crashing(n Node) Node {
	return withPod(broken(n), func(p *Pod) { p.CrashLooping, p.Created = "driver", epoch })
}

// requestFor returns a request for a pod at a revision, "" for any.
func requestFor(p *Pod, revision string) *topsv1.UpgradeRequest {
	return &topsv1.UpgradeRequest{Pod: topsv1.NamespacedRef{UID: p.UID}, Revision: revision, RequestTime: metav1.NewTime(epoch)}
}

func asking(n Node) Node {
	return withPod(n, func(p *Pod) { p.Request = requestFor(p, "") })
}

func leftOutOf(n Node) Node {
	n.LeftOut = true
	return n
}

// withoutFirst excludes the first of two members from the upgrade.
func withoutFirst(in Input) Input {
	in.Members = []Member{{Key: "kube-system/a", Target: newHash, LeftOut: true}, {Key: "kube-system/b", Target: newHash}}
	return in
}

// inputOf returns a group of one member under AdvancedRollingUpdate.
func inputOf(limit int, nodes ...Node) Input {
	return Input{
		Now:       epoch,
		Settings:  daemonset.Settings{Strategy: daemonset.AdvancedRollingUpdate, MaxUnavailable: intstr.FromInt32(int32(limit))},
		Revision:  "r2",
		Members:   []Member{{Key: "kube-system/a", Target: newHash}},
		Nodes:     nodes,
		Ledger:    Ledger{Revision: "r2"},
		Deadlines: DefaultDeadlines,
	}
}

func slotOf(n Node, age time.Duration) Slot {
	return Slot{Node: n.Name, UID: n.UID, Since: epoch.Add(-age), Progress: epoch.Add(-age), Revision: "r2"}
}

func (in Input) slots(slots ...Slot) Input {
	in.Ledger.Slots, in.Ledger.Touched, in.Ledger.Decided = slots, len(slots), epoch
	return in
}

// said is the part of a decision that a test compares.
type said struct {
	Started []string
	Delete  []string
	States  map[string]string
	Slots   []string
	Halted  bool
}

func say(d Decision) said {
	s := said{Started: d.Started, States: map[string]string{}, Halted: d.Halted != ""}
	for _, x := range d.Delete {
		s.Delete = append(s.Delete, x.Name)
	}
	for _, v := range d.Verdicts() {
		s.States[v.Node] = string(v.State) + "/" + string(v.Reason)
	}
	for _, x := range d.Ledger.Slots {
		if !x.Queued {
			s.Slots = append(s.Slots, x.Node)
		}
	}
	return s
}

func TestPlan(t *testing.T) {
	a, b, c := nodeOf("a", oldHash), nodeOf("b", oldHash), nodeOf("c", oldHash)
	tests := []struct {
		name string
		in   Input
		want said
	}{
		{
			name: "starts one healthy node under a budget of one, queues the next, and tells another why it waits",
			in:   inputOf(1, a, b, c),
			want: said{Started: []string{"a"}, Delete: []string{"a-0"}, Slots: []string{"a"},
				States: map[string]string{"a": "in-flight/Replacing", "b": "pending/BudgetExhausted", "c": "pending/Queued"}},
		},
		{
			name: "a node that the upgrade leaves out waits, and costs nothing",
			in:   inputOf(1, leftOutOf(a), b),
			want: said{Started: []string{"b"}, Delete: []string{"b-0"}, Slots: []string{"b"},
				States: map[string]string{"a": "held/LeftOut", "b": "in-flight/Replacing"}},
		},
		{
			name: "a component that the upgrade leaves out is not replaced, and its node waits for it",
			in:   withoutFirst(inputOf(1, nodeOf("a", oldHash, oldHash), nodeOf("b", oldHash, newHash))),
			want: said{Started: []string{"a"}, Delete: []string{"a-1"}, Slots: []string{"a"},
				States: map[string]string{"a": "in-flight/Replacing", "b": "held/LeftOut"}},
		},
		{
			name: "contract 99: skips a node that was offline before it was touched, at no cost",
			in:   inputOf(1, offline(a), b),
			want: said{Started: []string{"b"}, Delete: []string{"b-0"}, Slots: []string{"b"},
				States: map[string]string{"a": "skipped/NodeOffline", "b": "in-flight/Replacing"}},
		},
		{
			name: "an offline node whose pod is missing is skipped too",
			in:   inputOf(1, offline(missing(nodeOf("a", oldHash)))),
			want: said{States: map[string]string{"a": "skipped/NodeOffline"}},
		},
		{
			name: "goes on when more nodes are offline than the budget",
			in:   inputOf(1, offline(a), offline(b), c),
			want: said{Started: []string{"c"}, Delete: []string{"c-0"}, Slots: []string{"c"},
				States: map[string]string{"a": "skipped/NodeOffline", "b": "skipped/NodeOffline", "c": "in-flight/Replacing"}},
		},
		{
			name: "a node lost after it was touched keeps its slot, and its pod is not deleted",
			in:   inputOf(1, offline(a), b).slots(slotOf(a, 2*time.Minute)),
			want: said{Slots: []string{"a"},
				States: map[string]string{"a": "in-flight/NodeLost", "b": "pending/BudgetExhausted"}},
		},
		{
			name: "a lost node fails at the deadline and frees its slot",
			in: func() Input {
				lost := offline(a)
				lost.ReadySince = epoch.Add(-16 * time.Minute)
				return inputOf(1, lost, b).slots(slotOf(a, 20*time.Minute))
			}(),
			want: said{Started: []string{"b"}, Delete: []string{"b-0"}, Slots: []string{"b"},
				States: map[string]string{"a": "failed/NodeLost", "b": "in-flight/Replacing"}},
		},
		{
			name: "a node whose object vanished gives its slot back",
			in:   inputOf(1, b).slots(slotOf(a, 2*time.Minute)),
			want: said{Started: []string{"b"}, Delete: []string{"b-0"}, Slots: []string{"b"}, States: map[string]string{"b": "in-flight/Replacing"}},
		},
		{
			name: "a node re-added under the same name is a new node",
			in:   inputOf(1, nodeOf("a", newHash), b).slots(Slot{Node: "a", UID: "older", Since: epoch, Revision: "r2"}),
			want: said{Started: []string{"b"}, Delete: []string{"b-0"}, Slots: []string{"b"},
				States: map[string]string{"a": "updated/AtTarget", "b": "in-flight/Replacing"}},
		},
		{
			name: "the slot of a finished node goes to the next in the same decision",
			in:   inputOf(1, nodeOf("a", newHash), b).slots(slotOf(a, time.Minute)),
			want: said{Started: []string{"b"}, Delete: []string{"b-0"}, Slots: []string{"b"},
				States: map[string]string{"a": "updated/AtTarget", "b": "in-flight/Replacing"}},
		},
		{
			name: "a new pod that is not yet available keeps the slot",
			in:   inputOf(1, broken(nodeOf("a", newHash)), b).slots(slotOf(a, time.Minute)),
			want: said{Slots: []string{"a"},
				States: map[string]string{"a": "in-flight/AwaitingAvailable", "b": "pending/BudgetExhausted"}},
		},
		{
			name: "a terminating pod without a slot counts against the budget",
			in:   inputOf(1, terminating(nodeOf("a", oldHash)), b),
			want: said{States: map[string]string{"a": "pending/Unavailable", "b": "pending/BudgetExhausted"}},
		},
		{
			name: "a missing pod without a slot counts against the budget",
			in:   inputOf(1, missing(nodeOf("a", oldHash)), b),
			want: said{States: map[string]string{"a": "pending/Unavailable", "b": "pending/BudgetExhausted"}},
		},
		{
			name: "an unavailable old pod is replaced first, though the budget is used up by it",
			in:   inputOf(1, a, broken(nodeOf("b", oldHash)), c),
			want: said{Started: []string{"b"}, Delete: []string{"b-0"}, Slots: []string{"b"},
				States: map[string]string{"a": "pending/BudgetExhausted", "b": "in-flight/Replacing", "c": "pending/BudgetExhausted"}},
		},
		{
			name: "unavailable old pods are never replaced faster than the budget",
			in:   inputOf(1, broken(nodeOf("a", oldHash)), broken(nodeOf("b", oldHash))),
			want: said{Started: []string{"a"}, Delete: []string{"a-0"}, Slots: []string{"a"},
				States: map[string]string{"a": "in-flight/Replacing", "b": "pending/BudgetExhausted"}},
		},
		{
			name: "paused starts nothing, and what is in flight goes on",
			in: func() Input {
				in := inputOf(2, a, b).slots(slotOf(a, time.Minute))
				in.Settings.Paused = true
				return in
			}(),
			want: said{Delete: []string{"a-0"}, Slots: []string{"a"},
				States: map[string]string{"a": "in-flight/Replacing", "b": "held/Paused"}},
		},
		{
			name: "before the global tasks are done nothing starts, and what is in flight goes on",
			in: func() Input {
				in := inputOf(3, a, b, broken(nodeOf("c", oldHash))).slots(slotOf(a, time.Minute))
				in.Beforehand = &Blocked{Reason: "AwaitingGlobalTask", Message: "waiting for database_backup"}
				return in
			}(),
			want: said{Delete: []string{"a-0"}, Slots: []string{"a"},
				States: map[string]string{"a": "in-flight/Replacing", "b": "held/AwaitingGlobalTask", "c": "held/AwaitingGlobalTask"}},
		},
		{
			name: "deadlines and halts count meanwhile",
			in: func() Input {
				in := inputOf(3, crashing(nodeOf("a", newHash)), broken(nodeOf("b", newHash)), c).slots(slotOf(a, time.Minute), slotOf(b, 11*time.Minute))
				in.Beforehand = &Blocked{Reason: "GlobalTaskFailed", Message: "database_backup failed"}
				return in
			}(),
			want: said{Halted: true,
				States: map[string]string{"a": "failed/CrashLooping", "b": "failed/ProgressDeadlineExceeded", "c": "held/Halted"}},
		},
		{
			name: "blocked touches nothing and forgets nothing",
			in: func() Input {
				in := inputOf(2, a, b).slots(slotOf(a, time.Hour))
				in.Settings, in.Blocked = daemonset.Settings{}, &Blocked{Reason: "InvalidMaxUnavailable", Message: "set it"}
				return in
			}(),
			want: said{Slots: []string{"a"},
				States: map[string]string{"a": "in-flight/Replacing", "b": "held/Blocked"}},
		},
		{
			name: "a pod deleted before the crash of the manager is not deleted again",
			in:   inputOf(1, terminating(nodeOf("a", oldHash))).slots(slotOf(a, time.Minute)),
			want: said{Slots: []string{"a"}, States: map[string]string{"a": "in-flight/PodTerminating"}},
		},
		{
			name: "a slot whose pod was not deleted before the crash is used now",
			in:   inputOf(1, a).slots(slotOf(a, time.Minute)),
			want: said{Delete: []string{"a-0"}, Slots: []string{"a"}, States: map[string]string{"a": "in-flight/Replacing"}},
		},
		{
			name: "two crash-looping nodes halt the rollout",
			in: inputOf(3, crashing(nodeOf("a", newHash)), crashing(nodeOf("b", newHash)), c).
				slots(slotOf(a, time.Minute), slotOf(b, time.Minute)),
			want: said{Halted: true,
				States: map[string]string{"a": "failed/CrashLooping", "b": "failed/CrashLooping", "c": "held/Halted"}},
		},
		{
			name: "a pod that crash-looped before the node was started does not fail it",
			in: inputOf(1, withPod(crashing(nodeOf("a", newHash)), func(p *Pod) { p.Created = epoch.Add(-time.Hour) })).
				slots(func() Slot { slot := slotOf(a, time.Minute); slot.Newest = epoch.Add(-time.Hour); return slot }()),
			want: said{Slots: []string{"a"}, States: map[string]string{"a": "in-flight/AwaitingAvailable"}},
		},
		{
			name: "a node not available by the progress deadline fails",
			in:   inputOf(1, broken(nodeOf("a", newHash)), b).slots(slotOf(a, 11*time.Minute)),
			want: said{States: map[string]string{"a": "failed/ProgressDeadlineExceeded", "b": "pending/BudgetExhausted"}},
		},
		{
			name: "a node back from being lost has the whole progress deadline again",
			in: func() Input {
				back := broken(nodeOf("a", newHash))
				back.ReadySince = epoch.Add(-time.Minute)
				return inputOf(1, back).slots(slotOf(a, 14*time.Minute))
			}(),
			want: said{Slots: []string{"a"}, States: map[string]string{"a": "in-flight/AwaitingAvailable"}},
		},
		{
			name: "under OTA nothing starts by itself",
			in:   ota(inputOf(2, a, nodeOf("b", newHash))),
			want: said{States: map[string]string{"a": "held/AwaitingRequest", "b": "updated/AtTarget"}},
		},
		{
			name: "under OTA the node that asked starts",
			in:   ota(inputOf(1, a, asking(nodeOf("b", oldHash)))),
			want: said{Started: []string{"b"}, Delete: []string{"b-0"}, Slots: []string{"b"},
				States: map[string]string{"a": "held/AwaitingRequest", "b": "in-flight/Replacing"}},
		},
		{
			name: "under OTA a request waits for the budget like any other start",
			in:   ota(inputOf(1, terminating(nodeOf("a", oldHash)), asking(nodeOf("b", oldHash)))),
			want: said{States: map[string]string{"a": "pending/Unavailable", "b": "pending/BudgetExhausted"}},
		},
		{
			name: "under OTA a request for an earlier pod of the node does not touch its successor",
			in: ota(inputOf(1, withPod(nodeOf("a", oldHash), func(p *Pod) {
				p.Request = requestFor(&Pod{UID: "earlier"}, "")
			}))),
			want: said{States: map[string]string{"a": "held/AwaitingRequest"}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, say(Plan(tt.in))); diff != "" {
				t.Errorf("Plan (-want +got):\n%s", diff)
			}
		})
	}
}

func ota(in Input) Input {
	in.Settings.Strategy = daemonset.OTA
	return in
}

func TestPlanReplacesTheMembersOfANodeInOrder(t *testing.T) {
	in := inputOf(1, nodeOf("a", oldHash, oldHash, oldHash))
	in.Members = []Member{{Key: "driver", Target: newHash}, {Key: "toolkit", Target: newHash}, {Key: "exporter", Target: newHash}}
	var order []string
	for range 20 {
		d := Plan(in)
		in.Ledger = d.Ledger
		pods := in.Nodes[0].Pods
		for i := range pods { // advance the cluster by one step
			if !pods[i].Available && len(d.Delete) > 0 {
				t.Fatalf("a pod of %s is deleted while that of %s is not available", in.Members[d.Delete[0].Member].Key, in.Members[i].Key)
			}
			if !pods[i].Available {
				pods[i].Available = true
			}
		}
		for _, x := range d.Delete {
			order = append(order, in.Members[x.Member].Key)
			pods[x.Member] = Pod{Member: x.Member, Name: "n", UID: x.UID + "'", Revision: newHash}
		}
	}
	if diff := cmp.Diff([]string{"driver", "toolkit", "exporter"}, order); diff != "" {
		t.Errorf("order of replacement (-want +got):\n%s", diff)
	}
	if len(in.Ledger.Slots) != 0 {
		t.Errorf("slots left: %v", in.Ledger.Slots)
	}
}

func TestPlanStartsZonesInTurn(t *testing.T) {
	var nodes []Node
	for i := range 12 {
		n := nodeOf(fmt.Sprintf("n%02d", i), oldHash)
		n.Zone = string(rune('a' + i/4))
		nodes = append(nodes, n)
	}
	zones := map[string]int{}
	for _, started := range Plan(inputOf(6, nodes...)).Started {
		var i int
		if _, err := fmt.Sscanf(started, "n%d", &i); err != nil {
			t.Fatal(err)
		}
		zones[nodes[i].Zone]++
	}
	if diff := cmp.Diff(map[string]int{"a": 2, "b": 2, "c": 2}, zones); diff != "" {
		t.Errorf("nodes started per zone (-want +got):\n%s", diff)
	}
}

func TestPlanForgetsFailuresAtANewRevision(t *testing.T) {
	in := inputOf(2, broken(nodeOf("a", "bad")), broken(nodeOf("b", "bad")), nodeOf("c", oldHash))
	in.Ledger = Ledger{Revision: "r1", Touched: 2, Failures: []Failure{
		{Node: "a", UID: "uid-a", Reason: ReasonCrashLooping}, {Node: "b", UID: "uid-b", Reason: ReasonCrashLooping}}}
	d := Plan(in)
	if diff := cmp.Diff([]string{"a", "b"}, d.Started); diff != "" || d.Halted != "" || d.Ledger.Touched != 2 {
		t.Errorf("started (-want +got):\n%shalted %q, touched %d, want the two broken nodes replaced", diff, d.Halted, d.Ledger.Touched)
	}
}

func TestPlanDoesNotForgetALostNodeThatIsAtTheTarget(t *testing.T) {
	lost := offline(broken(nodeOf("a", newHash)))
	in := inputOf(2, lost, nodeOf("b", oldHash))
	in.Ledger.Failures = []Failure{{Node: "a", UID: lost.UID, Reason: ReasonNodeLost}}
	if got := Plan(in).Ledger.Failures; len(got) != 1 {
		t.Errorf("failures = %v, want the lost node kept: the version may have killed it", got)
	}
}

func TestPlanHaltEndsWhenANodeHeals(t *testing.T) {
	in := inputOf(3, crashing(nodeOf("a", newHash)), nodeOf("b", newHash), nodeOf("c", oldHash))
	in.Ledger.Failures = []Failure{{Node: "a", UID: "uid-a", Reason: ReasonCrashLooping}, {Node: "b", UID: "uid-b", Reason: ReasonCrashLooping}}
	d := Plan(in)
	if diff := cmp.Diff([]string{"c"}, d.Started); diff != "" || d.Halted != "" {
		t.Errorf("started (-want +got):\n%shalted %q", diff, d.Halted)
	}
}

func TestASlotIsHeldThroughASwitchToOTA(t *testing.T) {
	deleted := missing(nodeOf("a", oldHash))
	in := ota(inputOf(1, deleted, asking(nodeOf("b", oldHash))))
	slot := slotOf(deleted, time.Minute)
	slot.Members = []string{in.Members[0].Key}
	in = in.slots(slot)
	for _, lost := range []bool{false, true} {
		if lost {
			in.Nodes[0] = offline(in.Nodes[0])
		}
		d := Plan(in)
		if len(d.Started) != 0 || len(d.Ledger.Slots) != 1 || d.Ledger.Slots[0].Node != "a" {
			t.Errorf("lost %v: started %v, slots %v; want node a to keep its slot: its pod was deleted under it", lost, d.Started, d.Ledger.Slots)
		}
	}
}

func TestPlanGoesOnWhenAPersonResumes(t *testing.T) {
	in := inputOf(3, crashing(nodeOf("a", newHash)), crashing(nodeOf("b", newHash)), nodeOf("c", oldHash))
	in.Ledger.Failures = []Failure{
		{Node: "a", UID: "uid-a", Reason: ReasonCrashLooping, Message: "m"}, {Node: "b", UID: "uid-b", Reason: ReasonCrashLooping, Message: "m"}}
	in.Ledger.Touched = 2
	in.Resume = "monday"
	d := Plan(in)
	if diff := cmp.Diff([]string{"c"}, d.Started); diff != "" || d.Halted != "" || d.Ledger.Resumed != "monday" {
		t.Fatalf("started (-want +got):\n%shalted %q, resumed %q", diff, d.Halted, d.Ledger.Resumed)
	}
	in.Ledger, in.Ledger.Slots = d.Ledger, nil
	in.Nodes[2] = crashing(nodeOf("c", newHash))
	in.Ledger.Failures = []Failure{{Node: "c", UID: "uid-c", Reason: ReasonNodeLost, Message: "m"}}
	if again := Plan(in); len(again.Ledger.Failures) != 1 {
		t.Errorf("failures = %v, want a later failure to count although the word is still there", again.Ledger.Failures)
	}
}

func TestPlanAsksToBeWokenAtTheNextDeadline(t *testing.T) {
	a, b := broken(nodeOf("a", newHash)), broken(nodeOf("b", newHash))
	b.Pods[0].AvailableAt = epoch.Add(90 * time.Second)
	d := Plan(inputOf(2, a, b).slots(slotOf(a, 10*time.Minute-20*time.Second), slotOf(b, 0)))
	if d.Recheck != 20*time.Second {
		t.Errorf("Recheck = %s, want 20s: the progress deadline of node a", d.Recheck)
	}
}
