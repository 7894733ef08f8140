package rollout

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/topsops/gcu-operator/pkg/daemonset"
)

// slotReview decides for each slot of the ledger whether it is kept or given back, or its node has failed.
type slotReview struct {
	*draft
	// unseen are the slots dropped because their nodes do not exist, vacated those given back with members that left the node,
	// withoutOperation those dropped because their operations are not created. finished has the durations of the nodes
	// that reached the target.
	unseen, vacated, withoutOperation []Slot
	finished                          []time.Duration
}

// reviewSlots reviews the slots of earlier decisions.
func reviewSlots(d *draft) *slotReview {
	s := &slotReview{draft: d}
	for _, slot := range d.in.Ledger.Slots {
		n := d.fleet.nodes.lookup(slot.Node, slot.UID)
		if n != nil {
			slot.UID = n.UID
		}
		slot.skipIdleTime(d.in, readySinceOf(n))
		switch {
		case n == nil && d.fleet.operatesOutside(&slot):
			if !d.fleet.outside[slot.Node].Operation.Aborted {
				s.noteAborted(&slot)
			}
			s.keep(&slot)
		case n == nil:
			s.uncountStart(&slot)
			s.unseen = append(s.unseen, slot)
		case slot.Queued && s.staysQueued(&slot, n):
			s.keep(&slot)
		case slot.Operation != "":
			s.reviewOperation(slot, n)
		default:
			s.reviewStarted(slot, n)
		}
	}
	s.adopt()
	return s
}

// adopt gives a slot to each node on which an operation is at work without one: a person resumed it
// after it had failed, or the ledger was lost. Such a node is out of service already, so it starts
// regardless of the budget and the start rules.
func (s *slotReview) adopt() {
	turn := s.ledger.lastTurn()
	for _, name := range slices.Sorted(maps.Keys(s.fleet.operating)) {
		n := s.fleet.operating[name]
		if n.slot != nil || n.queued || endOf(n.Operation.ID, n.Ended) != nil {
			continue
		}
		turn++
		slot := s.slotOf(n, turn)
		slot.Operation, slot.Members = n.Operation.ID, slices.Sorted(maps.Keys(n.Operation.Targets))
		slot.restart(s.in.Now, n.Pods)
		if slot.Revision = cmp.Or(n.Operation.Revision, s.in.Revision); slot.Revision == s.in.Revision {
			s.ledger.Started++
		}
		s.retargetOperation(&slot, n)
		s.fleet.nodes.record(n, &slot, nil)
		s.keep(&slot)
	}
}

// readySinceOf is Node.ReadySince, zero for no node.
func readySinceOf(n *Node) time.Time {
	if n == nil {
		return time.Time{}
	}
	return n.ReadySince
}

func (s *slotReview) keep(slot *Slot) { s.ledger.Slots = append(s.ledger.Slots, *slot) }

// giveBack frees the slot of a node. If the node finished at its target, its duration enters the
// usual duration, a moving average that follows a change of pace.
func (s *slotReview) giveBack(slot *Slot, n *Node) {
	if n.hasRecovered() && !n.pinned && slot.Revision == s.in.Revision {
		took := max(s.in.Now.Sub(slot.Since)-slot.Idle, time.Second)
		s.finished = append(s.finished, took)
		s.progressed(s.in.Now)
		if s.ledger.Usual == 0 {
			s.ledger.Usual = took
		} else {
			s.ledger.Usual += (took - s.ledger.Usual) / usualWeight
		}
	}
	s.noteOver(slot, n)
	if left := vacantOf(n, slot.Members); len(left) > 0 {
		s.vacated = append(s.vacated, Slot{Node: slot.Node, UID: slot.UID, Members: left})
	}
	s.fleet.nodes.record(n, nil, nil)
}

// vacantOf returns the members, of those with the given keys, that neither run nor should run on a node.
func vacantOf(n *Node, members []string) []string {
	return slices.DeleteFunc(slices.Clone(members), func(key string) bool {
		return slices.ContainsFunc(n.Pods, func(pod Pod) bool { return n.group.keyOf(&pod) == key })
	})
}

// usualWeight is the inverse of the weight of a new duration in the moving average.
const usualWeight = 8

// keepUntilDeadline keeps the slot of a node that was started at since, unless the node has failed and the pod that the slot
// names cannot be deleted any more. If another group works on the node, or an operation of it is all that the slot waited for, it only gives
// its slot back.
func (s *slotReview) keepUntilDeadline(slot *Slot, since time.Time, n *Node) {
	failure, left := failureOf(s.in, slot, since, n)
	if failure == nil || !s.fence.isRuledOut(slot, n) {
		if n.available && !awaitsCards(n.group, slot, n.Pods) || n.isDenied(slot) {
			slot.wait(s.in)
		}
		s.recheckIn(left)
		s.keep(slot)
		return
	}
	s.noteOver(slot, n)
	s.fleet.nodes.record(n, nil, nil)
	switch {
	case !n.Ready || !n.isBusy() && !slot.onlyAwaitsOthers(n):
		s.ledger.Failures = append(s.ledger.Failures, *failure)
	case !n.isBusy():
		s.uncountStart(slot)
	}
}

// staysQueued reports whether the slot of a queued node stays queued. If the pod that it names is gone or
// terminating, the node has been started. A cached pod older than the slot does not prove that.
func (s *slotReview) staysQueued(slot *Slot, n *Node) bool {
	pod := namedPod(slot, n)
	if pod != nil && (isOlder(pod.Version, slot.PodVersion) || pod.UID == slot.Pod && !pod.Terminating) {
		slot.Revision = s.in.Revision
		s.fleet.nodes.recordQueued(n)
		return true
	}
	slot.Queued = false
	if slot.Revision == s.in.Revision {
		s.ledger.Started++
	}
	slot.restart(s.in.Now, n.Pods)
	s.ledger.Touched++
	return false
}

// reviewStarted reviews the slot of a started node without an operation.
func (s *slotReview) reviewStarted(slot Slot, n *Node) {
	if s.endOrOperate(&slot, n) {
		return
	}
	if slot.Revision != s.in.Revision {
		s.retarget(&slot)
		slot.restart(s.in.Now, n.Pods)
	}
	s.keepUntilDeadline(&slot, slot.Since, n)
}

// endOrOperate gives back a slot that is no longer needed, or starts an operation under it for the
// remaining work, unless the node may be back in service in a moment. It reports whether it did either.
func (s *slotReview) endOrOperate(slot *Slot, n *Node) bool {
	s.fleet.nodes.record(n, slot, nil)
	needsOperation := n.heavy && n.Ready && !n.absent // an absent pod may be terminating, and the one that the slot names
	over := s.isOver(slot, n) || needsOperation && n.available
	switch {
	case over && s.fence.isRuledOut(slot, n):
		if n.isDeniedPastDeadline(slot, s.in) {
			s.uncountStart(slot)
		}
		if pod := namedPod(slot, n); pod != nil && pod.UID == slot.Pod {
			s.returned++
		}
		s.giveBack(slot, n)
		return true
	case !over && needsOperation && !s.awaitsReturn(slot, n) && s.operateOn(slot, n):
		s.keep(slot)
		return true
	}
	return false
}

// awaitsReturn reports whether a node that is out of service waits for its operation, because it may be back in a moment: its pods are only
// starting again. An operation beside the limit could find it in service, and take it out once more. It waits until its deadline at most.
func (s *slotReview) awaitsReturn(slot *Slot, n *Node) bool {
	if failure, _ := failureOf(s.in, slot, slot.Since, n); failure != nil || n.Disturbed {
		return false
	}
	left := n.urgentAt(n.group, n).Sub(s.in.Now)
	s.recheckIn(left)
	n.mayBeBack = !n.unready || left > 0
	return n.mayBeBack
}

// isOver reports whether a node no longer needs its slot, even if work is left on it.
func (s *slotReview) isOver(slot *Slot, n *Node) bool {
	retargeted := slot.Revision != s.in.Revision
	return n.isFinished() || (retargeted && n.isIdle(slot)) || n.yields() || n.isDeniedPastDeadline(slot, s.in) ||
		s.in.Settings.Strategy == daemonset.NoStrategy
}

// reviewOperation reviews the slot of a node whose operation does all the work under it.
func (s *slotReview) reviewOperation(slot Slot, n *Node) {
	s.fleet.nodes.record(n, &slot, nil)
	end := endOf(slot.Operation, n.Ended)
	if end == nil {
		s.reviewNotEnded(&slot, n)
		return
	}
	if s.progressed(end.Time); end.Done {
		s.reviewDone(&slot, n, end)
	} else {
		s.reviewNotDone(&slot, n, end)
	}
}

// reviewNotEnded reviews the slot of an operation that is at work, or still to be created.
func (s *slotReview) reviewNotEnded(slot *Slot, n *Node) {
	switch {
	case !s.isNotCreated(slot, n):
		s.retargetOperation(slot, n)
		s.keep(slot)
	case !s.fence.isRuledOut(slot, n):
		s.keep(slot) // a pod was named when the operation had ended, which is not known any more
	case n.yields():
		s.uncountStart(slot)
		s.fleet.nodes.record(n, nil, nil) // it cannot be created: another group's operation came first
	default:
		s.withoutOperation = append(s.withoutOperation, *slot)
		s.fleet.nodes.record(n, nil, nil)
	}
}

// retargetOperation brings the slot of a running operation to a new revision that changes nothing
// for it, unless the group aborts it; an abort that comes too late is not written, and the operation goes on. The targets of an
// operation are not known once another group has replaced it by its own.
func (s *slotReview) retargetOperation(slot *Slot, n *Node) {
	op := n.Operation
	if op == nil || op.ID != slot.Operation || op.Targets == nil || n.group.isStale(n) {
		return
	}
	if slot.Revision != "" || op.Committed && !op.Aborted {
		s.retarget(slot)
	}
}

// reviewNotDone reviews the slot of an operation that ended without success. Its node failed, unless the
// end does not prove anything about the revisions that it ran for, as when the group itself aborted it, or these are no longer the
// targets.
func (s *slotReview) reviewNotDone(slot *Slot, n *Node, end *End) {
	ran := end.Targets
	if len(ran) == 0 && slot.Revision == s.in.Revision {
		ran = n.group.targetsOf(slot.Members)
	}
	ordered := (s.in.Ending || slot.Revision == "") && end.Failure == ReasonOperationAborted
	counts := end.Failure != "" && len(ran) > 0 && n.group.haveTargets(ran) && !ordered
	if !counts && s.keepsSlot(slot, n, end) || !s.fence.isRuledOut(slot, n) {
		s.keep(slot)
		return
	}
	s.fleet.nodes.record(n, nil, nil)
	if !counts {
		s.uncountStart(slot)
	}
	s.noteOver(slot, n)
	if counts && s.in.Settings.Strategy != daemonset.NoStrategy {
		s.ledger.Failures = append(s.ledger.Failures, Failure{Node: n.Name, UID: n.UID, Machine: n.Machine, Reason: end.Failure, Message: end.Message,
			Since: s.in.Now, Requested: n.Requested, Targets: ran})
	}
}

// reviewDone reviews the slot of an operation that is done. Pods of components that are not part of the
// operation are replaced afterwards.
func (s *slotReview) reviewDone(slot *Slot, n *Node, end *End) {
	over := n.isFinished() || slot.Revision != s.in.Revision || n.needsAnotherOperation(slot, end) || s.in.Settings.Strategy == daemonset.NoStrategy
	switch {
	case !over || !s.fence.isRuledOut(slot, n):
	case s.in.Beforehand != nil && slot.Revision != s.in.Revision && !n.available && n.replaceable && s.in.Settings.Strategy != daemonset.NoStrategy:
		// It would get no other slot before the global tasks are done.
		s.noteOver(slot, n)
		slot.Operation, slot.Members = "", nil
		s.retarget(slot)
		slot.restart(s.in.Now, n.Pods)
		s.keep(slot)
		return
	default:
		s.giveBack(slot, n)
		return
	}
	s.restartAfter(slot, end)
	s.keepUntilDeadline(slot, s.since(slot, end), n)
}

// keepsSlot reports whether a node keeps its slot although its operation ended without a result for
// this revision: while the node is unavailable, the disruption it caused is not over. The node
// gets another operation at once, or its remaining pods follow within a deadline: for an offline
// node, the one for lost nodes.
func (s *slotReview) keepsSlot(slot *Slot, n *Node, end *End) bool {
	switch {
	case n.available || s.in.Ending || s.in.Settings.Strategy == daemonset.NoStrategy || n.yields() || n.Retry.After(s.in.Now):
		return false
	case n.Ready && n.heavy && s.operateOn(slot, n):
		return true
	}
	s.restartAfter(slot, end)
	left := timeLeft(s.in, slot, s.since(slot, end), n)
	s.recheckIn(left)
	return left > 0
}

// operateOn gives a node that is already out of service an operation under its existing slot,
// without preparation, when the pod that the slot names cannot be deleted any more. It reports whether it did so.
func (s *slotReview) operateOn(slot *Slot, n *Node) bool {
	if s.in.Ending || !n.replaceable || n.Retry.After(s.in.Now) || n.Operation.isOfAnotherGroup() && n.Operation.othersWaiting() == "" || !s.fence.isRuledOut(slot, n) {
		return false
	}
	s.noteOver(slot, n)
	slot.Operation = s.newOperation(n)
	slot.Members = n.membersOf(slot.Operation)
	slot.Pod, slot.PodVersion = "", ""
	s.retarget(slot)
	slot.restart(s.in.Now, n.Pods)
	return true
}

// restartAfter restarts the deadline of a slot when the end of its operation is first observed: if the end lies in the
// future by this clock, when that is first noticed.
func (s *slotReview) restartAfter(slot *Slot, end *End) {
	isNew := slot.Progress.Before(end.Time)
	if daemonset.IsAhead(end.Time, s.in.Now) {
		isNew = idleTime(s.in) != 0
	}
	if isNew {
		slot.Progress = s.in.Now
	}
}

// since returns when the deadlines of a slot began, given the end of its operation.
func (s *slotReview) since(slot *Slot, end *End) time.Time {
	if daemonset.IsAhead(end.Time, s.in.Now) {
		return later(slot.Since, slot.Progress)
	}
	return later(slot.Since, end.Time)
}
