package rollout

import (
	"math"

	"github.com/topsops/gcu-operator/pkg/daemonset"
)

// A node with an outdated heavy member is upgraded by an operation (design section 4), which
// replaces everything outdated on the node, instead of by deleting pods. An operation is prepared
// first, without a slot; then it is granted, under a slot that names it. The slot is given back
// only when the operation has ended. An ended operation is never executed, so a late grant by an
// interrupted manager has no effect.

// operationChangesOfSlots returns the grants and aborts for operations under slots.
func operationChangesOfSlots(d *draft, limit int) (changes []OperationChange) {
	turns := d.ledger.turns()
	delayed := firstDelayed(d, turns, limit)
	for i := range d.ledger.Slots {
		slot := &d.ledger.Slots[i]
		n := d.fleet.nodes.lookup(slot.Node, slot.UID)
		if slot.Operation == "" || n == nil || endOf(slot.Operation, n.Ended) != nil {
			continue
		}
		change := OperationChange{Node: n.Name, UID: n.UID, Operation: slot.Operation, Grant: true}
		job := n.Job
		if job != nil && job.ID != slot.Operation {
			change.Instead, job = job.othersWaiting(), nil
		}
		change.Abort = isUnwanted(d, n, job)
		if n.available && turns.before(slot) >= limit && !change.Abort {
			if change.Abort = delayed < slot.Turn && job.awaitsGrant(); !change.Abort {
				continue
			}
		}
		if job == nil || !job.Granted || change.Abort {
			changes = append(changes, change)
		}
	}
	return changes
}

// isUnwanted reports whether an operation of a node, nil if there is none, is obsolete: the group has no strategy, or another target.
func isUnwanted(d *draft, n *fleetNode, job *Job) bool {
	return d.in.Settings.Strategy == daemonset.NoStrategy || job != nil && n.group.isStale(&n.Node)
}

// firstDelayed returns the first turn of a slot whose node has a pod to replace that waits for nodes that were started later, or
// the last possible turn. If the limit was lowered meanwhile, their operations may never be granted: they wait for that slot.
func firstDelayed(d *draft, turns turns, limit int) int64 {
	first := int64(math.MaxInt64)
	for i := range d.ledger.Slots {
		slot := &d.ledger.Slots[i]
		if slot.Turn >= first || turns.before(slot) >= limit || turns.beside(slot) < limit {
			continue
		}
		if n := d.fleet.nodes.lookup(slot.Node, slot.UID); mayReplacePods(n, slot) && n.mayBeAvailable() && n.nextPod() != nil {
			first = slot.Turn
		}
	}
	return first
}

// operatesOutside reports whether the operation of a slot is still on a node that left the group.
func (f *Fleet) operatesOutside(slot *Slot) bool {
	n, ok := f.outside[slot.Node]
	return ok && n.isOf(slot.UID) && slot.Operation != "" && n.Job.ID == slot.Operation
}

// abortsWithoutSlot aborts operations that have no slot, and are no longer needed on their nodes or in
// the way of other groups while this one starts nothing.
func abortsWithoutSlot(f *Fleet, g *gate) (changes []OperationChange) {
	for _, n := range f.preparing {
		if n.slot == nil && (g.isClosedTo(&lane{pinned: n.pinned}) || n.needsNoOperation() && !awaitsIdleNode(n)) {
			changes = append(changes, OperationChange{Node: n.Name, UID: n.UID, Operation: n.Job.ID, Abort: true})
		}
	}
	for _, n := range f.outside {
		changes = append(changes, OperationChange{Node: n.Name, UID: n.UID, Operation: n.Job.ID, Abort: true})
	}
	return changes
}

// awaitsIdleNode reports whether a node awaits a request, and the operation that looks whether it is still in
// use is kept.
func awaitsIdleNode(n *fleetNode) bool {
	return n.phase == phaseAwaitingRequest && n.Job != nil && n.Job.InUse && n.group.mayBeIdle(&n.Node)
}
