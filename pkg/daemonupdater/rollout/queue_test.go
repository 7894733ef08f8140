package rollout

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/topsops/gcu-operator/pkg/daemonset"
)

// fleetInVersions returns n outdated nodes n0, n1, … whose pods have a resourceVersion.
func fleetInVersions(n int) []Node {
	var nodes []Node
	for i := range n {
		nodes = append(nodes, inVersion(nodeOf(fmt.Sprint("n", i), oldHash), fmt.Sprint(100+i)))
	}
	return nodes
}

// finish replaces the pod of a node by an available one at the target.
func finish(in *Input, name string) {
	node := &in.Nodes[indexOf(in.Nodes, name)]
	replaceOn(node)
	availableOn(node)
	node.Pods[0].Version, node.Pods[0].Terminating = "1000", false
}

func queued(d Decision) []string {
	var names []string
	for _, s := range d.Ledger.Slots {
		if s.Queued {
			names = append(names, s.Node)
		}
	}
	return names
}

// startedTwo returns a group of six nodes of which two are started and two queued.
func startedTwo(t *testing.T) (in Input, d Decision) {
	t.Helper()
	in = inputOf(2, fleetInVersions(6)...)
	d = Plan(in)
	if len(d.Started) != 2 || len(queued(d)) != 2 {
		t.Fatalf("started %v, queued %v; want two of each", d.Started, queued(d))
	}
	in.Ledger = d.Ledger
	for _, x := range d.Delete { // carry out the decision
		node := &in.Nodes[indexOf(in.Nodes, x.Node)]
		*node = terminating(*node)
		node.Pods[0].Version = "500"
	}
	return in, d
}

func TestAQueuedNodeIsStartedUnderTheSlotItHas(t *testing.T) {
	in, first := startedTwo(t)
	if d := Plan(in); len(d.Started) != 0 || len(d.Delete) != 0 {
		t.Fatalf("started %v, deleted %v; want nothing while both are in flight", d.Started, d.Delete)
	}
	finish(&in, first.Started[0])
	d := Plan(in)
	if len(d.Started) != 1 || len(d.Delete) != 1 || len(queued(d)) != 1 {
		t.Fatalf("started %v, deleted %v, queued %v; want one of each", d.Started, d.Delete, queued(d))
	}
	slot := func(l Ledger) Slot {
		for _, s := range l.Slots {
			if s.Node == d.Started[0] {
				return Slot{Node: s.Node, UID: s.UID, Revision: s.Revision, Turn: s.Turn, Pod: s.Pod, PodVersion: s.PodVersion, Members: s.Members}
			}
		}
		return Slot{}
	}
	if diff := cmp.Diff(slot(first.Ledger), slot(d.Ledger)); diff != "" {
		t.Errorf("the slot under which %s is started was not stored before (-stored +used):\n%s", d.Started[0], diff)
	}
}

// Until it is stored that a slot was given back, another decision may replace the pod it names.
func TestAQueuedNodeWaitsUntilASlotThatDidNothingIsGivenBackInTheLedger(t *testing.T) {
	in := inputOf(1, fleetInVersions(3)...)
	d := Plan(in)
	in.Ledger = d.Ledger
	started := &in.Nodes[indexOf(in.Nodes, d.Started[0])]
	started.Pods[0].Revision, started.Pods[0].Version = newHash, "200" // the target is that of before again, and it is fenced
	d = Plan(in)
	if len(d.Started) != 0 || len(d.Delete) != 0 || len(d.Ledger.Slots) != 1 {
		t.Fatalf("started %v, deleted %v, slots %v; want one slot given back and nothing started", d.Started, d.Delete, d.Ledger.Slots)
	}
	in.Ledger = d.Ledger
	if d = Plan(in); len(d.Started) != 1 || len(d.Delete) != 1 {
		t.Errorf("started %v, deleted %v; want the queued node started", d.Started, d.Delete)
	}
}

// A slot that was given back in memory comes back when the target changes before that is stored: then
// more nodes are in flight than may be unavailable.
func TestANodeThatMayBeAvailableIsNotTakenDownBesideOneWithALaterTurn(t *testing.T) {
	first, later := inVersion(nodeOf("a", oldHash), "200"), missing(nodeOf("b", oldHash))
	first.Pods[0].Available, first.Pods[0].AvailableAt = false, epoch.Add(time.Second) // it only waits for minReadySeconds
	in := inputOf(1, first, later)
	in = in.slots(slotOf(first, time.Minute), slotOf(later, time.Minute))
	in.Ledger.Slots[0].Turn, in.Ledger.Slots[1].Turn = 1, 2
	if d := Plan(in); len(d.Delete) != 0 {
		t.Errorf("deleted %v while b is down, with a limit of 1", d.Delete)
	}
	in.Nodes[1] = nodeOf("b", newHash)
	if d := Plan(in); len(d.Delete) != 1 {
		t.Errorf("deleted %v, want that of a once b is finished", d.Delete)
	}
}

func TestTheQueueIsFilledWhenANodeIsStartedAfterItRanEmpty(t *testing.T) {
	in, first := startedTwo(t)
	for _, name := range first.Started {
		finish(&in, name)
	}
	d := Plan(in)
	if len(d.Started) != 2 || len(queued(d)) != 0 {
		t.Fatalf("started %v, queued %v; want the two queued ones started and nothing written", d.Started, queued(d))
	}
	in.Ledger = d.Ledger
	for _, name := range d.Started {
		finish(&in, name)
	}
	if d := Plan(in); len(d.Started) != 2 {
		t.Errorf("started %v, want the last two", d.Started)
	}
}

func TestQueuedNodesGiveTheirSlotsBackWhenNothingMayStart(t *testing.T) {
	tests := map[string]func(*Input){
		"paused":                 func(in *Input) { in.Settings.Paused = true },
		"a global task is added": func(in *Input) { in.Beforehand = &Blocked{Reason: "AwaitingGlobalTask"} },
		"their images are not there": func(in *Input) {
			for i := range in.Nodes {
				in.Nodes[i].Pods[0].Pull = Pull{State: PullNeeded}
			}
		},
		"under OTA": func(in *Input) { in.Settings.Strategy = daemonset.OTA },
		"window closed": func(in *Input) {
			in.Policy.Window = &Window{Start: 12 * time.Hour, Length: time.Hour, Zone: epoch.Location()}
		},
		"halted": func(in *Input) {
			in.Ledger.Failures = []Failure{{Node: "x", Reason: ReasonNodeLost}, {Node: "y", Reason: ReasonNodeLost}}
		},
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			in, _ := startedTwo(t)
			change(&in)
			d := Plan(in)
			if len(d.Fence) != 2 || len(d.Started) != 0 {
				t.Fatalf("fenced %v, started %v; want both queued pods fenced and nothing started", d.Fence, d.Started)
			}
			for _, name := range queued(d) {
				in.Nodes[indexOf(in.Nodes, name)].Pods[0].Version = "900"
			}
			in.Ledger = d.Ledger
			if d := Plan(in); len(queued(d)) != 0 || len(d.Fence) != 0 {
				t.Errorf("queued %v, fenced %v when the fences are seen; want neither", queued(d), d.Fence)
			}
		})
	}
}

func TestALowerLimitBindsTheQueue(t *testing.T) {
	in, first := startedTwo(t)
	in.Settings.MaxUnavailable.IntVal = 1
	finish(&in, first.Started[0])
	if d := Plan(in); len(d.Started) != 0 {
		t.Errorf("started %v, want nothing: one node is in flight under a limit of one", d.Started)
	}
}

func TestAStartedNodeIsNotQueuedAnyMore(t *testing.T) {
	in, first := startedTwo(t)
	name := queued(first)[0]
	node := &in.Nodes[indexOf(in.Nodes, name)]
	*node = terminating(*node)
	d := Plan(in)
	if len(queued(d)) != 1 || d.Counts.InFlight != 3 || len(d.Started) != 0 {
		t.Errorf("queued %v, %d in flight, started %v; want the node in flight", queued(d), d.Counts.InFlight, d.Started)
	}
}

// TestANodeStaysQueuedWhileWhatIsSeenOfItIsOlderThanItsSlot: the pod that the slot names is not
// in the cache yet, which does not mean that it was deleted.
func TestANodeStaysQueuedWhileWhatIsSeenOfItIsOlderThanItsSlot(t *testing.T) {
	in, first := startedTwo(t)
	name := queued(first)[0]
	node := &in.Nodes[indexOf(in.Nodes, name)]
	*node = inVersion(broken(*node), "9")
	node.Pods[0].UID = "before"
	d := Plan(in)
	if len(queued(d)) != 2 || d.Counts.InFlight != 2 || len(d.Delete) != 0 {
		t.Errorf("queued %v, %d in flight, delete %v; want two queued as before and nothing deleted", queued(d), d.Counts.InFlight, d.Delete)
	}
}

// TestSlotsThatAreGivenBackUnseenAreNamed: the cache may be stale, so this needs a live read.
func TestSlotsThatAreGivenBackUnseenAreNamed(t *testing.T) {
	in, first := startedTwo(t)
	gone, again := queued(first)[0], first.Started[0]
	in.Nodes[indexOf(in.Nodes, again)].UID = "another"
	i := indexOf(in.Nodes, gone)
	in.Nodes = append(in.Nodes[:i], in.Nodes[i+1:]...)
	var names []string
	d := Plan(in)
	for _, s := range d.Unseen {
		names = append(names, s.Node)
	}
	slices.Sort(names)
	want := []string{gone, again}
	slices.Sort(want)
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("unseen (-want +got):\n%s", diff)
	}
	for _, s := range d.Ledger.Slots {
		if s.Node == gone {
			t.Errorf("slot %+v is kept, want it given back", s)
		}
	}
}

func TestANodeThatIsOfflineDoesNotStayInTheQueue(t *testing.T) {
	in, first := startedTwo(t)
	name := queued(first)[0]
	in.Nodes[indexOf(in.Nodes, name)] = inVersion(offline(in.Nodes[indexOf(in.Nodes, name)]), "900")
	d := Plan(in)
	if v, _ := d.Verdict(name); len(queued(d)) != 1 || v.State != Skipped {
		t.Errorf("queued %v, verdict %+v; want the node skipped", queued(d), v)
	}
}

func TestABrokenNodeIsStartedBeforeTheQueue(t *testing.T) {
	in, first := startedTwo(t)
	finish(&in, first.Started[0])
	broke := -1
	for i := range in.Nodes {
		if v, _ := first.Verdict(in.Nodes[i].Name); v.Reason == ReasonBudgetExhausted {
			broke = i
		}
	}
	in.Nodes[broke] = broken(in.Nodes[broke])
	if d := Plan(in); len(d.Started) != 1 || d.Started[0] != in.Nodes[broke].Name {
		t.Errorf("started %v, want %s, whose pod is not available: the others have to wait for it", d.Started, in.Nodes[broke].Name)
	}
}

func TestNothingIsQueuedWithPools(t *testing.T) {
	in := inputOf(2, fleetInVersions(6)...)
	one := in.Settings.MaxUnavailable
	in.Policy.PoolMaxUnavailable = &one
	if d := Plan(in); len(queued(d)) != 0 {
		t.Errorf("queued %v, want nothing: a queued node would stand in the way of other pools", queued(d))
	}
}

// They were queued before the policy had pools.
func TestQueuedNodesWhosePoolIsFullMakeRoomForOtherPools(t *testing.T) {
	in, first := startedTwo(t)
	for i := range in.Nodes {
		if in.Nodes[i].Pool = "y"; slices.ContainsFunc(first.Ledger.Slots, func(s Slot) bool { return s.Node == in.Nodes[i].Name }) {
			in.Nodes[i].Pool = "x"
		}
	}
	one := intstr.FromInt32(1)
	in.Policy.PoolMaxUnavailable = &one
	finish(&in, first.Started[0]) // the other one stays unavailable
	d := Plan(in)
	if len(d.Fence) != 2 || len(d.Started) != 0 || len(queued(d)) != 2 {
		t.Fatalf("fenced %v, started %v, queued %v; want both queued pods fenced and nothing started", d.Fence, d.Started, queued(d))
	}
	for _, name := range queued(d) {
		in.Nodes[indexOf(in.Nodes, name)].Pods[0].Version = "900"
	}
	in.Ledger = d.Ledger
	d = Plan(in)
	if len(queued(d)) != 0 || len(d.Fence) != 0 || len(d.Started) != 1 || in.Nodes[indexOf(in.Nodes, d.Started[0])].Pool != "y" {
		t.Errorf("queued %v, fenced %v, started %v; want a node of pool y started", queued(d), d.Fence, d.Started)
	}
}

func TestQueuedNodesWhosePoolHasRoomStartThoughThePolicyHasPools(t *testing.T) {
	in, first := startedTwo(t)
	one := intstr.FromInt32(1)
	in.Policy.PoolMaxUnavailable = &one
	for i, name := range append(slices.Clone(first.Started), queued(first)...) {
		in.Nodes[indexOf(in.Nodes, name)].Pool = fmt.Sprint("p", i)
	}
	if d := Plan(in); len(d.Fence) != 0 || len(queued(d)) != 2 {
		t.Errorf("fenced %v, queued %v while two nodes are in flight", d.Fence, queued(d))
	}
	finish(&in, first.Started[0])
	if d := Plan(in); len(d.Started) != 1 || !slices.Contains(queued(first), d.Started[0]) {
		t.Errorf("started %v, want one of %v", d.Started, queued(first))
	}
}

// TestANodeIsNotStartedOutOfTurn: a node ahead in the queue cannot start now, but another manager
// may have started it, since its pod is still the one its slot names.
func TestANodeIsNotStartedOutOfTurn(t *testing.T) {
	in, first := startedTwo(t)
	finish(&in, first.Started[0])
	ahead := ""
	turn := int64(1 << 62)
	for _, s := range first.Ledger.Slots {
		if s.Queued && s.Turn < turn {
			ahead, turn = s.Node, s.Turn
		}
	}
	i := indexOf(in.Nodes, ahead)
	in.Nodes[i] = offline(in.Nodes[i])
	d := Plan(in)
	if len(d.Started) != 0 || len(d.Fence) != 1 {
		t.Errorf("started %v, fenced %v; want %s fenced, and nothing started before that is seen", d.Started, d.Fence, ahead)
	}
}

// A pod that somebody else replaced may be available by the clock of its kubelet already.
func TestAStartedNodeWaitsForItsTurnWhenOnlyMinReadySecondsAreMissing(t *testing.T) {
	a, b := missing(nodeOf("a", oldHash)), withPod(nodeOf("b", oldHash), func(p *Pod) { p.Available, p.AvailableAt = false, epoch.Add(3*time.Second) })
	first, second := slotOf(a, time.Minute), slotOf(b, time.Minute)
	first.Turn, second.Turn = 1, 2
	d := Plan(inputOf(1, a, b).slots(first, second))
	if len(d.Delete) > 0 || d.InFlight != 2 {
		t.Errorf("deletes %v, %d in flight; want none, and both", d.Delete, d.InFlight)
	}
}

// What lets a node start before those that wait in the queue may be an old view of it: a manager that acts on the ledger of
// before may start those.
func TestAPodDeletedBeforeItsTurnNamesWhatIsUnready(t *testing.T) {
	nodes := fleetInVersions(5)
	nodes[3] = unfit(broken(nodes[3])) // it counts as unavailable, and is not started
	in := inputOf(2, nodes...)
	d := Plan(in)
	if len(d.Started) != 1 || len(queued(d)) != 2 || d.Unready != nil {
		t.Fatalf("started %v, queued %v, deletes %+v; want one to be started in its turn, and two queued", d.Started, queued(d), d.Delete)
	}
	in.Ledger = d.Ledger
	left := slices.IndexFunc(in.Nodes, func(n Node) bool {
		return n.Name != "n3" && !slices.ContainsFunc(d.Ledger.Slots, func(s Slot) bool { return s.Node == n.Name })
	})
	in.Nodes[left] = broken(in.Nodes[left])
	d = Plan(in)
	deletes := slices.ContainsFunc(d.Delete, func(x Pod) bool { return x.Node == in.Nodes[left].Name })
	if want := map[string][]int{in.Nodes[left].Name: {0}}; !deletes || !maps.EqualFunc(d.Unready, want, slices.Equal) {
		t.Errorf("deletes %+v, unready %v; want the pod of %s, and member 0 to be unready", d.Delete, d.Unready, in.Nodes[left].Name)
	}
}

// A pod whose successor is not in the cache yet seems not to be needed any more if a taint keeps new ones away.
func TestSlotsThatAreGivenBackWithoutTheirMembersAreNamed(t *testing.T) {
	in := inputOf(1, nodeOf("a", newHash), nodeOf("b", newHash, newHash))
	in.Members = append(in.Members, Member{Key: "kube-system/b", Target: newHash})
	var slots []Slot
	for _, n := range in.Nodes {
		slot := slotOf(n, time.Minute)
		slot.Members = []string{"kube-system/a", "kube-system/b"}
		slots = append(slots, slot)
	}
	d := Plan(in.slots(slots...))
	if want := []Slot{{Node: "a", UID: "uid-a", Members: []string{"kube-system/b"}}}; len(d.Ledger.Slots) != 0 || cmp.Diff(want, d.Vacated) != "" {
		t.Errorf("slots %+v, vacated %+v; want both given back, and %+v vacated", d.Ledger.Slots, d.Vacated, want)
	}
}
