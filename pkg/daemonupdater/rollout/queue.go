package rollout

import (
	"cmp"
	"slices"

	"github.com/topsops/gcu-operator/pkg/daemonset"
)

// A start costs a write of the ledger, which comes before it. So that this is not
// one write per node, a decision that starts nodes also queues some: their slots
// are stored, with the pod each may delete, and they are started later, without a
// write, as soon as there is room. Slots have turns. A healthy node is made
// unavailable only while fewer slots than the limit have earlier turns; so two
// managers that act on one ledger, or on an old one, stay within the limit
// together: each counts at least the nodes that the other may have started.

// queue starts queued nodes in their turn, and queues others.
type queue struct {
	*starts
	gate *gate
}

// serveQueued takes slots back from queued nodes that may not be started any more,
// and starts others in their turn while there is room.
func (q queue) serveQueued() {
	slots := q.ledger.Slots
	slices.SortFunc(slots, func(a, b Slot) int { return cmp.Compare(a.Turn, b.Turn) })
	if n := len(slots); n > 0 {
		q.lastTurn = slots[n-1].Turn
	}
	kept := slots[:0]
	for _, slot := range slots {
		n := q.fleet.nodes.lookup(slot.Node, slot.UID)
		if !slot.Queued && n != nil && len(kept) >= q.budgets.limit {
			q.requeue(&slot, n)
		}
		if slot.Queued && !q.serveSlot(&slot, n, len(kept)) {
			continue
		}
		kept = append(kept, slot)
	}
	q.ledger.Slots = kept
}

// serveSlot starts a queued node, behind so many others, when it may be. It
// reports whether the node keeps its slot.
func (q queue) serveSlot(slot *Slot, n *fleetNode, behind int) (keeps bool) {
	if !q.mayStay(n) {
		if q.fence.isRuledOut(slot, n) {
			n.queued = false
			return false
		}
		return true
	}
	if reason, _ := q.budgets.refuse(n.lane); reason == "" && (n.lane.urgency != healthy || behind < q.budgets.limit) {
		slot.Queued = false
		q.start(n, slot)
	}
	return true
}

// requeue puts a started node back that is available and has to wait: the limit
// was lowered, or somebody else had replaced a pod on it while it was queued.
func (q queue) requeue(slot *Slot, n *fleetNode) {
	pod := n.nextPod()
	if pod == nil || slot.Operation != "" || !n.available || !q.fence.isRuledOut(slot, n) {
		return
	}
	setPod(slot, n, pod)
	slot.Queued = true
	q.budgets.use(n.Pool, -1, -1)
	q.fleet.nodes.record(n, nil, n.failure)
	q.fleet.nodes.recordQueued(n)
}

// mayStay reports whether a queued node may be started as far as everything but
// room is concerned.
func (q queue) mayStay(n *fleetNode) bool {
	if q.gate.isClosed() || n.lane == nil || n.heavy || n.failure != nil {
		return false
	}
	reason, _ := q.gate.hold(n.lane)
	return reason == ""
}

// maxQueued bounds the queue.
const maxQueued = 100

// room is how many more nodes may be queued. Under OTA there is a person for each,
// and with pools a queued node would stand in the way of those of other pools.
func (q queue) room() int {
	if q.in.Settings.Strategy == daemonset.OTA || q.in.Policy.PoolMaxUnavailable != nil {
		return 0
	}
	room := min(q.budgets.limit, maxQueued)
	for i := range q.ledger.Slots {
		if q.ledger.Slots[i].Queued {
			room--
		}
	}
	return room
}

// fill queues healthy nodes behind those that were started.
func (q queue) fill(open []*cursor) {
	room := q.room()
	open = slices.DeleteFunc(open, func(c *cursor) bool { return c.heavy })
	for room > 0 && len(open) > 0 {
		open = slices.DeleteFunc(open, func(c *cursor) bool {
			if c.last = c.after(c.last); c.last == nil || room == 0 {
				return true
			}
			room--
			slot := q.newSlot(c.last)
			slot.Queued = true
			setPod(&slot, c.last, c.last.nextPod())
			q.fleet.nodes.recordQueued(c.last)
			q.ledger.Slots = append(q.ledger.Slots, slot)
			return false
		})
	}
}
