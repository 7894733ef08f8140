package rollout

import "time"

// Decision is what to do now, and why for each node.
type Decision struct {
	// Ledger to store before anything in Delete is done.
	Ledger Ledger
	// Started names the nodes that were given a slot by this decision.
	Started []string
	// Finished has, for each node that gave its slot back at the target, how long it took.
	Finished []time.Duration
	// Delete lists the pods to delete, each named by a slot of Ledger.
	Delete []Deletion
	// Fence lists the pods to be written to, so that they get another
	// resourceVersion: a slot that names one is to be given back, and nobody who
	// read that slot before may delete the pod any more.
	Fence []Pod
	// Orders lists what operations of nodes are to be told, once Ledger is stored.
	Orders []Order
	// Unseen lists slots of Input.Ledger that are not in Ledger any more because their
	// node is not seen, or another one of its name. Before Ledger is stored it has to
	// be made certain that this is so, and not what a view shows that is behind.
	Unseen []Slot
	// Counts sums the verdicts.
	Counts Counts
	// Waiting sums up why nodes wait, the most common reason first.
	Waiting []Waiting
	// Limit is the number of nodes that may be unavailable.
	Limit int
	// InFlight is the number of nodes in flight by ledger or live facts; queued ones
	// are not.
	InFlight int
	// Used is the number of nodes that count against Limit.
	Used int
	// Halted is set when too many nodes failed; it says how many and what helps.
	Halted string
	// Recheck is when to decide again if nothing happens; 0 means never.
	Recheck time.Duration

	fleet       *Fleet
	explanation explanation
}

// ETA is how long what is started, pending and held by policy takes at the usual
// pace; 0 when there is nothing or the pace is not known. Nodes that wait for a
// person, soaks and windows are not in it.
func (d *Decision) ETA() time.Duration {
	left := d.Counts.InFlight + d.Counts.Pending + d.Counts.Held
	for _, w := range d.Waiting {
		if w.Reason.isForPeople() {
			left -= w.Nodes
		}
	}
	if left == 0 || d.Limit == 0 {
		return 0
	}
	rounds := (left + d.Limit - 1) / d.Limit
	return time.Duration(rounds) * d.Ledger.Usual
}

// Verdict says how a node stands; false when the fleet has no such node.
func (d *Decision) Verdict(node string) (Verdict, bool) {
	if n := d.fleet.nodes.byName[node]; n != nil {
		return d.explanation.verdict(n), true
	}
	return Verdict{}, false
}

// Skipped returns the verdicts on the first nodes by name that are skipped, at
// most as many as given.
func (d *Decision) Skipped(most int) []Verdict {
	var list []Verdict
	d.fleet.byPhase[phaseOffline].Ascend(func(n *fleetNode) bool {
		if v := d.explanation.verdict(n); v.State == Skipped && len(list) < most {
			list = append(list, v)
		}
		return len(list) < most
	})
	return list
}

// Proven reports whether the target works on at least one Ready node. An offline
// node counts as updated by the revision of its pods, which proves nothing.
func (d *Decision) Proven() bool {
	for _, n := range d.fleet.nodes.byName {
		if n.Ready && d.explanation.verdict(n).State == Updated {
			return true
		}
	}
	return false
}
