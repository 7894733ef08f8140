package rollout

import (
	"cmp"
	"fmt"

	"github.com/topsops/gcu-operator/pkg/daemonset"
)

// budget limits how many nodes may be unavailable, and counts those that are in flight or unavailable.
type budget struct {
	// inFlight counts the nodes in flight, used those that count against the limit.
	limit, inFlight, used int
}

// budgets are the budget of all nodes and, if the policy limits pools, one budget per pool.
type budgets struct {
	budget
	pools     map[string]*budget
	probation probation
}

// budgetsOf counts the nodes in flight and the nodes that count against the limits.
func budgetsOf(d *draft) *budgets {
	all := &d.fleet.all
	b := &budgets{budget: budget{inFlight: all.inFlight, used: all.charged}}
	if d.in.Settings.Strategy != daemonset.NoStrategy {
		b.limit = min(d.in.Settings.MaxUnavailableOf(d.fleet.Len()), maxInFlight(d))
	}
	if limit := d.in.Policy.PoolMaxUnavailable; limit != nil {
		b.pools = make(map[string]*budget, len(d.fleet.pools))
		for name, c := range d.fleet.pools {
			b.pools[name] = &budget{limit: scaled(limit, c.nodes), inFlight: c.inFlight, used: c.charged}
		}
	}
	for i := range d.ledger.Slots {
		slot := &d.ledger.Slots[i]
		if slot.Queued {
			continue
		}
		n := d.fleet.nodes.lookup(slot.Node, slot.UID)
		switch {
		case n == nil: // the node is gone, and its pool is unknown
			b.inFlight++
			b.used++
			continue
		case !n.moving:
			b.use(n.Pool, 1, 0)
		}
		if !n.charged {
			b.use(n.Pool, 0, 1)
		}
	}
	b.probation = probationOf(d, b.limit)
	return b
}

// usedByFailed counts the failed nodes that count against the limit: those that are Ready and not available.
func usedByFailed(f *Fleet) (nodes int) {
	for _, n := range f.nodes.recorded {
		if n.failure != nil && n.charged {
			nodes++
		}
	}
	return nodes
}

// use adds to the number of nodes in flight and to the number of nodes that count against the limit.
func (b *budgets) use(pool string, inFlight, used int) {
	b.inFlight += inFlight
	b.used += used
	if p := b.pools[pool]; p != nil {
		p.inFlight += inFlight
		p.used += used
	}
}

// whyFull returns why a budget keeps the candidates of a lane from starting; "" if none does. A healthy
// node starts only while fewer nodes than the limit count as used. A node that is already unavailable
// starts only while fewer other nodes than the limit are in flight.
func (b *budgets) whyFull(l *lane) (Reason, string) {
	pool := cmp.Or(b.pools[l.pool], &budget{})
	all, inPool := b.used, pool.used
	if l.urgency != healthy {
		all, inPool = b.inFlight, pool.inFlight
	}
	if l.urgency == inFlightAlready {
		all, inPool = all-1, inPool-1
	}
	if all >= b.limit {
		return ReasonBudgetExhausted, fmt.Sprintf("%d of at most %d nodes are unavailable", b.used, b.limit)
	}
	if b.pools != nil && inPool >= pool.limit {
		return ReasonPoolExhausted, fmt.Sprintf("%d of at most %d nodes of pool %q are unavailable", pool.used, pool.limit, l.pool)
	}
	if why := b.probation.whyFull(); why != "" {
		return ReasonNodesOnProbation, why
	}
	return "", ""
}
