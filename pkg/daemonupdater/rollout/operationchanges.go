package rollout

import (
	"cmp"
	"math"
	"slices"

	"github.com/topsops/gcu-operator/pkg/daemonset"
)

// A node with an outdated heavy member is upgraded by an operation (design section 4), which replaces
// all outdated pods on the node; the manager does not delete them. An operation is first prepared,
// without a slot, and then granted, under a slot that names it. The slot is given back only when the
// operation has ended. An ended operation is never executed, so a late grant by an interrupted manager
// has no effect.

// changeOperations returns the operation changes of a decision, by node. When the group ends, its operations do too: nothing
// releases their nodes once its GcuResource is gone.
func changeOperations(d *draft, prepared []OperationChange, rules *startRules, limit int) []OperationChange {
	if d.in.Ending {
		return abortsOfAll(d.fleet)
	}
	changes := slices.Concat(prepared, operationChangesOfSlots(d, limit), abortsWithoutSlot(d.fleet, rules))
	slices.SortFunc(changes, func(a, b OperationChange) int { return cmp.Compare(a.Node, b.Node) })
	return changes
}

// abortsOfAll returns the aborts of all operations of the group, also of those that failed and keep their nodes cordoned.
func abortsOfAll(f *Fleet) (changes []OperationChange) {
	abort := func(n *Node) {
		if op := n.Operation; op != nil && op.Ours && !op.Aborted {
			changes = append(changes, OperationChange{Node: n.Name, UID: n.UID, Operation: op.ID, Abort: true})
		}
	}
	for _, n := range f.nodes.byName {
		abort(n)
	}
	for _, n := range f.outside {
		abort(&n)
	}
	slices.SortFunc(changes, func(a, b OperationChange) int { return cmp.Compare(a.Node, b.Node) })
	return changes
}

// operationChangesOfSlots returns the grants and aborts of operations under slots, and which are made to be aborted.
func operationChangesOfSlots(d *draft, limit int) (changes []OperationChange) {
	turns := d.ledger.turns()
	delayed := firstDelayed(d, turns, limit)
	for i := range d.ledger.Slots {
		slot := &d.ledger.Slots[i]
		n := d.fleet.nodes.lookup(slot.Node, slot.UID)
		if n == nil || !isOperated(d, slot, n) {
			continue
		}
		change := OperationChange{Node: n.Name, UID: n.UID, Operation: slot.Operation, Grant: true}
		op := slot.operationOn(n)
		if op == nil {
			change.Instead = n.Operation.othersWaiting()
		}
		change.Abort = isUnwanted(d, n, op)
		early := turns.before(slot) >= limit && !change.Abort
		if early && n.available && (delayed >= slot.Turn || !change.makeWay(op)) {
			continue
		}
		change.AtWork = change.Abort && d.in.Settings.Strategy != daemonset.NoStrategy
		if change.isDone(op) {
			continue
		}
		if change.Abort {
			d.noteAborted(slot)
		} else if early && change.Grant {
			d.hurry(n)
		}
		changes = append(changes, change)
	}
	return changes
}

// makeWay turns a grant for which it is early into what ends its operation, for which a node that was started before waits: one that awaits
// the grant is aborted, and one that is not there is made without, so that it can be. False if there is nothing to do.
func (c *OperationChange) makeWay(op *Operation) bool {
	c.Grant, c.Abort = false, op.awaitsGrant()
	return c.Abort || op == nil
}

// isOperated reports whether an operation does the work under a slot, or is to be created for it.
func isOperated(d *draft, slot *Slot, n *Node) bool {
	return slot.isOperating(n) && !d.isNotCreated(slot, n)
}

// isUnwanted reports whether an operation of a node, nil if there is none, is to be aborted: the group has no strategy, or another
// target. One that is committed ends by itself.
func isUnwanted(d *draft, n *Node, op *Operation) bool {
	return d.in.Settings.Strategy == daemonset.NoStrategy || op != nil && !op.Committed && n.group.isStale(n)
}

// firstDelayed returns the first turn of a slot whose node has a pod to replace, or is queued, and is delayed by nodes that were started
// later; the last possible turn if there is none. After the limit was lowered, the operations of those nodes may never be granted,
// because they wait for that slot. They are aborted; one that is not there is made first, because only one that is there can end.
func firstDelayed(d *draft, turns turns, limit int) int64 {
	first := int64(math.MaxInt64)
	for i := range d.ledger.Slots {
		slot := &d.ledger.Slots[i]
		if slot.Turn >= first || turns.before(slot) >= limit || turns.beside(slot) < limit {
			continue
		}
		n := d.fleet.nodes.lookup(slot.Node, slot.UID)
		waits := mayReplacePods(n, slot) || slot.Queued && n != nil && n.Ready
		if waits && n.mayBeAvailable() && n.nextPod() != nil {
			first = slot.Turn
		}
	}
	return first
}

// operatesOutside reports whether the operation of a slot is still on its node, which left the group.
func (f *Fleet) operatesOutside(slot *Slot) bool {
	n, ok := f.outside[slot.Node]
	return ok && n.isOf(slot.UID) && slot.Operation != "" && n.Operation.ID == slot.Operation
}

// abortsWithoutSlot returns the aborts of operations without a slot that their nodes no longer need, or that
// are in the way of other groups while this one starts nothing.
func abortsWithoutSlot(f *Fleet, rules *startRules) (changes []OperationChange) {
	for _, n := range f.preparing {
		if n.slot == nil && !n.Operation.Aborted && (rules.forbids(&lane{goingBack: n.goingBack}) || n.needsNoOperation() && !awaitsIdleNode(n)) {
			changes = append(changes, OperationChange{Node: n.Name, UID: n.UID, Operation: n.Operation.ID, Abort: true})
		}
	}
	for _, n := range f.outside {
		if !n.Operation.Aborted {
			changes = append(changes, OperationChange{Node: n.Name, UID: n.UID, Operation: n.Operation.ID, Abort: true})
		}
	}
	return changes
}

// awaitsIdleNode reports whether a node awaits a request, and keeps the operation that checks whether it is still
// in use.
func awaitsIdleNode(n *Node) bool {
	return n.phase == phaseAwaitingRequest && n.Operation != nil && n.Operation.InUse && n.group.mayBeIdle(n)
}
