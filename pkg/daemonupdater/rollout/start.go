package rollout

import (
	"cmp"
	"fmt"
	"slices"
)

// startNodes starts queued nodes, then gives slots to candidates while policy and
// budgets allow: class by class, and within a class from each lane in turn.
func (p *planner) startNodes() {
	p.serveQueue()
	if !p.in.Settings.Paused && p.halted == "" {
		p.serveLanes()
	}
	slices.SortFunc(p.slots, func(a, b Slot) int { return cmp.Compare(a.Node, b.Node) })
}

// queue is a lane that is being served, up to its last node that was taken.
type queue struct {
	lane *lane
	last *nodeFacts
}

func (p *planner) serveLanes() {
	var queues []*queue
	var unprepared []*lane
	finish := func() {
		if started := len(p.started); p.serve(queues) && len(p.started) > started {
			p.fillQueue(queues)
		}
		queues = nil
	}
	p.fleet.lanes.Ascend(func(l *lane) bool {
		if len(queues) > 0 && queues[0].lane.class != l.class {
			finish()
		}
		if reason, why := p.held(l); reason != "" {
			p.refused[l] = refusal{reason, why}
		} else if l.unprepared {
			p.refused[l] = refusal{ReasonPreparing, "is checked, and its images are pulled, when it is among the next nodes"}
			unprepared = append(unprepared, l)
		} else {
			queues = append(queues, &queue{lane: l})
		}
		return true
	})
	finish()
	p.prepare(unprepared)
}

// serve starts nodes from queues of one class in turn until each is empty or a
// budget is used up. It reports whether they are healthy ones.
func (p *planner) serve(queues []*queue) (healthyOnes bool) {
	open := slices.Clone(queues)
	for len(open) > 0 {
		open = slices.DeleteFunc(open, func(q *queue) bool {
			if reason, why := p.unaffordable(q.lane); reason != "" {
				p.refused[q.lane] = refusal{reason, why}
				return true
			}
			next := q.lane.after(q.last)
			if next == nil {
				return true
			}
			if q.lane.need == healthy && len(p.slots) >= p.limit {
				p.refused[q.lane] = refusal{ReasonBudgetExhausted, "waits until others, which come first, are started"}
				return true
			}
			q.last = next
			slot := p.grant(next)
			p.begin(next, &slot)
			p.slots = append(p.slots, slot)
			return false
		})
	}
	return len(queues) > 0 && queues[0].lane.need == healthy
}

// refusal is why no more candidates of a lane are started.
type refusal struct {
	reason Reason
	why    string
}

// grant makes the slot of a node, which is behind all others.
func (p *planner) grant(node *nodeFacts) Slot {
	p.lastTurn++
	return Slot{Node: node.Name, UID: node.UID, Since: p.in.Now, Revision: p.in.Revision, Turn: p.lastTurn}
}

// begin starts a node under a slot.
func (p *planner) begin(node *nodeFacts, slot *Slot) {
	if !node.inFlight() {
		p.use(node.Pool, 1, 0)
	}
	if !node.uses() {
		p.use(node.Pool, 0, 1)
	}
	if node.failure != nil {
		p.failures = without(p.failures, node.Name)
	}
	if slot.Operation = p.operationOf(node); slot.Operation != "" {
		slot.Members = node.toReplace()
	}
	slot.Since, p.lastStart = p.in.Now, p.in.Now
	p.fleet.mark(node, slot, nil)
	node.queued = false
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
		if p.slots[i].Queued {
			continue
		}
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
