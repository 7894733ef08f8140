package rollout

import "github.com/topsops/gcu-operator/pkg/daemonset"

// A node on which a heavy member is outdated is not brought to its target by
// deleted pods but by an operation (design section 4), which replaces all that is
// outdated on the node. An operation is prepared first, and takes no slot for that;
// then it is granted, under a slot that names it. The slot is given back only when
// the operation has ended: an operation that has ended is never carried out, so who
// grants it late, because it was interrupted, grants nothing.

// preparation has operations made for the nodes that come next, so many that there is always
// one that is ready when a slot is free.
type preparation struct {
	*roundRobin
	// ahead are the nodes that are prepared, or will be, and pulling how many pull images.
	ahead   []*fleetNode
	pulling int
}

// maxPulling bounds the nodes that pull images at the same time.
const maxPulling = 20

// prepare has operations made for the candidates that are not prepared.
func prepare(r *roundRobin) (orders []Order) {
	p := preparation{roundRobin: r}
	p.countAhead()
	for _, c := range r.unprepared {
		room := r.budgets.limit
		for _, n := range p.ahead {
			if p.goesBefore(n, c.lane) {
				room--
			}
		}
		c.nodes.Ascend(func(n *fleetNode) bool {
			if room <= 0 || p.pulling >= maxPulling {
				return false
			}
			if n.isStartable() && (n.Job == nil || n.Job.awaitsGrant() && n.group.isStale(n.Job)) {
				orders = append(orders, Order{Node: n.Name, UID: n.UID, Operation: p.newOperation(n)})
				p.ahead = append(p.ahead, n)
				room--
				p.pulling++
			}
			return true
		})
	}
	return orders
}

func (p *preparation) countAhead() {
	for _, n := range p.fleet.preparing {
		if n.group.isStale(n.Job) {
			continue
		}
		if !n.Job.Stalled {
			p.ahead = append(p.ahead, n)
		}
		if !n.Job.Prepared {
			p.pulling++
		}
	}
}

// goesBefore reports whether a node that is prepared, or will be, is there for the next
// slot that those of a lane could have. One that cannot be started when they can does
// not keep them from being prepared: then nobody would be ready.
func (p *preparation) goesBefore(n *fleetNode, l *lane) bool {
	if n.lane == nil || !n.isStartable() || n.lane.urgency == healthy && l.urgency != healthy {
		return false
	}
	if reason, _ := p.gate.hold(n.lane); reason != "" {
		return false
	}
	return n.Pool == l.pool || p.refused[n.lane].reason != ReasonPoolExhausted
}

// ordersUnderSlots says what the operations of nodes with a slot are to be told.
func ordersUnderSlots(d *draft, limit int) (orders []Order) {
	turns := d.ledger.turns()
	for i := range d.ledger.Slots {
		slot := &d.ledger.Slots[i]
		n := d.fleet.nodes.lookup(slot.Node, slot.UID)
		if slot.Operation == "" || n == nil || endOf(slot.Operation, n.Ended) != nil {
			continue
		}
		order := Order{Node: n.Name, UID: n.UID, Operation: slot.Operation, Grant: true}
		job := n.Job
		if job != nil && job.ID != slot.Operation {
			job = nil
		}
		order.Abort = d.in.Settings.Strategy == daemonset.NoStrategy || job != nil && n.group.isStale(job)
		if n.available && turns.before(slot) >= limit && !order.Abort {
			continue
		}
		if job == nil || !job.Granted || order.Abort {
			orders = append(orders, order)
		}
	}
	return orders
}

// withdrawals end operations that nobody grants: nothing is to be replaced on their
// nodes any more.
func withdrawals(f *Fleet) (orders []Order) {
	for _, n := range f.preparing {
		if n.slot == nil && n.needsNoOperation() {
			orders = append(orders, Order{Node: n.Name, UID: n.UID, Operation: n.Job.ID, Abort: true})
		}
	}
	return orders
}
