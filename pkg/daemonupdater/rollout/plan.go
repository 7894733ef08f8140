package rollout

import (
	"cmp"

	"github.com/topsops/gcu-operator/pkg/daemonset"
)

// Plan decides which nodes start now, what every node in flight does next, and why every other
// node waits (design section 3).
func Plan(in Input) Decision { return NewFleet(&in).Plan(in) }

// Plan decides for the nodes of the fleet, which must have been made with the same Members,
// strategy and Policy. Its cost depends on the nodes that are in flight, failed or starting, not
// on the size of the fleet. The decision is valid until the fleet changes.
func (f *Fleet) Plan(in Input) Decision {
	f.begin(in.Now)
	f.pin(in.Ledger.Pins, in.Now)
	d := draftOf(&in, f)
	if in.Blocked != nil {
		f.nodes.recordLedger(&d.ledger)
		decision := decisionOf(d, budgetsOf(d), explanation{blocked: in.Blocked})
		if in.Ending {
			decision.Operations = abortsOfAll(f)
		}
		return decision
	}
	// Review what earlier decisions started.
	review := reviewSlots(d)
	updateFailures(d)
	budgets := budgetsOf(d)

	// Start nodes.
	halted := haltOf(&in.Policy, &d.ledger, d.unrecorded)
	waves := followWaves(d)
	rules := &startRules{draft: d, halted: halted, waves: waves}
	start := startNodes(rules, budgets)
	haveSoaked(d, waves.parts, start.furthest)

	// Act on the nodes that have slots, and prepare those that get one next.
	deletions := nextDeletions(d, budgets.limit)
	d.noteDecided()
	isQuiet, isSettled := d.isQuiet(in.Deadlines.Probation), d.isQuiet(max(in.Deadlines.Probation, in.Deadlines.Progress))
	if budgets.probation.isAwaited {
		d.recheckIn(HeartbeatPoll)
	}
	prepared := prepare(start, in.Now)
	changes := changeOperations(d, prepared.changes, rules, budgets.limit)

	decision := decisionOf(d, budgets, explanation{
		ending: in.Ending, paused: in.Settings.Paused, halted: halted, beforehand: in.Beforehand, returned: in.Policy.Returned, refused: start.refused})
	decision.Started, decision.Finished, decision.Unseen, decision.Vacated, decision.WithoutOperation = start.names, review.finished, review.unseen, review.vacated, review.withoutOperation
	decision.Over, decision.Unready = d.over, d.unready
	decision.Delete, decision.Operations, decision.Prepulls, decision.PrepullKeepsFailing = deletions, changes, prepared.prepulls, prepared.keepsFailing
	decision.IsQuiet, decision.IsSettled = isQuiet, isSettled
	decision.AwaitsHeartbeats, decision.Unapproved = budgets.probation.isAwaited, cmp.Or(waves.approval, rules.unapproved)
	decision.AllReached = in.Settings.Strategy == daemonset.OTA || waves.reached >= lastPlanned(d)
	decision.NotReached = waves.why
	return decision
}

// decisionOf turns a draft into a decision, with a summary of all nodes.
func decisionOf(d *draft, b *budgets, e explanation) Decision {
	waiting := countWaiting(d.fleet, &e)
	return Decision{
		Ledger: d.ledger, Fence: d.fence, Recheck: d.recheck,
		Waiting: waiting, Counts: countStates(d.fleet, waiting, d.ledger.Failures),
		MaxUnavailable: b.limit, InFlight: b.inFlight, Used: b.used, UsedByFailed: usedByFailed(d.fleet), Halted: e.halted,
		LastTaskEnd: stepped(d), OfflineSince: offlineSince(d.fleet),
		Behind: d.fleet.all.behind, Unbound: d.fleet.all.unbound, NotPrepulled: d.fleet.all.notPrepulled, Advanced: d.fleet.advanced, fleet: d.fleet, explanation: e,
	}
}
