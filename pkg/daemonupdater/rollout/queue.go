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

// maxQueued bounds the queue.
const maxQueued = 100

// lookahead is how many nodes are queued. Under OTA there is a person for each,
// and with pools a queued node would stand in the way of those of other pools.
func (p *planner) lookahead() int {
	if p.in.Settings.Strategy == daemonset.OTA || p.in.Policy.PoolMaxUnavailable != nil {
		return 0
	}
	return min(p.limit, maxQueued)
}

// staysQueued reports whether a slot is that of a queued node, and nothing else is to
// be done about it yet. When the pod it names is seen no more, somebody started the
// node; one that is older than the slot says nothing about that. A node that is
// gone is queued no more.
func (p *planner) staysQueued(slot *Slot, node *nodeFacts) bool {
	if !slot.Queued {
		return false
	}
	if node == nil {
		p.unseen = append(p.unseen, *slot)
		return true
	}
	pod := p.named(slot, node)
	if pod != nil && (older(pod.Version, slot.PodVersion) || pod.UID == slot.Pod && !pod.Terminating) {
		slot.Revision = p.in.Revision
		p.fleet.queue(node)
		p.slots = append(p.slots, *slot)
		return true
	}
	slot.Queued, slot.Since = false, p.in.Now
	p.touched++
	return false
}

// serveQueue takes slots back from queued nodes that may not be started any more,
// and starts others in their turn while there is room.
func (p *planner) serveQueue() {
	slices.SortFunc(p.slots, func(a, b Slot) int { return cmp.Compare(a.Turn, b.Turn) })
	if n := len(p.slots); n > 0 {
		p.lastTurn = p.slots[n-1].Turn
	}
	kept := p.slots[:0]
	for _, slot := range p.slots {
		node := p.lookup(slot.Node, slot.UID)
		if !slot.Queued && node != nil && len(kept) >= p.limit {
			p.requeue(&slot, node)
		}
		if slot.Queued && !p.serveQueued(&slot, node, len(kept)) {
			continue
		}
		kept = append(kept, slot)
	}
	p.slots = kept
}

// serveQueued starts a queued node, behind so many others, when it may be. It
// reports whether the node keeps its slot.
func (p *planner) serveQueued(slot *Slot, node *nodeFacts, behind int) (keeps bool) {
	if !p.mayStay(node) {
		if p.spent(*slot, node) {
			node.queued = false
			return false
		}
		return true
	}
	if reason, _ := p.unaffordable(node.lane); reason == "" && (node.lane.need != healthy || behind < p.limit) {
		slot.Queued = false
		p.begin(node, slot)
	}
	return true
}

// requeue puts a started node back that is available and has to wait: the limit
// was lowered, or somebody else had replaced a pod on it while it was queued.
func (p *planner) requeue(slot *Slot, node *nodeFacts) {
	pod := node.next()
	if pod == nil || slot.Operation != "" || !node.available() || !p.spent(*slot, node) {
		return
	}
	slot.name(pod, p.in.Members[pod.Member].Key)
	slot.Queued = true
	p.use(node.Pool, -1, -1)
	p.fleet.mark(node, nil, node.failure)
	p.fleet.queue(node)
}

// mayStay reports whether a queued node may be started as far as everything but
// room is concerned.
func (p *planner) mayStay(node *nodeFacts) bool {
	if p.in.Settings.Paused || p.halted != "" || node.lane == nil || node.heavy || node.failure != nil {
		return false
	}
	reason, _ := p.held(node.lane)
	return reason == ""
}

// fillQueue queues healthy nodes behind those that were started.
func (p *planner) fillQueue(queues []*queue) {
	room := p.lookahead()
	for i := range p.slots {
		if p.slots[i].Queued {
			room--
		}
	}
	queues = slices.DeleteFunc(queues, func(q *queue) bool { return q.lane.heavy })
	for room > 0 && len(queues) > 0 {
		queues = slices.DeleteFunc(queues, func(q *queue) bool {
			if q.last = q.lane.after(q.last); q.last == nil || room == 0 {
				return true
			}
			room--
			slot := p.grant(q.last)
			slot.Queued = true
			pod := q.last.next()
			slot.name(pod, p.in.Members[pod.Member].Key)
			p.fleet.queue(q.last)
			p.slots = append(p.slots, slot)
			return false
		})
	}
}
