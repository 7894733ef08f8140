package rollout

import (
	"cmp"
	"fmt"
	"slices"
)

// startNodes gives slots to candidates while policy and budgets allow: class by
// class, and within a class from each lane in turn.
func (p *planner) startNodes() {
	if p.in.Settings.Paused || p.halted != "" {
		return
	}
	var queues []*queue
	p.fleet.lanes.Ascend(func(l *lane) bool {
		if len(queues) > 0 && queues[0].lane.class != l.class {
			p.serve(queues)
			queues = queues[:0]
		}
		if reason, why := p.held(l); reason != "" {
			p.refused[l] = refusal{reason, why}
		} else {
			queues = append(queues, &queue{lane: l})
		}
		return true
	})
	p.serve(queues)
	slices.SortFunc(p.slots, func(a, b Slot) int { return cmp.Compare(a.Node, b.Node) })
}

// queue is a lane that is being served, up to its last node that was started.
type queue struct {
	lane *lane
	last *nodeFacts
}

// serve starts nodes from queues of one class in turn until each is empty or a
// budget is used up.
func (p *planner) serve(queues []*queue) {
	for len(queues) > 0 {
		queues = slices.DeleteFunc(queues, func(q *queue) bool {
			if reason, why := p.unaffordable(q.lane); reason != "" {
				p.refused[q.lane] = refusal{reason, why}
				return true
			}
			if q.last = q.lane.after(q.last); q.last == nil {
				return true
			}
			p.start(q.last)
			return false
		})
	}
}

// refusal is why no more candidates of a lane are started.
type refusal struct {
	reason Reason
	why    string
}

// start gives a node its slot.
func (p *planner) start(node *nodeFacts) {
	if !node.inFlight() {
		p.use(node.Pool, 1, 0)
	}
	if !node.uses() {
		p.use(node.Pool, 0, 1)
	}
	slot := Slot{Node: node.Name, UID: node.UID, Since: p.in.Now, Revision: p.in.Revision}
	if node.failure != nil {
		p.failures = without(p.failures, node.Name)
	}
	p.fleet.mark(node, &slot, nil)
	p.slots = append(p.slots, slot)
	p.touched++
	p.started = append(p.started, node.Name)
}

// poolUse is how much of a pool's own limit is used.
type poolUse struct {
	limit, inFlight, used int
}

// use counts nodes that get into flight and nodes that get to use the limit.
func (p *planner) use(pool string, inFlight, used int) {
	p.inFlight += inFlight
	p.used += used
	if u := p.pools[pool]; u != nil {
		u.inFlight += inFlight
		u.used += used
	}
}

// countUse counts the nodes in flight and the nodes that use up the limits.
func (p *planner) countUse() {
	p.inFlight, p.used = p.fleet.all.inFlight, p.fleet.all.uses
	if most := p.in.Policy.PoolMaxUnavailable; most != nil {
		p.pools = make(map[string]*poolUse, len(p.fleet.pools))
		for name, t := range p.fleet.pools {
			p.pools[name] = &poolUse{limit: scaled(most, t.nodes), inFlight: t.inFlight, used: t.uses}
		}
	}
	for i := range p.slots {
		node := p.lookup(p.slots[i].Node, p.slots[i].UID)
		switch {
		case node == nil: // gone, and so is its pool
			p.inFlight++
			p.used++
			continue
		case !node.movingNow():
			p.use(node.Pool, 1, 0)
		}
		if !node.unavailableNow() {
			p.use(node.Pool, 0, 1)
		}
	}
}

// unaffordable says which budget keeps the candidates of a lane from being
// started; "" when none does. A healthy node must leave the budgets of
// unavailable nodes intact; a node that is unavailable already only those of
// nodes in flight, where it may be counted itself.
func (p *planner) unaffordable(l *lane) (Reason, string) {
	pool := cmp.Or(p.pools[l.pool], &poolUse{})
	all, inPool := p.used, pool.used
	if l.need != healthy {
		all, inPool = p.inFlight, pool.inFlight
	}
	if l.need == underway {
		all, inPool = all-1, inPool-1
	}
	if all >= p.limit {
		return ReasonBudgetExhausted, fmt.Sprintf("%d of at most %d nodes are unavailable", p.used, p.limit)
	}
	if p.in.Policy.PoolMaxUnavailable != nil && inPool >= pool.limit {
		return ReasonPoolExhausted, fmt.Sprintf("%d of at most %d nodes of pool %q are unavailable", pool.used, pool.limit, l.pool)
	}
	return "", ""
}
