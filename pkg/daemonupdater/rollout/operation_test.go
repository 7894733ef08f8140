package rollout

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/topsops/gcu-operator/pkg/daemonset"
)

// heavyInput returns a group of a driver, which is heavy, and an exporter.
func heavyInput(limit int, nodes ...Node) Input {
	in := inputOf(limit, nodes...)
	in.Members = []Member{{Key: "kube-system/driver", Target: newHash, Heavy: true}, {Key: "kube-system/exporter", Target: newHash}}
	return in
}

func heavyNode(name string) Node { return nodeOf(name, oldHash, newHash) }

// jobOf returns an operation of the group for its current targets.
func jobOf(id string) *Operation {
	return &Operation{ID: id, Ours: true, Targets: map[string]string{"kube-system/driver": newHash}, Message: "in progress"}
}

func withJob(n Node, job *Operation) Node {
	n.Operation, n.Disturbed = job, job.Granted || job.KeptCordoned
	return n
}

func prepared(n Node) Node {
	job := jobOf("op-" + n.Name)
	job.Prepared = true
	return withJob(n, job)
}

func granted(n Node) Node {
	job := jobOf("op-" + n.Name)
	job.Granted = true
	return withJob(n, job)
}

func aborted(n Node) Node {
	n.Operation.Aborted = true
	return n
}

// withEnd returns the node with an operation that ended without being done, failed for a reason or "".
func withEnd(n Node, failure Reason) Node {
	n.Ended = append(n.Ended, End{ID: "op-" + n.Name, Failure: failure, Message: "said why", Time: epoch.Add(-time.Second)})
	return n
}

func withDone(n Node) Node {
	n = withEnd(n, "")
	n.Ended[len(n.Ended)-1].Done = true
	return n
}

// operating returns the slot of a node whose operation was granted a minute ago.
func operating(n Node) Slot {
	s := slotOf(n, time.Minute)
	s.Operation, s.Members = "op-"+n.Name, []string{"kube-system/driver"}
	return s
}

// operationChangesOf returns the operation changes of a decision, written as node:what.
func operationChangesOf(d Decision) []string {
	var changes []string
	for _, o := range d.Operations {
		what := "prepare"
		switch {
		case o.Abort:
			what = "abort " + o.Operation
		case o.Grant:
			what = "grant " + o.Operation
		}
		changes = append(changes, o.Node+":"+what)
	}
	return changes
}

type operationCase struct {
	name string
	in   Input
	want said
	// changes of operations by the decision.
	changes []string
}

func operationCases() []operationCase {
	a, b, c := heavyNode("a"), heavyNode("b"), heavyNode("c")
	states := func(pairs ...string) map[string]string {
		m := map[string]string{}
		for i := 0; i < len(pairs); i += 2 {
			m[pairs[i]] = pairs[i+1]
		}
		return m
	}
	kept := func(n Node) Node { // kept cordoned with its device closed: a pod does not become available again
		n.Operation, n.Disturbed = &Operation{ID: "op-" + n.Name, Ours: true, Granted: true, KeptCordoned: true}, true
		n.Pods[1] = Pod{Member: 1}
		return n
	}
	busy := inputOf(1, withJob(nodeOf("a", oldHash), &Operation{ID: "theirs", Granted: true, Message: "in progress"})).slots(slotOf(a, time.Minute))
	down := inputOf(1, withJob(missing(nodeOf("a", newHash)), &Operation{ID: "theirs", Granted: true}), nodeOf("b", oldHash))
	down = down.slots(slotOf(down.Nodes[0], time.Minute))
	late := down.slots(slotOf(down.Nodes[0], 3*time.Hour))
	left := inputOf(1, withJob(missing(nodeOf("a", newHash)), &Operation{ID: "theirs", Granted: true, KeptCordoned: true}), nodeOf("b", oldHash))
	left = left.slots(slotOf(left.Nodes[0], time.Minute))
	away := busy
	away.Nodes = []Node{offline(busy.Nodes[0])}
	replaced := inputOf(1, granted(nodeOf("a", oldHash))).slots(slotOf(a, time.Minute))
	lighter := inputOf(1, nodeOf("a", newHash, oldHash))
	lighter.Members = heavyInput(1).Members
	paused := heavyInput(1, a)
	paused.Settings.Paused = true
	overtaken := heavyInput(1, withDone(missing(nodeOf("a", newHash, oldHash)))).slots(operating(a))
	overtaken.Beforehand, overtaken.Revision = &Blocked{Reason: "AwaitingGlobalTask"}, "r3"
	overtakenAgain := heavyInput(1, withDone(broken(nodeOf("a", newHash, oldHash)))).slots(operating(a))
	overtakenAgain.Beforehand, overtakenAgain.Revision = overtaken.Beforehand, "r3"
	overtakenBroken := heavyInput(1, withDone(crashing(nodeOf("a", newHash, newHash)))).slots(operating(a))
	overtakenBroken.Beforehand, overtakenBroken.Revision = overtaken.Beforehand, "r3"
	overtakenBroken.Ledger.Slots[0].Revision, overtakenBroken.Ledger.Revision = "r3", "r3"
	inService := heavyInput(1, withDone(nodeOf("a", newHash, oldHash))).slots(operating(a))
	inService.Beforehand, inService.Revision = overtaken.Beforehand, "r3"
	cut := heavyInput(1, nodeOf("a", oldHash, oldHash))
	cut.Members[0].LeftOut = true
	uncontrolled := heavyInput(1, granted(a), prepared(b)).slots(operating(a))
	uncontrolled.Settings.Strategy = daemonset.NoStrategy
	told := heavyInput(1, aborted(granted(a)), aborted(prepared(b))).slots(operating(a)).under(daemonset.NoStrategy)
	retargeted := heavyInput(1, granted(a)).slots(operating(a))
	retargeted.Members[0].Target = "newer"
	stale := heavyInput(1, prepared(a))
	stale.Members[0].Target = "newer"
	later := a
	later.Retry, later.RetryWhy = epoch.Add(time.Minute), "the drain took too long"
	foreign := prepared(a)
	foreign.Operation.Ours, foreign.Operation.Granted, foreign.Disturbed = false, true, true
	held := withEnd(a, ReasonOperationFailed)
	held.Operation, held.Disturbed = &Operation{ID: "op-a", Ours: true, Granted: true, KeptCordoned: true}, true
	failed := heavyInput(1, held, prepared(b))
	failed.Ledger.Failures = []Failure{{Node: "a", UID: a.UID, Reason: ReasonOperationFailed, Since: epoch}}
	pooled := heavyInput(2, inPool(prepared(a), "x"), inPool(b, "y"), inPool(granted(c), "x"), inPool(prepared(heavyNode("d")), "x")).slots(operating(c))
	pooled.Policy.PoolMaxUnavailable = ptr.To(intstr.FromInt32(1))
	behind := withDone(a) // stale cache: it still has the old pod of the driver
	again := withPod(withDone(heavyNode("a")), func(p *Pod) { p.Created = epoch })
	done := withDone(nodeOf("a", newHash, newHash))
	lowered := heavyInput(1, withDone(nodeOf("a", newHash, oldHash)), withDone(nodeOf("b", newHash, oldHash))).slots(operating(a), operating(b))
	lowered.Ledger.Slots[0].Turn, lowered.Ledger.Slots[1].Turn = 1, 2
	stalled := jobOf("op-a")
	stalled.Stalled = true

	return []operationCase{
		{"a light change needs no operation", lighter,
			said{Started: []string{"a"}, Delete: []string{"a-1"}, Slots: []string{"a"}, States: states("a", "in-flight/Replacing")}, nil},
		{"an upgrade that leaves the driver out needs no operation", cut,
			said{Started: []string{"a"}, Delete: []string{"a-1"}, Slots: []string{"a"}, States: states("a", "in-flight/Replacing")}, nil},
		{"nodes are prepared before they get a slot, as many as may be unavailable", heavyInput(2, a, b, c),
			said{States: states("a", "pending/Preparing", "b", "pending/Preparing", "c", "pending/Preparing")}, []string{"a:prepare", "c:prepare"}},
		{"a node that is unavailable is prepared although a healthy one is, which has to wait for it", heavyInput(1, prepared(a), broken(heavyNode("b"))),
			said{States: states("a", "pending/BudgetExhausted", "b", "pending/Preparing")}, []string{"b:prepare"}},
		{"a node that is prepared and offline does not keep others from being prepared", heavyInput(1, offline(prepared(a)), b),
			said{States: states("a", "skipped/NodeOffline", "b", "pending/Preparing")}, []string{"b:prepare"}},
		{"nodes that are prepared in a pool that is used up keep no other pool from being prepared", pooled,
			said{Slots: []string{"c"}, States: states("a", "pending/PoolBudgetExhausted", "b", "pending/Preparing", "c", "in-flight/Operating", "d", "pending/PoolBudgetExhausted")}, []string{"b:prepare"}},
		{"a prepared node is started, and the next one prepared", heavyInput(1, prepared(a), b),
			said{Started: []string{"a"}, Slots: []string{"a"}, States: states("a", "in-flight/Operating", "b", "pending/Preparing")},
			[]string{"a:grant op-a", "b:prepare"}},
		{"a prepared node waits for room", heavyInput(1, granted(a), prepared(b)).slots(operating(a)),
			said{Slots: []string{"a"}, States: states("a", "in-flight/Operating", "b", "pending/BudgetExhausted")}, nil},
		{"while a node is prepared no other is in its place", heavyInput(1, withJob(a, jobOf("op-a")), b),
			said{States: states("a", "pending/Preparing", "b", "pending/Preparing")}, nil},
		{"a node that cannot be prepared does not keep others from being prepared", heavyInput(1, withJob(a, stalled), b),
			said{States: states("a", "pending/Preparing", "b", "pending/Preparing")}, []string{"b:prepare"}},
		{"a grant that was not seen is given again", heavyInput(1, prepared(a)).slots(operating(a)),
			said{Slots: []string{"a"}, States: states("a", "in-flight/Operating")}, []string{"a:grant op-a"}},
		{"an operation that is not there any more is made again", heavyInput(1, a).slots(operating(a)),
			said{Slots: []string{"a"}, States: states("a", "in-flight/Operating")}, []string{"a:grant op-a"}},
		{"a paused rollout prepares nothing", paused, said{States: states("a", "held/Paused")}, nil},
		{"an operation that is done frees its slot", heavyInput(1, done).slots(operating(a)), said{States: states("a", "updated/AtTarget")}, nil},
		{"a view that is behind keeps the slot of an operation that is done", heavyInput(1, behind).slots(operating(a)),
			said{Slots: []string{"a"}, States: states("a", "in-flight/Replacing")}, nil},
		{"what is outdated again since needs another operation", heavyInput(1, again).slots(operating(a)),
			said{States: states("a", "pending/Preparing")}, []string{"a:prepare"}},
		{"what the operation did not know is replaced after it", heavyInput(1, withDone(nodeOf("a", newHash, oldHash))).slots(operating(a)),
			said{Delete: []string{"a-1"}, Slots: []string{"a"}, States: states("a", "in-flight/Replacing")}, nil},
		{"and a node that has no pod then keeps its slot at a new revision", overtaken,
			said{Slots: []string{"a"}, States: states("a", "in-flight/AwaitingPod")}, nil},
		{"and goes on, with its deadlines anew", overtakenAgain,
			said{Slots: []string{"a"}, States: states("a", "in-flight/AwaitingAvailable")}, nil},
		{"and fails if the pod of the new revision does not work", overtakenBroken, said{States: states("a", "failed/CrashLooping")}, nil},
		{"but not one that is in service", inService, said{States: states("a", "held/AwaitingGlobalTask")}, nil},
		{"under a limit that was lowered, one node after the other", lowered,
			said{Delete: []string{"a-1"}, Slots: []string{"a"}, States: states("a", "in-flight/Replacing", "b", "pending/Queued")}, nil},
		{"a failed operation is a failed node", heavyInput(1, withEnd(a, ReasonOperationFailed)).slots(operating(a)),
			said{States: states("a", "failed/OperationFailed")}, nil},
		{"a failed rollback is in quarantine", heavyInput(1, withEnd(a, ReasonQuarantined)).slots(operating(a)),
			said{States: states("a", "failed/Quarantined")}, nil},
		{"an operation that a person ended is a failed node", heavyInput(1, withEnd(a, ReasonOperationAborted)).slots(operating(a)),
			said{States: states("a", "failed/OperationAborted")}, nil},
		{"a node that an operation left unavailable goes on with another one, in its slot", heavyInput(1, broken(withEnd(heavyNode("a"), "")), b).slots(operating(a)),
			said{Slots: []string{"a"}, States: states("a", "in-flight/Operating", "b", "pending/Preparing")},
			[]string{"a:grant " + fmt.Sprintf("r2-%s-%x-1", "mjuohs00", hashOf("a")), "b:prepare"}},
		{"a node in flight that needs an operation goes on with one, in its slot", heavyInput(1, broken(heavyNode("a")), b).slots(slotOf(a, time.Minute)),
			said{Slots: []string{"a"}, States: states("a", "in-flight/Operating", "b", "pending/Preparing")},
			[]string{"a:grant " + fmt.Sprintf("r2-%s-%x-0", "mjuohs00", hashOf("a")), "b:prepare"}},
		{"a node in flight that needs an operation, and is available, is prepared first", heavyInput(1, a).slots(slotOf(a, time.Minute)),
			said{States: states("a", "pending/Preparing")}, []string{"a:prepare"}},
		{"a slot whose operation cannot be made, because another group was first, is given back", heavyInput(1, foreign).slots(operating(a)),
			said{States: states("a", "pending/NodeBusy")}, nil},
		{"a node that went offline under an operation that ended keeps its slot", heavyInput(1, offline(broken(withEnd(heavyNode("a"), ""))), b).slots(operating(a)),
			said{Slots: []string{"a"}, States: states("a", "in-flight/NodeLost", "b", "pending/Preparing")}, []string{"b:prepare"}},
		{"a node that is put off gives its slot to the next", heavyInput(1, withEnd(later, ""), prepared(b)).slots(operating(a)),
			said{Started: []string{"b"}, Slots: []string{"b"}, States: states("a", "pending/Deferred", "b", "in-flight/Operating")}, []string{"b:grant op-b"}},
		{"a node that is kept out of service uses the budget, and is the next to be started", heavyInput(1, held, prepared(b)),
			said{Started: []string{"a"}, Slots: []string{"a"}, States: states("a", "in-flight/Operating", "b", "pending/BudgetExhausted")},
			[]string{fmt.Sprintf("a:grant r2-mjuohs00-%x-1", hashOf("a"))}},
		{"nodes that are held do not keep each other out of service", heavyInput(1, kept(heavyNode("a")), kept(heavyNode("b"))),
			said{Started: []string{"a"}, Slots: []string{"a"}, States: states("a", "in-flight/Operating", "b", "pending/BudgetExhausted")},
			[]string{fmt.Sprintf("a:grant r2-mjuohs00-%x-0", hashOf("a"))}},
		{"a node that is held and has its targets needs another operation", heavyInput(1, withJob(nodeOf("a", newHash, newHash), &Operation{ID: "op-a", Ours: true, Granted: true, KeptCordoned: true})),
			said{Started: []string{"a"}, Slots: []string{"a"}, States: states("a", "in-flight/Operating")},
			[]string{fmt.Sprintf("a:grant r2-mjuohs00-%x-0", hashOf("a"))}},
		{"a failed node that is kept out of service uses the budget", failed,
			said{States: states("a", "failed/OperationFailed", "b", "pending/BudgetExhausted")}, nil},
		{"a node that was started is left alone when another group gets to work there, and queues again", busy,
			said{States: states("a", "pending/NodeBusy")}, nil},
		{"but not a node that this group took down, which may go offline", down,
			said{Slots: []string{"a"}, States: states("a", "in-flight/AwaitingPod", "b", "pending/BudgetExhausted")}, nil},
		{"it does not fail by its deadline, and gives its slot back then", late,
			said{States: states("a", "pending/NodeBusy", "b", "pending/BudgetExhausted")}, nil},
		{"and when the other one has ended and keeps it, which uses the budget of that group only", left,
			said{Started: []string{"b"}, Delete: []string{"b-0"}, Slots: []string{"b"}, States: states("a", "pending/NodeBusy", "b", "in-flight/Replacing")}, nil},
		{"a node that went offline after it was touched keeps its slot when it needs an operation", heavyInput(1, offline(a), b).slots(slotOf(a, time.Minute)),
			said{Slots: []string{"a"}, States: states("a", "in-flight/NodeLost", "b", "pending/Preparing")}, []string{"b:prepare"}},
		{"and when another group is at work there", away,
			said{Slots: []string{"a"}, States: states("a", "in-flight/NodeLost")}, nil},
		{"no pod is deleted under an operation that is wound up on a node of before", replaced,
			said{Slots: []string{"a"}, States: states("a", "in-flight/Replacing")}, nil},
		{"nobody starts on a node at which another group is at work", heavyInput(2, foreign, prepared(b)),
			said{Started: []string{"b"}, Slots: []string{"b"}, States: states("a", "pending/NodeBusy", "b", "in-flight/Operating")}, []string{"b:grant op-b"}},
		{"an operation for a target of before is ended, and its slot kept until it has", retargeted,
			said{Slots: []string{"a"}, States: states("a", "in-flight/Operating")}, []string{"a:abort op-a"}},
		{"an operation for a target of before is not granted but recreated", stale,
			said{States: states("a", "pending/Preparing")}, []string{"a:prepare"}},
		{"an operation that nobody needs is taken back", heavyInput(1, prepared(nodeOf("a", newHash, newHash))),
			said{States: states("a", "updated/AtTarget")}, []string{"a:abort op-a"}},
		{"what is being ended is not told so again", told,
			said{Slots: []string{"a"}, States: states("a", "in-flight/Operating", "b", "held/AwaitingRequest")}, nil},
		{"what runs is ended when the control ends", uncontrolled,
			said{Slots: []string{"a"}, States: states("a", "in-flight/Operating", "b", "held/AwaitingRequest")}, []string{"a:abort op-a", "b:abort op-b"}},
		{"an operation without a slot that is known gets one", heavyInput(1, granted(a)),
			said{Slots: []string{"a"}, States: states("a", "in-flight/Operating")}, nil},
		{"an offline node keeps the slot of its operation", heavyInput(1, offline(granted(a)), b).slots(operating(a)),
			said{Slots: []string{"a"}, States: states("a", "in-flight/NodeLost", "b", "pending/Preparing")}, []string{"b:prepare"}},
	}
}

func TestOperations(t *testing.T) {
	for _, test := range operationCases() {
		t.Run(test.name, func(t *testing.T) {
			decides(t, test.in, test.want, test.changes)
		})
	}
}

func TestTheIDOfAnOperationIsThatOfOneNode(t *testing.T) {
	d := Plan(heavyInput(2, heavyNode("a"), heavyNode("b")))
	if len(d.Operations) != 2 || d.Operations[0].Operation == d.Operations[1].Operation {
		t.Errorf("changes %+v: what is left on a node is known by an id that no other node has (invariant S3)", d.Operations)
	}
}

func TestASlotForAPodThatWasNotDeletedIsGivenBackFencedWhenItsNodeNeedsAnOperation(t *testing.T) {
	node := heavyNode("a")
	node.Pods[1].Version = "5"
	slot := slotOf(node, time.Minute)
	slot.Pod, slot.PodVersion, slot.Members = node.Pods[1].UID, "5", []string{"kube-system/exporter"}
	in := heavyInput(1, node).slots(slot)
	if d := Plan(in); len(d.Fence) != 1 || len(d.Ledger.Slots) != 1 {
		t.Errorf("fence %v, slots %v; want the pod fenced and the slot kept", d.Fence, d.Ledger.Slots)
	}
	in.Nodes[0].Pods[1].Version = "6"
	if d := Plan(in); len(d.Fence) != 0 || len(d.Ledger.Slots) != 0 || len(d.Operations) != 1 {
		t.Errorf("fence %v, slots %v, changes %v; want the slot back and the node prepared", d.Fence, d.Ledger.Slots, d.Operations)
	}
}

func TestAnOperationWhoseTargetsAreNotKnownIsNotBlamedOnALaterRevision(t *testing.T) {
	node := heavyNode("a")
	slot := operating(node)
	slot.Revision = "earlier"
	// Another group has replaced the order of the operation by its own, which waits.
	in := heavyInput(1, withJob(node, &Operation{ID: slot.Operation, Ours: true, Granted: true})).slots(slot)
	in.Ledger = Plan(in).Ledger
	in.Nodes[0] = withEnd(node, ReasonOperationAborted)
	if failures := Plan(in).Ledger.Failures; len(failures) > 0 {
		t.Errorf("failures %+v, want none: the operation was for an earlier revision", failures)
	}
}

func TestAnOperationThatAPersonHasGoOnGetsASlot(t *testing.T) {
	retried := granted(heavyNode("a"))
	retried.Operation.Targets = map[string]string{"kube-system/driver": newHash, "kube-system/exporter": newHash}
	failure := Failure{Node: "a", UID: retried.UID, Reason: ReasonOperationFailed, Targets: []Target{{Member: "kube-system/driver", Revision: newHash}}}
	failed := heavyInput(1, retried, prepared(heavyNode("b")))
	failed.Policy.Threshold = ptr.To(intstr.FromInt32(1))
	failed.Ledger.Failures, failed.Ledger.Touched = []Failure{failure}, 1
	again := heavyInput(1, retried)
	again.Ledger.Failures = []Failure{failure}
	again.Ledger.Slots = []Slot{operating(retried)}
	again.Nodes[0].Operation = &Operation{ID: "op-a", Ours: true, Granted: true, KeptCordoned: true}
	again.Nodes[0].Ended = []End{{ID: "op-a", Failure: ReasonOperationFailed, Time: epoch, Targets: failure.Targets}}
	off := heavyInput(1, retried).under(daemonset.NoStrategy)
	for _, test := range []struct {
		name     string
		in       Input
		want     said
		changes  []string
		failures int
	}{
		{"its failure still counts for the halt", failed,
			said{Slots: []string{"a"}, States: statesOf("a", "in-flight/Operating", "b", "held/Halted"), Halted: true}, []string{"b:abort op-b"}, 1},
		{"it fails again, and counts once", again, said{States: statesOf("a", "failed/OperationFailed")}, nil, 1},
		{"it is aborted without a strategy", off, said{Slots: []string{"a"}, States: statesOf("a", "in-flight/Operating")}, []string{"a:abort op-a"}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := decides(t, test.in, test.want, test.changes)
			if len(d.Ledger.Failures) != test.failures {
				t.Errorf("failures %v, want %d", d.Ledger.Failures, test.failures)
			}
		})
	}
}

// decides plans an input, and checks the decision and its operation changes.
func decides(t *testing.T, in Input, want said, changes []string) Decision {
	t.Helper()
	d := Plan(in)
	if diff := cmp.Diff(want, say(d), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("decision (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(changes, operationChangesOf(d), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
	return d
}

// The clock of the manager was set back by three hours after it recorded the end of the operation.
func TestASlotDoesNotWaitForAnEndInTheFuture(t *testing.T) {
	lost := offline(broken(withDone(heavyNode("a"))))
	lost.ReadySince = epoch.Add(-time.Hour)
	awaiting := broken(withDone(nodeOf("a", newHash, newHash)))
	awaiting.Pods[0].AvailableAt = epoch.Add(4 * time.Hour)
	for _, tt := range []struct {
		node             Node
		inFlight, failed string
		within           time.Duration
	}{
		{lost, "in-flight/NodeLost", "failed/NodeLost", DefaultDeadlines.Lost},
		{awaiting, "in-flight/AwaitingAvailable", "failed/ProgressDeadlineExceeded", 3*DefaultDeadlines.Progress + DefaultDeadlines.Lost},
	} {
		tt.node.Ended[0].Time = epoch.Add(3 * time.Hour)
		in := heavyInput(1, tt.node).slots(operating(tt.node))
		in.Ledger.Decided = epoch.Add(3 * time.Hour)
		for _, step := range []struct {
			after time.Duration
			want  string
		}{{0, tt.inFlight}, {tt.within - time.Second, tt.inFlight}, {time.Second, tt.failed}} {
			in.Now = in.Now.Add(step.after)
			if step.after > 0 {
				in.Ledger.Decided = in.Now
			}
			d := Plan(in)
			if got := say(d).States["a"]; got != step.want {
				t.Fatalf("%s after the clock was set back: %s, want %s", in.Now.Sub(epoch), got, step.want)
			}
			in.Ledger = d.Ledger
		}
	}
}

// A person has an operation go on that failed, and the group has gone back to another revision since: it verifies its driver until a
// person aborts it, and that says nothing of that revision, also when only the history tells of it.
func TestTheEndOfAnOperationThatWentOnForAnotherRevisionFailsNoNode(t *testing.T) {
	a := granted(heavyNode("a"))
	a.Operation.Targets["kube-system/driver"], a.Operation.Revision, a.Operation.Committed = oldHash, "before", true
	first := Plan(heavyInput(1, a))
	if len(first.Ledger.Slots) != 1 || first.Ledger.Slots[0].Operation != a.Operation.ID || first.Ledger.Slots[0].Revision != "before" {
		t.Fatalf("slots %+v", first.Ledger.Slots)
	}
	in := heavyInput(1, withEnd(heavyNode("a"), ReasonOperationAborted))
	in.Ledger = first.Ledger
	if got := Plan(in).Ledger.Failures; len(got) > 0 {
		t.Errorf("failures %+v", got)
	}
}

// A node got its slot before the strategy became OTA. Its operation is not made for what came later: nobody asked for that.
func TestAnOperationIsNotMadeUnderOTAForATargetThatCameLater(t *testing.T) {
	a := heavyNode("a")
	in := heavyInput(1, a).slots(operating(a))
	in.Settings.Strategy = daemonset.OTA
	if d := Plan(in); len(d.Ledger.Slots) != 1 || len(d.Operations) != 1 || !d.Operations[0].Grant {
		t.Errorf("slots %+v, operations %+v: it goes on for the targets it was started for", d.Ledger.Slots, d.Operations)
	}
	in.Ledger.Slots[0].Revision = "r1"
	d := Plan(in)
	if len(d.Ledger.Slots) != 0 || len(d.Operations) != 0 || len(d.WithoutOperation) != 1 || d.WithoutOperation[0].Operation != "op-a" {
		t.Errorf("slots %+v, operations %+v, not made %+v", d.Ledger.Slots, d.Operations, d.WithoutOperation)
	}
	in.Nodes[0] = granted(a)
	if d := Plan(in); len(d.Ledger.Slots) != 1 || len(d.WithoutOperation) != 0 {
		t.Errorf("slots %+v, not made %+v: the operation is at work", d.Ledger.Slots, d.WithoutOperation)
	}
}

// Otherwise nothing of the new revision would count, and its pod could fail for ever.
func TestANodeThatKeepsItsSlotBeforeATaskIsStartedForTheNewRevision(t *testing.T) {
	in := heavyInput(1, withDone(broken(nodeOf("a", newHash, oldHash)))).slots(operating(heavyNode("a")))
	in.Beforehand, in.Revision = &Blocked{Reason: "AwaitingGlobalTask"}, "r3"
	d := Plan(in)
	if s := d.Ledger.Slots[0]; s.Revision != "r3" || !s.Since.Equal(epoch) || d.Ledger.Started != 1 {
		t.Errorf("slot %+v, started %d", s, d.Ledger.Started)
	}
}

// Like the pod of one that is deleted before its turn: see TestAPodDeletedBeforeItsTurnNamesWhatIsUnready.
func TestAGrantBeforeItsTurnNamesWhatIsUnready(t *testing.T) {
	a, b, c := heavyNode("a"), heavyNode("b"), prepared(heavyNode("c"))
	c.Pods[1].Available = false
	var slots []Slot
	for i, n := range []Node{a, b, c} {
		slot := operating(n)
		slot.Turn = int64(i + 1)
		slots = append(slots, slot)
	}
	for limit, want := range map[int][]int{2: {1}, 3: nil} {
		d := Plan(heavyInput(limit, granted(a), granted(b), c).slots(slots...))
		if len(d.Operations) != 1 || d.Operations[0].Node != "c" || !slices.Equal(d.Unready["c"], want) {
			t.Errorf("limit %d: changes %+v, unready %v; want a grant for c in which members %v are unready", limit, d.Operations, d.Unready, want)
		}
	}
	kept := withJob(heavyNode("c"), &Operation{ID: "op-before", Ours: true, Granted: true, KeptCordoned: true})
	d := Plan(heavyInput(2, granted(a), granted(b), kept).slots(slots...))
	if members, named := d.Unready["c"]; !named || len(members) > 0 || len(d.Operations) != 1 {
		t.Errorf("changes %+v, unready %v; want a grant for c, which is kept cordoned, and in which no member is unready", d.Operations, d.Unready)
	}
}

// Seed 13843 of the simulation of operations: the pod of a queued node dies by itself, so the node counts as started, and a newer
// revision needs an operation on it. It is back in a moment, and an operation beside the limit takes it out of service once more. It keeps its
// slot, because it may be out of service for us.
func TestANodeThatIsBackInAMomentGetsNoOperationBesideTheLimit(t *testing.T) {
	a, b := granted(heavyNode("a")), granted(heavyNode("b"))
	unreadyFor := func(d time.Duration) func(*Node) {
		return func(n *Node) { n.Pods[1].Available, n.Pods[1].NotReadySince = false, epoch.Add(-d) }
	}
	minReady := func(pod int) func(*Node) {
		return func(n *Node) { n.Pods[pod].Available, n.Pods[pod].AvailableAt = false, epoch.Add(25*time.Second) }
	}
	for _, tt := range []struct {
		name     string
		change   func(*Node)
		operated bool
		recheck  time.Duration
	}{
		{"its pod starts again", unreadyFor(10 * time.Second), false, 20 * time.Second},
		{"on a node that is held", func(n *Node) {
			n.Holds = []daemonset.Hold{{}}
			unreadyFor(10 * time.Second)(n)
		}, false, 20 * time.Second},
		{"and waits for minReadySeconds", minReady(1), false, 25 * time.Second},
		{"as the outdated one does", minReady(0), false, 25 * time.Second},
		{"it is down", unreadyFor(DefaultDeadlines.Unavailable), true, 0},
		{"it is cordoned", func(n *Node) { n.Disturbed = true }, true, 0},
		{"it is cordoned, and its pod starts again", func(n *Node) {
			n.Disturbed = true
			unreadyFor(10 * time.Second)(n)
		}, true, 0},
	} {
		c := heavyNode("c")
		tt.change(&c)
		slots := []Slot{operating(a), operating(b), {Node: "c", UID: c.UID, Since: epoch.Add(-time.Minute), Revision: "r2", Queued: true, Pod: "gone"}}
		for i := range slots {
			slots[i].Turn = int64(i + 1)
		}
		d := Plan(heavyInput(2, a, b, c).slots(slots...))
		isGranted := slices.ContainsFunc(d.Operations, func(o OperationChange) bool { return o.Node == "c" && o.Grant })
		if len(d.Ledger.Slots) != 3 || d.Ledger.Slots[2].Operation != "" != tt.operated || isGranted != tt.operated || !tt.operated && d.Recheck != tt.recheck {
			t.Errorf("%s: slots %+v, operations %+v, again in %s; want it operated: %t, again in %s", tt.name, d.Ledger.Slots, d.Operations, d.Recheck, tt.operated, tt.recheck)
		}
		if in := heavyInput(2, a, b, heavyNode("c")).slots(d.Ledger.Slots...); !tt.operated {
			if d := Plan(in); len(d.Ledger.Slots) != 2 {
				t.Errorf("%s, then it is available: slots %+v; want that of the node given back", tt.name, d.Ledger.Slots)
			}
		}
	}
}

// It is not failed for that it waited.
func TestANodeThatIsNeverBackGetsItsOperationAtItsDeadline(t *testing.T) {
	for since, want := range map[time.Duration]bool{DefaultDeadlines.Progress - time.Second: false, DefaultDeadlines.Progress: true} {
		a := heavyNode("a")
		a.Pods[1].Available, a.Pods[1].NotReadySince = false, epoch.Add(-10*time.Second)
		d := Plan(heavyInput(1, a).slots(slotOf(a, since)))
		if len(d.Ledger.Slots) != 1 || d.Ledger.Slots[0].Operation != "" != want || len(d.Ledger.Failures) > 0 {
			t.Errorf("started %s ago: slots %+v, failures %+v; want it operated: %t, and no failure", since, d.Ledger.Slots, d.Ledger.Failures, want)
		}
	}
}

// What an operation replaces along is not deleted while it waits for a node to be back, nor are other operations aborted for that.
func TestNothingIsDeletedOnANodeThatWaitsForItsOperation(t *testing.T) {
	starts := func(n *Node) { n.Pods[2].Available, n.Pods[2].NotReadySince = false, epoch.Add(-10*time.Second) }
	minReady := func(n *Node) { n.Pods[2].Available, n.Pods[2].AvailableAt = false, epoch.Add(25*time.Second) }
	down := func(n *Node) {
		n.Pods[2].Available, n.Pods[2].NotReadySince, n.Retry = false, epoch.Add(-time.Minute), epoch.Add(time.Hour)
	}
	for _, tt := range []struct {
		name    string
		heavy   bool
		change  func(*Node)
		turn    int64
		deletes bool
	}{
		{"beside the limit", true, starts, 3, false},
		{"within the limit", true, starts, 1, false},
		{"within the limit, for minReadySeconds", true, minReady, 1, false},
		{"one that needs none goes on", false, starts, 3, true},
		{"so does one that is down, and gets none for now", true, down, 3, true},
	} {
		c := nodeOf("c", oldHash, oldHash, newHash)
		tt.change(&c)
		a, b := nodeOf("a", newHash, oldHash, newHash), nodeOf("b", newHash, oldHash, newHash)
		in := inputOf(2, granted(a), prepared(b), c)
		in.Members = []Member{{Key: "kube-system/nfd", Target: newHash}, {Key: "kube-system/driver", Target: newHash, Heavy: tt.heavy}, {Key: "kube-system/exporter", Target: newHash}}
		slots := []Slot{operating(a), operating(b), slotOf(c, time.Minute)}
		slots[0].Turn, slots[1].Turn, slots[2].Turn = 2, 2, tt.turn
		if tt.turn == 1 {
			slots[1].Turn = 3
		}
		d := Plan(in.slots(slots...))
		aborts := slices.ContainsFunc(d.Operations, func(o OperationChange) bool { return o.Abort })
		if (len(d.Delete) > 0) != tt.deletes || aborts || len(d.Ledger.Slots) != 3 || len(d.Ledger.Failures) > 0 {
			t.Errorf("%s: deletes %+v, slots %+v, operations %+v; want a deletion: %t", tt.name, d.Delete, d.Ledger.Slots, d.Operations, tt.deletes)
		}
	}
}

// The node of an operation that took over a cordon goes back into service once one is done: what failed there may still be on it.
// So a newer target does not abort it; it ends by itself.
func TestAStaleOperationThatTookACordonOverIsNotAborted(t *testing.T) {
	for took, want := range map[bool][]string{false: {"a:abort op-a"}, true: nil} {
		in := heavyInput(1, granted(heavyNode("a")))
		in = in.slots(operating(in.Nodes[0]))
		in.Members[0].Target, in.Revision = "newer", "r3"
		in.Nodes[0].Operation.Committed = took
		d := Plan(in)
		if diff := cmp.Diff(want, operationChangesOf(d)); diff != "" {
			t.Errorf("it took a cordon over: %t (-want +got):\n%s", took, diff)
		}
		if len(d.Operations) > 0 && !d.Operations[0].AtWork {
			t.Error("it would be aborted although it has failed meanwhile, and keeps its node cordoned")
		}
		in.Settings.Strategy = daemonset.NoStrategy
		if d := Plan(in); len(d.Operations) != 1 || !d.Operations[0].Abort || d.Operations[0].AtWork {
			t.Errorf("without a strategy: %+v", d.Operations)
		}
	}
}
