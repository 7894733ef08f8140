package rollout

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/topsops/gcu-operator/pkg/daemonset"
)

// A node on which a heavy member is outdated is not brought to its target by
// deleted pods but by an operation (design section 4), which replaces all that is
// outdated on the node. An operation is prepared first, and takes no slot for that;
// then it is granted, under a slot that names it. The slot is given back only when
// the operation has ended: an operation that has ended is never carried out, so who
// grants it late, because it was interrupted, grants nothing.

// Job is what is seen of one operation on a node.
type Job struct {
	// ID of the operation.
	ID string
	// Ours: it belongs to this group.
	Ours bool
	// Targets by member key; those that are not of this group are left out.
	Targets map[string]string
	// Prepared: it waits for nothing but its grant. Granted: it may touch the node.
	Prepared, Granted bool
	// Stalled: it is not prepared because something is amiss, and may not be for long.
	Stalled bool
	// Held: it has ended, and keeps the node cordoned.
	Held bool
	// Message says what it is at.
	Message string
}

// holds reports whether a node is held; nil is no operation.
func (j *Job) holds() bool { return j != nil && j.Held }

// End is how an operation ended.
type End struct {
	ID string
	// Outcome of it.
	Outcome Outcome
	// Message says why.
	Message string
	// Time at which it ended.
	Time time.Time
}

// Outcome is how an operation ended.
type Outcome string

// Outcomes of an operation.
const (
	// Done: every component is what it was to be.
	Done Outcome = "Done"
	// Broken counts against the version. Lost is Broken because the node went offline.
	Broken Outcome = "Broken"
	Lost   Outcome = "Lost"
	// Quarantined is a rollback that was Broken.
	Quarantined Outcome = "Quarantined"
	// Dropped says nothing of the version: the node was busy, or was to be brought
	// elsewhere.
	Dropped Outcome = "Dropped"
	// Stopped was ended by a person.
	Stopped Outcome = "Stopped"
)

// Order is what an operation of a node is to be told.
type Order struct {
	Node string
	UID  types.UID
	// Operation is its id. One that is not there is made: of all members of the group
	// that are to be replaced on the node.
	Operation string
	// Grant lets it touch the node, and Abort winds it up.
	Grant, Abort bool
}

// maxPulling bounds the nodes that pull images at the same time.
const maxPulling = 20

// ended returns how an operation of the node ended, nil when it has not.
func (n *Node) ended(operation string) *End {
	i := slices.IndexFunc(n.Ended, func(e End) bool { return e.ID == operation })
	if i < 0 {
		return nil
	}
	return &n.Ended[i]
}

// busy reports whether an operation of another group has the node out of service: then
// nothing is done there (invariant S6), and a slot for it is of no use.
func (f *nodeFacts) busy() bool { return f.Disturbed && f.Job != nil && !f.Job.Ours }

// atWork reports whether an operation is at work on the node, of whatever group: then no
// pod is deleted but by it. It may have no slot here, when it is about a Node object of
// before.
func (f *nodeFacts) atWork() bool { return f.Job != nil && f.Job.Granted && !f.Job.Held }

// stale reports whether an operation is about targets that are not those any more.
func (f *frame) stale(job *Job) bool {
	return slices.ContainsFunc(f.members, func(m Member) bool {
		target, ok := job.Targets[m.Key]
		return ok && m.Target != "" && target != m.Target
	})
}

// unprepared reports whether a candidate needs an operation that is not ready for its
// grant. A node that an ended operation keeps out of service is not prepared first:
// another one could not begin there without giving the node back.
func (f *nodeFacts) unprepared() bool {
	if !f.heavy || f.Disturbed && f.Job != nil && f.Job.Ours {
		return false
	}
	return f.Job == nil || !f.Job.Prepared || f.frame.stale(f.Job)
}

// preparing reports whether an operation of this group waits for its grant, or will.
func (f *nodeFacts) preparing() bool {
	return f.Job != nil && f.Job.Ours && !f.Job.Granted && !f.Job.Held
}

// operating reports whether an operation of this group may touch the node, and has not
// ended.
func (f *nodeFacts) operating() bool {
	return f.Job != nil && f.Job.Ours && f.Job.Granted && !f.Job.Held
}

// settleOperation keeps, frees or fails the slot of a node whose operation does all
// that is done under it.
func (p *planner) settleOperation(slot Slot, node *nodeFacts) {
	p.fleet.mark(node, &slot, nil)
	end := node.ended(slot.Operation)
	if end == nil && node.Ready && node.busy() {
		p.fleet.mark(node, nil, nil) // it cannot be made: another group was first
		return
	}
	if end == nil {
		p.slots = append(p.slots, slot)
		return
	}
	failure := Failure{Node: slot.Node, UID: slot.UID, Since: p.in.Now, Message: end.Message}
	switch end.Outcome {
	case Broken:
		failure.Reason = ReasonOperationFailed
	case Lost:
		failure.Reason = ReasonNodeLost
	case Quarantined:
		failure.Reason = ReasonQuarantined
	case Stopped:
		failure.Reason = ReasonOperationAborted
	case Done:
		p.settleDone(slot, node, end)
		return
	}
	counts := failure.Reason != "" && slot.Revision == p.in.Revision
	if !counts && p.goesOn(&slot, node, end) {
		p.slots = append(p.slots, slot)
		return
	}
	p.fleet.mark(node, nil, nil)
	if counts && p.in.Settings.Strategy != daemonset.NoStrategy {
		p.failures = append(p.failures, failure)
	}
}

// goesOn reports whether a node keeps its slot though its operation ended for nothing:
// what that began is not over while the node is unavailable. It gets another operation
// at once, or what is light follows; an offline node keeps the slot for as long as one
// that was lost.
func (p *planner) goesOn(slot *Slot, node *nodeFacts, end *End) bool {
	switch {
	case node.available() || p.in.Settings.Strategy == daemonset.NoStrategy || node.busy() || node.Retry.After(p.in.Now):
		return false
	case node.Ready && node.heavy && p.operateOn(slot, node):
		return true
	}
	within := p.in.Deadlines.Progress
	if !node.Ready {
		within = p.in.Deadlines.Lost
	}
	left := later(end.Time, node.ReadySince).Add(within).Sub(p.in.Now)
	p.recheckIn(left)
	return left > 0
}

// operateOn gives a node that is out of service already an operation of its own, in the
// slot that it has: it is not prepared first. It reports whether the node has one to be done.
func (p *planner) operateOn(slot *Slot, node *nodeFacts) bool {
	if !node.wants || node.Retry.After(p.in.Now) || node.Job != nil && !node.Job.Ours {
		return false
	}
	slot.Operation, slot.Members = p.newOperation(node), node.toReplace()
	slot.Pod, slot.PodVersion = "", ""
	slot.Since, slot.Revision = p.in.Now, p.in.Revision
	return true
}

// settleDone settles the slot of an operation that is done. What the operation did
// not replace, because it is of no component that it knows, is replaced after it.
func (p *planner) settleDone(slot Slot, node *nodeFacts, end *End) {
	over := node.settled() || slot.Revision != p.in.Revision || node.begunAnew(&slot) || p.in.Settings.Strategy == daemonset.NoStrategy
	if over && p.spent(slot, node) {
		p.learn(slot, node)
		p.fleet.mark(node, nil, nil)
		return
	}
	after := slot
	after.Since = later(slot.Since, end.Time)
	failure := p.expire(after, node)
	if failure == nil {
		p.slots = append(p.slots, slot)
		return
	}
	p.failures = append(p.failures, *failure)
	p.fleet.mark(node, nil, nil)
}

// begunAnew reports whether something heavy is to be replaced again since the
// operation of a slot was done: another one is needed. A pod that is older than the
// slot only shows that the view is behind.
func (f *nodeFacts) begunAnew(slot *Slot) bool {
	return slices.ContainsFunc(f.Pods, func(pod Pod) bool {
		return f.isHeavy(&pod) && (!pod.Created.Before(slot.Since) || !slices.Contains(slot.Members, f.frame.members[pod.Member].Key))
	})
}

// orderOperations says what the operations of nodes with a slot are to be told.
func (p *planner) orderOperations() {
	turns := p.turns()
	for i := range p.slots {
		slot := &p.slots[i]
		node := p.lookup(slot.Node, slot.UID)
		if slot.Operation == "" || node == nil || node.ended(slot.Operation) != nil {
			continue
		}
		order := Order{Node: node.Name, UID: node.UID, Operation: slot.Operation, Grant: true}
		job := node.Job
		if job != nil && job.ID != slot.Operation {
			job = nil
		}
		order.Abort = p.in.Settings.Strategy == daemonset.NoStrategy || job != nil && p.fleet.frame.stale(job)
		if before, _ := slices.BinarySearch(turns, slot.Turn); node.available() && before >= p.limit && !order.Abort {
			continue
		}
		if job == nil || !job.Granted || order.Abort {
			p.orders = append(p.orders, order)
		}
	}
}

// prepare has the operations of the nodes made that come next, so many that there
// is always one that is ready when a slot is free.
func (p *planner) prepare(lanes []*lane) {
	var ahead []*nodeFacts
	pulling := 0
	for _, n := range p.fleet.preparing {
		if p.fleet.frame.stale(n.Job) {
			continue
		}
		if !n.Job.Stalled {
			ahead = append(ahead, n)
		}
		if !n.Job.Prepared {
			pulling++
		}
	}
	for _, l := range lanes {
		room := p.limit
		for _, n := range ahead {
			if p.goesBefore(n, l) {
				room--
			}
		}
		l.nodes.Ascend(func(n *nodeFacts) bool {
			if room <= 0 || pulling >= maxPulling {
				return false
			}
			if n.startable() && (n.Job == nil || n.preparing() && p.fleet.frame.stale(n.Job)) {
				p.orders = append(p.orders, Order{Node: n.Name, UID: n.UID, Operation: p.newOperation(n)})
				ahead = append(ahead, n)
				room--
				pulling++
			}
			return true
		})
	}
}

// goesBefore reports whether a node that is prepared, or will be, is there for the next
// slot that those of a lane could have. One that cannot be started when they can does
// not keep them from being prepared: then nobody would be ready.
func (p *planner) goesBefore(n *nodeFacts, l *lane) bool {
	if n.lane == nil || !n.startable() || n.lane.need == healthy && l.need != healthy {
		return false
	}
	if reason, _ := p.held(n.lane); reason != "" {
		return false
	}
	return n.Pool == l.pool || p.refused[n.lane].reason != ReasonPoolExhausted
}

// withdraw ends operations that nobody grants: nothing is to be replaced on their
// nodes any more.
func (p *planner) withdraw() {
	for _, n := range p.fleet.preparing {
		if n.slot == nil && n.needless() {
			p.orders = append(p.orders, Order{Node: n.Name, UID: n.UID, Operation: n.Job.ID, Abort: true})
		}
	}
}

// needless: nothing is to be replaced on the node by an operation. What is offline
// may have to be replaced when it is back.
func (f *nodeFacts) needless() bool {
	switch f.standing {
	case finished, ailing, withheld, unasked, leftOut:
		return true
	}
	return f.standing != away && !f.heavy
}

// newOperation is an id that no operation had before, neither of this node nor of
// another one: a mark on a node is left over when no operation has its id.
func (p *planner) newOperation(n *nodeFacts) string {
	return fmt.Sprintf("%s-%s-%x-%d", p.in.Revision, strconv.FormatInt(p.in.Now.UnixMilli(), 36), n.hash, len(n.Ended))
}

// operationOf is the operation of a node that is started: the one that was
// prepared, or one that goes on without a slot that is known, or a new one. "" for a
// node where pods are just deleted.
func (p *planner) operationOf(n *nodeFacts) string {
	switch {
	case !n.heavy:
		return ""
	case n.Job != nil && !n.Job.Held:
		return n.Job.ID
	}
	return p.newOperation(n)
}

// ToReplace reports whether a pod of a node is outdated, and may be replaced by an input.
func ToReplace(in *Input, node *Node, pod *Pod) bool {
	f := nodeFacts{Node: *node, frame: &frame{strategy: in.Settings.Strategy, members: in.Members}}
	return f.isOutdated(pod) && f.wanted(pod)
}

// toReplace are the keys of the members whose pods are to be replaced.
func (f *nodeFacts) toReplace() []string {
	var keys []string
	for i := range f.Pods {
		if pod := &f.Pods[i]; f.isOutdated(pod) && f.wanted(pod) {
			keys = append(keys, f.frame.members[pod.Member].Key)
		}
	}
	return keys
}

// quiet: no pod of the node is on its way, available or not; the one that a slot names
// may be there still. A node that went offline after it was touched keeps its slot.
func (f *nodeFacts) quiet() bool { return f.Ready && !f.absent }

// isHeavy reports whether a pod is to be replaced by an operation.
func (f *nodeFacts) isHeavy(pod *Pod) bool {
	return f.frame.members[pod.Member].Heavy && f.isOutdated(pod) && f.wanted(pod)
}

// underOperation says what a node in flight with an operation waits for.
func (f *nodeFacts) underOperation() waiting {
	if f.Job == nil || f.Job.ID != f.slot.Operation {
		return waiting{ReasonOperating, fmt.Sprintf("operation %s is being made", f.slot.Operation)}
	}
	return waiting{ReasonOperating, f.Job.Message}
}
