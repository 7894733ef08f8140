package rollout

import (
	"cmp"
	"slices"

	"github.com/topsops/gcu-operator/pkg/daemonset"
)

// Before a node starts, the ledger is written. To avoid one write per node, a decision that starts
// nodes also queues some: their slots are stored, with the pod that each may delete, and they start
// later, without another write, as soon as the budget allows. Slots have turns. A healthy node is
// made unavailable only while fewer slots than the limit have earlier turns. So two managers that
// act on the same ledger, or on an old one, together stay within the limit: each counts at least
// the nodes that the other may have started.

// queue starts queued nodes in their turn, and queues more.
type queue struct {
	*starts
	rules *startRules
}

// serveQueued drops the slots of queued nodes that may no longer start, and starts other queued nodes
// in their turn while the budget allows.
func (q queue) serveQueued() {
	slots := q.ledger.Slots
	slices.SortFunc(slots, func(a, b Slot) int { return cmp.Compare(a.Turn, b.Turn) })
	q.lastTurn = q.ledger.lastTurn()
	kept := slots[:0]
	for _, slot := range slots {
		n := q.fleet.nodes.lookup(slot.Node, slot.UID)
		if !slot.Queued && n != nil && len(kept) >= q.budgets.limit {
			q.requeue(&slot, n)
		}
		if slot.Queued && !q.serveSlot(&slot, n, len(kept)+q.returned) {
			continue
		}
		kept = append(kept, slot)
	}
	q.ledger.Slots = kept
}

// serveSlot starts a queued node if it may start. One whose pool is full gives its slot back. behind is the number of slots that have earlier turns,
// or may have them in the stored ledger. It reports whether the node keeps its slot.
func (q queue) serveSlot(slot *Slot, n *Node, behind int) (keeps bool) {
	if !q.rules.forbidsUpgrades() && n != nil && (n.phase == phaseJustOffline || n.phase == phaseRecovering) {
		return true // it may only flap
	}
	full, stays := Reason(""), q.mayStay(n)
	if stays {
		full, _ = q.budgets.whyFull(n.lane)
	}
	if !stays || full == ReasonPoolExhausted { // it would block other pools
		if q.fence.isRuledOut(slot, n) {
			n.queued = false
			return false
		}
		return true
	}
	if full == "" && (n.lane.urgency != healthy || behind < q.budgets.limit) {
		slot.Queued = false
		q.start(n, slot)
	}
	return true
}

// requeue queues a started node again if it is available and has to wait. That happens if the limit was
// lowered, if someone else replaced a pod on the node while it was queued, or if an operation ended there
// that did not include all outdated members.
func (q queue) requeue(slot *Slot, n *Node) {
	pod := n.nextPod()
	if pod == nil || slot.isOperating(n) || !n.available || !q.fence.isRuledOut(slot, n) {
		return
	}
	q.noteOver(slot, n)
	slot.Operation, slot.Members = "", nil
	setPod(slot, n, pod, q.in.Now)
	q.uncountStart(slot)
	q.budgets.probation.use(n, -1)
	slot.Queued = true
	q.budgets.use(n.Pool, -1, -1)
	q.fleet.nodes.record(n, nil, n.failure)
	q.fleet.nodes.recordQueued(n)
}

// mayStay reports whether nothing but the budget keeps a queued node from starting.
func (q queue) mayStay(n *Node) bool {
	if n.lane == nil || q.rules.forbids(n.lane) || n.heavy || n.lane.unprepared || n.failure != nil {
		return false
	}
	reason, _ := q.rules.whyHeld(n.lane)
	return reason == ""
}

// room returns how many more nodes may be queued. Under OTA none are queued, because each node starts for
// its own request; with pool limits, a queued node would block those of other pools.
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

// fill queues healthy nodes after those that were started.
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
			setPod(&slot, c.last, c.last.nextPod(), q.in.Now)
			q.fleet.nodes.recordQueued(c.last)
			q.ledger.Slots = append(q.ledger.Slots, slot)
			return false
		})
	}
}
