package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/message"
)

// Plan decides which nodes start now, what every node in flight does next, and
// why every other node waits (design section 3).
func Plan(in Input) Decision { return NewFleet(&in).Plan(in) }

// Plan is the decision for the nodes of the fleet, which must have been made
// with the same Members, strategy and Policy. Its work is that for the nodes in
// flight, those that failed and those that start. The decision is good until the
// fleet changes.
func (f *Fleet) Plan(in Input) Decision {
	f.begin(in.Now)
	p := newPlanner(f, in)
	if in.Blocked != nil {
		p.keepLedger()
		p.countUse()
		return p.decide()
	}
	p.settleSlots()
	p.settleFailures()
	p.countUse()
	p.judgeFailures()
	p.followWaves()
	p.startNodes()
	p.nextSteps()
	p.orderOperations()
	p.withdraw()
	return p.decide()
}

// planner carries one decision through its steps.
type planner struct {
	in    Input
	fleet *Fleet

	revision string
	slots    []Slot
	failures []Failure
	touched  int
	started  []string
	deletes  []Deletion
	fence    []Pod
	orders   []Order
	unseen   []Slot

	lastTurn              int64
	limit, inFlight, used int
	pools                 map[string]*poolUse
	waves                 waveProgress
	refused               map[*lane]refusal
	usual                 time.Duration
	resumed               string
	resumedAt, lastStart  time.Time
	finished              []time.Duration
	halted                string
	recheck               time.Duration
}

// maxSlots bounds the ledger to what the API server stores of one object.
const maxSlots = 2000

func newPlanner(f *Fleet, in Input) *planner {
	p := &planner{in: in, fleet: f, refused: map[*lane]refusal{}, usual: in.Ledger.Usual, resumed: in.Resume,
		resumedAt: in.Ledger.ResumedAt, lastStart: in.Ledger.LastStart}
	if in.Resume != in.Ledger.Resumed && in.Blocked == nil {
		p.resumedAt = in.Now
	}
	p.recheckIn(f.nextChange(in.Now))
	if in.Settings.Strategy != daemonset.NoStrategy {
		p.limit = min(in.Settings.Limit(f.Len()), maxSlots)
	}
	return p
}

// keepLedger leaves the memory as it is: while the group is blocked nothing is
// touched, nothing expires and nothing is forgotten.
func (p *planner) keepLedger() {
	p.revision, p.touched = p.in.Ledger.Revision, p.in.Ledger.Touched
	p.waves.states, p.waves.limit, p.resumed = p.in.Ledger.Waves, p.in.Ledger.Limit, p.in.Ledger.Resumed
	p.slots, p.failures = p.in.Ledger.Slots, p.in.Ledger.Failures
	for i := range p.slots {
		switch node := p.lookup(p.slots[i].Node, p.slots[i].UID); {
		case node == nil:
		case p.slots[i].Queued:
			p.fleet.queue(node)
		default:
			p.fleet.mark(node, &p.slots[i], node.failure)
		}
	}
	p.markFailures()
}

// lookup returns the node of a name, nil when there is none, or when the name
// now belongs to another Node object than uid.
func (p *planner) lookup(name string, uid types.UID) *nodeFacts {
	if node := p.fleet.nodes[name]; node != nil && node.UID == uid {
		return node
	}
	return nil
}

// replaced reports whether the name belongs to another Node object than uid.
func (p *planner) replaced(name string, uid types.UID) bool {
	node := p.fleet.nodes[name]
	return node != nil && node.UID != uid
}

// settleSlots keeps, frees or fails each slot of the ledger.
func (p *planner) settleSlots() {
	p.revision, p.touched = p.in.Revision, p.in.Ledger.Touched
	if p.in.Ledger.Revision != p.in.Revision {
		p.touched = p.in.Ledger.InFlight()
	}
	for _, slot := range p.in.Ledger.Slots {
		node := p.lookup(slot.Node, slot.UID)
		switch {
		case p.replaced(slot.Node, slot.UID):
			p.unseen = append(p.unseen, slot)
		case p.staysQueued(&slot, node):
		case slot.Operation != "" && node != nil:
			p.settleOperation(slot, node)
		default:
			p.settle(slot, node)
		}
	}
}

// settle keeps, frees or fails the slot of a node that was started; node is nil
// when the Node object is gone.
func (p *planner) settle(slot Slot, node *nodeFacts) {
	if node != nil && p.decideSlot(&slot, node) {
		return
	}
	if slot.Revision != p.in.Revision {
		slot.Revision, slot.Since = p.in.Revision, p.in.Now
	}
	failure := p.expire(slot, node)
	if failure == nil {
		p.slots = append(p.slots, slot)
		return
	}
	p.failures = append(p.failures, *failure)
	if node != nil {
		p.fleet.mark(node, nil, nil)
	}
}

// decideSlot takes a slot back that is not needed any more, or has an operation do what
// is left to do under it. It reports whether that settles the slot.
func (p *planner) decideSlot(slot *Slot, node *nodeFacts) bool {
	p.fleet.mark(node, slot, nil)
	retarget := slot.Revision != p.in.Revision
	needsOperation := node.heavy && node.quiet()
	over := node.settled() || (retarget && node.idle(*slot)) || (needsOperation && node.available()) ||
		(node.Ready && node.busy()) || p.in.Settings.Strategy == daemonset.NoStrategy
	switch {
	case (!over && !needsOperation) || !p.spent(*slot, node):
		return false
	case over:
		p.learn(*slot, node)
		p.fleet.mark(node, nil, nil)
		return true
	case p.operateOn(slot, node):
		p.slots = append(p.slots, *slot)
		return true
	}
	return false
}

// learn takes the time a node took into the usual duration, when it finished
// at its target: a moving average, so that it follows a change of pace.
func (p *planner) learn(slot Slot, node *nodeFacts) {
	if !node.healed() || slot.Revision != p.in.Revision {
		return
	}
	took := max(p.in.Now.Sub(slot.Since), time.Second)
	p.finished = append(p.finished, took)
	if p.usual == 0 {
		p.usual = took
		return
	}
	p.usual += (took - p.usual) / usualWeight
}

// usualWeight is the weight of the past in the moving average.
const usualWeight = 8

// expire reports whether the node of a slot has failed, and asks to be woken at
// its deadline when it has not. node is nil when the Node object is gone.
func (p *planner) expire(slot Slot, node *nodeFacts) *Failure {
	failure := Failure{Node: slot.Node, UID: slot.UID, Since: p.in.Now}
	if node != nil && node.Ready {
		if pod := node.crashLooping(slot.Since); pod != nil {
			failure.Reason = ReasonCrashLooping
			failure.Message = fmt.Sprintf("container %s of pod %s crash-loops", pod.CrashLooping, pod.Name)
			return &failure
		}
		left := later(slot.Since, node.ReadySince).Add(p.in.Deadlines.Progress).Sub(p.in.Now)
		if left > 0 {
			p.recheckIn(left)
			return nil
		}
		failure.Reason = ReasonProgressDeadlineExceeded
		failure.Message = fmt.Sprintf("not available %s after it was started: %s", p.in.Deadlines.Progress, node.wait().message)
		return &failure
	}
	lost := slot.Since
	if node != nil {
		lost = later(slot.Since, node.ReadySince)
	}
	left := lost.Add(p.in.Deadlines.Lost).Sub(p.in.Now)
	if left > 0 {
		p.recheckIn(left)
		return nil
	}
	failure.Reason = ReasonNodeLost
	failure.Message = fmt.Sprintf("went offline after it was started and did not come back within %s", p.in.Deadlines.Lost)
	return &failure
}

// settleFailures keeps the failures of earlier decisions that still hold: those
// of this revision whose node has not healed, and that no person has forgiven
// by resuming the rollout.
func (p *planner) settleFailures() {
	for _, failure := range p.in.Ledger.Failures {
		if p.in.Resume != p.in.Ledger.Resumed || p.in.Ledger.Revision != p.in.Revision || p.replaced(failure.Node, failure.UID) {
			continue
		}
		node := p.lookup(failure.Node, failure.UID)
		if node != nil && (node.healed() || node.slot != nil) {
			continue
		}
		p.failures = append(p.failures, failure)
	}
	p.markFailures()
	p.suspectLapsed()
	sort.Slice(p.failures, func(i, j int) bool { return p.failures[i].Node < p.failures[j].Node })
	p.markFailures()
}

// suspectLapsed counts nodes as failed that gave their slot back, and went offline
// shortly after: a version may take its node down a while after its pod is
// available. Nodes that joined when the rollout was long over are not suspected.
func (p *planner) suspectLapsed() {
	p.fleet.lapsed.Ascend(func(n *nodeFacts) bool {
		made := n.lapsed.Created
		if n.slot != nil || n.failure != nil || !n.ReadySince.After(p.resumedAt) || made.After(p.lastStart.Add(p.in.Deadlines.Progress)) {
			return true
		}
		p.failures = append(p.failures, Failure{Node: n.Name, UID: n.UID, Reason: ReasonNodeLost, Since: p.in.Now, Message: fmt.Sprintf(
			"went offline %s after its new pod %s was made", n.ReadySince.Sub(made), n.lapsed.Name)})
		return true
	})
}

func (p *planner) markFailures() {
	for i := range p.failures {
		if node := p.lookup(p.failures[i].Node, p.failures[i].UID); node != nil {
			p.fleet.mark(node, node.slot, &p.failures[i])
		}
	}
}

// minFailures is the least number of failed nodes that halts a rollout, and
// failureShare the share of touched nodes beyond it (design section 3).
const (
	minFailures  = 2
	failureShare = 10
)

func (p *planner) judgeFailures() {
	threshold := max(minFailures, (p.touched+failureShare-1)/failureShare)
	if given := p.in.Policy.Threshold; given != nil {
		threshold = scaled(given, p.touched)
	}
	if len(p.failures) < threshold {
		return
	}
	names := make([]string, len(p.failures))
	for i := range p.failures {
		names[i] = p.failures[i].Node
	}
	p.halted = fmt.Sprintf("%d of %d started nodes failed (%s): roll out another revision, repair these nodes, or resume",
		len(p.failures), p.touched, message.Names(names))
}

// nextSteps records in each slot which pod is to be deleted next, if any. A node
// that is available waits for its turn.
func (p *planner) nextSteps() {
	turns := p.turns()
	for i := range p.slots {
		slot := &p.slots[i]
		node := p.lookup(slot.Node, slot.UID)
		if node == nil || !node.Ready || slot.Queued || slot.Operation != "" && node.ended(slot.Operation) == nil || node.atWork() {
			continue
		}
		if before, _ := slices.BinarySearch(turns, slot.Turn); node.available() && before >= p.limit {
			continue
		}
		pod := node.next()
		if pod == nil {
			continue
		}
		if slot.Pod != pod.UID && !p.spent(*slot, node) {
			continue
		}
		if slot.Pod == pod.UID && older(pod.Version, slot.PodVersion) {
			continue // what is known of the pod is from before the slot named it
		}
		slot.name(pod, p.in.Members[pod.Member].Key)
		p.deletes = append(p.deletes, Deletion{
			Node: node.Name, Member: pod.Member, Pod: pod.Name, UID: pod.UID, Version: slot.PodVersion, WasUnavailable: !pod.Available,
		})
	}
}

// turns of all slots, sorted.
func (p *planner) turns() []int64 {
	turns := make([]int64, len(p.slots))
	for i := range p.slots {
		turns[i] = p.slots[i].Turn
	}
	slices.Sort(turns)
	return turns
}

func (p *planner) decide() Decision {
	sort.Strings(p.started)
	slices.SortFunc(p.orders, func(a, b Order) int { return cmp.Compare(a.Node, b.Node) })
	d := Decision{
		Ledger: Ledger{Revision: p.revision, Slots: p.slots, Failures: p.failures, Touched: p.touched, Waves: p.waves.states, Limit: p.waves.limit, Usual: p.usual,
			Resumed: p.resumed, ResumedAt: p.resumedAt, LastStart: p.lastStart},
		Finished: p.finished,
		Started:  p.started, Delete: p.deletes, Fence: p.fence, Orders: p.orders, Unseen: p.unseen,
		Limit: p.limit, InFlight: p.inFlight, Used: p.used, Halted: p.halted, Recheck: p.recheck,
		plan: p,
	}
	d.Waiting = p.countWaiting()
	d.Counts = p.countStates(d.Waiting)
	return d
}

func (p *planner) recheckIn(d time.Duration) {
	if d > 0 && (p.recheck == 0 || d < p.recheck) {
		p.recheck = d
	}
}

func without(failures []Failure, node string) []Failure {
	kept := make([]Failure, 0, len(failures))
	for _, f := range failures {
		if f.Node != node {
			kept = append(kept, f)
		}
	}
	return kept
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
