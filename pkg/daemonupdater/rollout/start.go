package rollout

import (
	"fmt"
	"sort"
)

// startNodes gives slots to candidates while policy and budgets allow.
func (p *planner) startNodes() {
	if p.in.Settings.Paused || p.halted != "" {
		return
	}
	for _, node := range p.candidates() {
		if node.whyNot, node.whyNotSaid = p.held(node); node.whyNot != "" {
			continue
		}
		if node.whyNot, node.whyNotSaid = p.unaffordable(node); node.whyNot != "" {
			continue
		}
		p.start(node)
	}
	sort.Slice(p.slots, func(i, j int) bool { return p.slots[i].Node < p.slots[j].Node })
}

// start gives a node its slot.
func (p *planner) start(node *nodeFacts) {
	pool := p.pools[node.Pool]
	if !node.inFlight() {
		p.inFlight++
		pool.inFlight++
	}
	if !node.uses() {
		p.used++
		pool.used++
	}
	slot := Slot{Node: node.Name, UID: node.UID, Since: p.in.Now, Revision: p.in.Revision}
	node.slot, node.failure = &slot, nil
	p.failures = without(p.failures, node.Name)
	p.slots = append(p.slots, slot)
	p.touched++
	p.started = append(p.started, node.Name)
}

// poolUse is how much of a pool's own limit is used.
type poolUse struct {
	limit, inFlight, used, nodes int
}

// countUse counts the nodes in flight and the nodes that use up the limits.
func (p *planner) countUse() {
	for i := range p.slots {
		if p.lookup(p.slots[i].Node, p.slots[i].UID) == nil {
			p.inFlight++
			p.used++
		}
	}
	p.pools = map[string]*poolUse{}
	for i := range p.nodes {
		node := &p.nodes[i]
		pool := p.pools[node.Pool]
		if pool == nil {
			pool = &poolUse{}
			p.pools[node.Pool] = pool
		}
		pool.nodes++
		if node.inFlight() {
			p.inFlight++
			pool.inFlight++
		}
		if node.uses() {
			p.used++
			pool.used++
		}
	}
	for _, pool := range p.pools {
		pool.limit = pool.nodes
		if most := p.in.Policy.PoolMaxUnavailable; most != nil {
			pool.limit = scaled(most, pool.nodes)
		}
	}
}

// unaffordable says which budget keeps a candidate from being started; "" when
// none does. A healthy node must leave the budgets of unavailable nodes intact;
// a node that is unavailable already only those of nodes in flight, where it
// may be counted itself.
func (p *planner) unaffordable(node *nodeFacts) (Reason, string) {
	pool := p.pools[node.Pool]
	all, inPool := p.used, pool.used
	if !node.available() {
		all, inPool = p.inFlight, pool.inFlight
		if node.inFlight() {
			all, inPool = all-1, inPool-1
		}
	}
	if all >= p.limit {
		return ReasonBudgetExhausted, fmt.Sprintf("%d of at most %d nodes are unavailable", p.used, p.limit)
	}
	if p.in.Policy.PoolMaxUnavailable != nil && inPool >= pool.limit {
		return ReasonPoolExhausted, fmt.Sprintf("%d of at most %d nodes of pool %q are unavailable", pool.used, pool.limit, node.Pool)
	}
	return "", ""
}
