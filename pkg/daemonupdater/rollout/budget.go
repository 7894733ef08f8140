package rollout

import (
	"cmp"
	"fmt"

	"github.com/topsops/gcu-operator/pkg/daemonset"
)

// budget is how many nodes of some may be unavailable, and how many are.
type budget struct {
	// inFlight are the nodes in flight, and used those that count against the limit.
	limit, inFlight, used int
}

// budgets are that of all nodes and, when the policy limits them, those of the pools.
type budgets struct {
	budget
	pools map[string]*budget
}

// maxSlots bounds the ledger to what the API server stores of one object.
const maxSlots = 2000

// budgetsOf counts the nodes in flight and the nodes that use up the limits.
func budgetsOf(d *draft) *budgets {
	all := &d.fleet.all
	b := &budgets{budget: budget{inFlight: all.inFlight, used: all.unavailable}}
	if d.in.Settings.Strategy != daemonset.NoStrategy {
		b.limit = min(d.in.Settings.Limit(d.fleet.Len()), maxSlots)
	}
	if most := d.in.Policy.PoolMaxUnavailable; most != nil {
		b.pools = make(map[string]*budget, len(d.fleet.pools))
		for name, c := range d.fleet.pools {
			b.pools[name] = &budget{limit: scaled(most, c.nodes), inFlight: c.inFlight, used: c.unavailable}
		}
	}
	for i := range d.ledger.Slots {
		slot := &d.ledger.Slots[i]
		if slot.Queued {
			continue
		}
		n := d.fleet.nodes.lookup(slot.Node, slot.UID)
		switch {
		case n == nil: // gone, and so is its pool
			b.inFlight++
			b.used++
			continue
		case !n.moving:
			b.use(n.Pool, 1, 0)
		}
		if !n.unavailable {
			b.use(n.Pool, 0, 1)
		}
	}
	return b
}

// use counts nodes that get into flight and nodes that get to use the limit.
func (b *budgets) use(pool string, inFlight, used int) {
	b.inFlight += inFlight
	b.used += used
	if p := b.pools[pool]; p != nil {
		p.inFlight += inFlight
		p.used += used
	}
}

// refuse says which budget keeps the candidates of a lane from being
// started; "" when none does. A healthy node must leave the budgets of
// unavailable nodes intact; a node that is unavailable already only those of
// nodes in flight, where it may be counted itself.
func (b *budgets) refuse(l *lane) (Reason, string) {
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
	return "", ""
}
