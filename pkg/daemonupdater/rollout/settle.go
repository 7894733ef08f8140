package rollout

import (
	"time"

	"github.com/topsops/gcu-operator/pkg/daemonset"
)

// settlement keeps each slot of the ledger, gives it back, or has its node fail.
type settlement struct {
	*draft
	// unseen are slots that were given back because their nodes are not seen, and finished
	// how long nodes took that reached the target.
	unseen   []Slot
	finished []time.Duration
}

// settleSlots settles the slots of earlier decisions.
func settleSlots(d *draft) (unseen []Slot, finished []time.Duration) {
	s := settlement{draft: d}
	for _, slot := range d.in.Ledger.Slots {
		n := d.fleet.nodes.lookup(slot.Node, slot.UID)
		switch {
		case d.fleet.nodes.isReplaced(slot.Node, slot.UID), slot.Queued && n == nil:
			s.unseen = append(s.unseen, slot)
		case slot.Queued && s.staysQueued(&slot, n):
			s.keep(&slot)
		case slot.Operation != "" && n != nil:
			s.settleOperation(slot, n)
		default:
			s.settleStarted(slot, n)
		}
	}
	return s.unseen, s.finished
}

func (s *settlement) keep(slot *Slot) { s.ledger.Slots = append(s.ledger.Slots, *slot) }

// giveBack takes the slot of a node back. When the node finished at its target, the time it
// took goes into the usual duration: a moving average, so that it follows a change of pace.
func (s *settlement) giveBack(slot *Slot, n *fleetNode) {
	if n.hasRecovered() && slot.Revision == s.in.Revision {
		took := max(s.in.Now.Sub(slot.Since), time.Second)
		s.finished = append(s.finished, took)
		if s.ledger.Usual == 0 {
			s.ledger.Usual = took
		} else {
			s.ledger.Usual += (took - s.ledger.Usual) / usualWeight
		}
	}
	s.fleet.nodes.record(n, nil, nil)
}

// usualWeight is the weight of the past in the moving average.
const usualWeight = 8

// keepUntilDeadline keeps the slot of a node that was started at since, unless the node has
// failed; n is nil when the Node object is gone.
func (s *settlement) keepUntilDeadline(slot *Slot, since time.Time, n *fleetNode) {
	failure, left := failureOf(s.in, slot, since, n)
	if failure == nil {
		s.recheckIn(left)
		s.keep(slot)
		return
	}
	s.ledger.Failures = append(s.ledger.Failures, *failure)
	if n != nil {
		s.fleet.nodes.record(n, nil, nil)
	}
}

// staysQueued reports whether nothing is to be done yet about the slot of a queued node. When
// the pod it names is seen no more, somebody started the node; one that is older than the
// slot says nothing about that.
func (s *settlement) staysQueued(slot *Slot, n *fleetNode) bool {
	pod := namedPod(slot, n)
	if pod != nil && (isOlder(pod.Version, slot.PodVersion) || pod.UID == slot.Pod && !pod.Terminating) {
		slot.Revision = s.in.Revision
		s.fleet.nodes.recordQueued(n)
		return true
	}
	slot.Queued, slot.Since = false, s.in.Now
	s.ledger.Touched++
	return false
}

// settleStarted settles the slot of a node that was started; n is nil when the Node object
// is gone.
func (s *settlement) settleStarted(slot Slot, n *fleetNode) {
	if n != nil && s.settleAtOnce(&slot, n) {
		return
	}
	if slot.Revision != s.in.Revision {
		slot.Revision, slot.Since = s.in.Revision, s.in.Now
	}
	s.keepUntilDeadline(&slot, slot.Since, n)
}

// settleAtOnce takes a slot back that is not needed any more, or has an operation do what
// is left to do under it. It reports whether that settles the slot.
func (s *settlement) settleAtOnce(slot *Slot, n *fleetNode) bool {
	s.fleet.nodes.record(n, slot, nil)
	retargeted := slot.Revision != s.in.Revision
	needsOperation := n.heavy && n.Ready && !n.absent // the pod that the slot names may be there still
	over := n.isFinished() || (retargeted && n.isIdle(slot)) || (needsOperation && n.available) ||
		(n.Ready && n.isBusy()) || s.in.Settings.Strategy == daemonset.NoStrategy
	switch {
	case (!over && !needsOperation) || !s.fence.isRuledOut(slot, n):
		return false
	case over:
		s.giveBack(slot, n)
		return true
	case s.operateOn(slot, n):
		s.keep(slot)
		return true
	}
	return false
}

// settleOperation settles the slot of a node whose operation does all that is done under it.
func (s *settlement) settleOperation(slot Slot, n *fleetNode) {
	s.fleet.nodes.record(n, &slot, nil)
	switch end := endOf(slot.Operation, n.Ended); {
	case end == nil && n.Ready && n.isBusy():
		s.fleet.nodes.record(n, nil, nil) // it cannot be made: another group was first
	case end == nil:
		s.keep(&slot)
	case end.Outcome == Done:
		s.settleDone(&slot, n, end)
	default:
		s.settleNotDone(&slot, n, end)
	}
}

// settleNotDone settles the slot of an operation that ended before it was done: its node
// failed unless the outcome says nothing of the version.
func (s *settlement) settleNotDone(slot *Slot, n *fleetNode, end *End) {
	reason := failureReasons[end.Outcome]
	counts := reason != "" && slot.Revision == s.in.Revision
	if !counts && s.goesOn(slot, n, end) {
		s.keep(slot)
		return
	}
	s.fleet.nodes.record(n, nil, nil)
	if counts && s.in.Settings.Strategy != daemonset.NoStrategy {
		s.ledger.Failures = append(s.ledger.Failures, Failure{Node: slot.Node, UID: slot.UID, Reason: reason, Message: end.Message, Since: s.in.Now})
	}
}

// failureReasons are those of the outcomes that are failures of the node.
var failureReasons = map[Outcome]Reason{
	Broken:      ReasonOperationFailed,
	Lost:        ReasonNodeLost,
	Quarantined: ReasonQuarantined,
	Stopped:     ReasonOperationAborted,
}

// settleDone settles the slot of an operation that is done. What the operation did
// not replace, because it is of no component that it knows, is replaced after it.
func (s *settlement) settleDone(slot *Slot, n *fleetNode, end *End) {
	over := n.isFinished() || slot.Revision != s.in.Revision || n.needsAnotherOperation(slot) || s.in.Settings.Strategy == daemonset.NoStrategy
	if over && s.fence.isRuledOut(slot, n) {
		s.giveBack(slot, n)
		return
	}
	s.keepUntilDeadline(slot, later(slot.Since, end.Time), n)
}

// goesOn reports whether a node keeps its slot though its operation ended for nothing:
// what that began is not over while the node is unavailable. It gets another operation
// at once, or what is light follows; an offline node keeps the slot for as long as one
// that was lost.
func (s *settlement) goesOn(slot *Slot, n *fleetNode, end *End) bool {
	switch {
	case n.available || s.in.Settings.Strategy == daemonset.NoStrategy || n.isBusy() || n.Retry.After(s.in.Now):
		return false
	case n.Ready && n.heavy && s.operateOn(slot, n):
		return true
	}
	within := s.in.Deadlines.Progress
	if !n.Ready {
		within = s.in.Deadlines.Lost
	}
	left := later(end.Time, n.ReadySince).Add(within).Sub(s.in.Now)
	s.recheckIn(left)
	return left > 0
}

// operateOn gives a node that is out of service already an operation of its own, in the
// slot that it has: it is not prepared first. It reports whether the node has one to be done.
func (s *settlement) operateOn(slot *Slot, n *fleetNode) bool {
	if !n.replaceable || n.Retry.After(s.in.Now) || n.Job.isOfAnotherGroup() {
		return false
	}
	slot.Operation, slot.Members = s.newOperation(n), n.membersToReplace()
	slot.Pod, slot.PodVersion = "", ""
	slot.Since, slot.Revision = s.in.Now, s.in.Revision
	return true
}
