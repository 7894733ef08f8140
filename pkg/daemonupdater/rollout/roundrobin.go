package rollout

import (
	"cmp"
	"fmt"
	"slices"
)

// roundRobin gives slots to candidates while the policy and the budgets allow: priority by priority,
// and from each lane of a priority in turn.
type roundRobin struct {
	queue
	// refused says why no more candidates of a lane start.
	refused map[*lane]refusal
	// unprepared are the candidates whose operation is not prepared, or whose images are not there.
	unprepared []candidates
}

// startNodes starts queued nodes, then gives slots to candidates.
func startNodes(rules *startRules, b *budgets) *roundRobin {
	r := &roundRobin{queue: queue{&starts{draft: rules.draft, budgets: b}, rules}, refused: map[*lane]refusal{}}
	r.serveQueued()
	r.serveLanes()
	slices.Sort(r.names)
	slices.SortFunc(r.ledger.Slots, func(a, b Slot) int { return cmp.Compare(a.Node, b.Node) })
	return r
}

// serveLanes gives slots to the candidates of all lanes.
func (r *roundRobin) serveLanes() {
	var open []*cursor
	r.fleet.lanes.Ascend(func(c candidates) bool {
		if r.rules.forbids(c.lane) {
			return true
		}
		if len(open) > 0 && open[0].priority != c.priority {
			r.servePriority(open)
			open = nil
		}
		if reason, why := r.rules.whyHeld(c.lane); reason != "" {
			r.refused[c.lane] = refusal{reason, why}
		} else if c.unprepared {
			r.refused[c.lane] = r.whyUnprepared(c.lane)
			r.unprepared = append(r.unprepared, c)
		} else {
			open = append(open, &cursor{candidates: c})
		}
		return true
	})
	r.servePriority(open)
}

// whyUnprepared returns why the nodes of a lane that are not prepared do not start. If nothing is in flight and
// the budget is used up, it is the budget: they would not start even if they were prepared.
func (r *roundRobin) whyUnprepared(l *lane) refusal {
	if !l.heavy && r.fleet.isImageDoubtful() {
		failed := r.fleet.byPhase[phasePrepullFailed]
		first, _ := failed.Min()
		return refusal{ReasonPrepullFailed, fmt.Sprintf("%d nodes cannot pull their images, and other nodes wait for one of them; on %s: %s", failed.Len(), first.Name, whyNotPulled(first))}
	}
	if reason, why := r.budgets.whyFull(l); (reason == ReasonBudgetExhausted || reason == ReasonPoolExhausted) && r.ledger.InFlight() == 0 {
		return refusal{reason, why}
	}
	return refusal{ReasonPreparing, "the node is checked, and its images are pulled, when it is among the next to start"}
}

// servePriority starts nodes of the lanes of one priority, and queues healthy ones after them.
func (r *roundRobin) servePriority(open []*cursor) {
	started := len(r.names)
	r.serveInTurn(slices.Clone(open))
	if len(r.names) > started && open[0].urgency == healthy {
		r.fill(open)
	}
}

// serveInTurn starts nodes from the lanes in turn until all are empty or a budget is used up.
func (r *roundRobin) serveInTurn(open []*cursor) {
	for len(open) > 0 {
		open = slices.DeleteFunc(open, func(c *cursor) bool {
			if reason, why := r.budgets.whyFull(c.lane); reason != "" {
				r.refused[c.lane] = refusal{reason, why}
				return true
			}
			next := c.after(c.last)
			if next == nil {
				return true
			}
			if c.urgency == healthy && len(r.ledger.Slots) >= r.budgets.limit {
				r.refused[c.lane] = refusal{ReasonBudgetExhausted, "waits for nodes that start first"}
				return true
			}
			c.last = next
			slot := r.newSlot(next)
			r.start(next, &slot)
			r.ledger.Slots = append(r.ledger.Slots, slot)
			return false
		})
	}
}
