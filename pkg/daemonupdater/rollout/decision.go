package rollout

import (
	"slices"
	"time"
)

// Decision is what to do now, and the reason for each node.
type Decision struct {
	// Ledger has to be stored before anything in Delete is done.
	Ledger Ledger
	// Started names the nodes that this decision started.
	Started []string
	// Finished holds, for each node that gave its slot back at the target, how long it took.
	Finished []time.Duration
	// Delete lists the pods to delete; a slot of Ledger names each of them.
	Delete []Deletion
	// Fence lists the pods to write to, so that they get another resourceVersion: a slot that
	// names the pod is about to be given back, and a manager that read that slot before must not
	// be able to delete the pod any more.
	Fence []FencedPod
	// Operations lists the commands for operations, to be carried out once Ledger is stored.
	Operations []OperationChange
	// Prepulls lists the nodes on which images are pulled before they start.
	Prepulls []Prepull
	// PrepullLasts is whether images cannot be pulled on a node for a quarter of an hour.
	PrepullLasts bool
	// Unseen lists the slots of Input.Ledger that Ledger drops because their node does not exist,
	// or its name belongs to another Node object. Confirm this with a live read before storing
	// Ledger: the cache may be stale.
	Unseen []Slot
	// Unmade lists the slots of Input.Ledger that Ledger drops because their operation is not on its node, and would be made
	// under OTA for targets that came since. A live read has to confirm that it is not there.
	Unmade []Slot
	// AwaitsHeartbeats: nodes wait for others to leave probation, for which their Leases are read.
	AwaitsHeartbeats bool
	// Counts sums up the verdicts.
	Counts Counts
	// Waiting sums up why nodes wait, the most common reason first.
	Waiting []Waiting
	// Unapproved is the wave or batch that has to be approved next, as an approval names it, "" for none.
	Unapproved string
	// AllReached: no wave or batch comes any more.
	AllReached bool
	// Advanced names the nodes whose state time has changed, which no event reports.
	Advanced []string
	// Limit is the number of nodes that may be unavailable.
	Limit int
	// Behind is the number of nodes with a pod that is not at its target, reachable or not.
	Behind int
	// NotPrepulled is the number of nodes left to do whose images are not pulled before they start.
	NotPrepulled int
	// InFlight is the number of nodes in flight by ledger or live facts, without queued ones.
	InFlight int
	// Used is the number of nodes that count against Limit.
	Used int
	// Halted is set when too many nodes failed; it says how many, and what to do.
	Halted string
	// Stepped is when a task of an operation in flight last ended, zero if none has.
	Stepped time.Time
	// OfflineSince is since when the skipped node is offline that has been so longest, zero if none is
	// skipped.
	OfflineSince time.Time
	// Recheck is when to decide again if nothing changes; 0 means never.
	Recheck time.Duration

	fleet       *Fleet
	explanation explanation
}

// IsIdle reports whether nothing is left to do on any node, and no slot or operation is left.
func (d *Decision) IsIdle() bool {
	return d.fleet.all.outdated == 0 && len(d.Ledger.Slots) == 0 && len(d.fleet.preparing) == 0 && len(d.fleet.outside) == 0
}

// ETA estimates how long the nodes in flight, pending and held by policy take at the usual pace;
// 0 when there are none or the pace is unknown. It leaves out nodes that wait for a person, soaks
// and windows.
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

// Verdict returns the verdict on a node; false when the fleet has no such node.
func (d *Decision) Verdict(node string) (Verdict, bool) {
	if n := d.fleet.nodes.byName[node]; n != nil {
		return d.explanation.verdict(n), true
	}
	return Verdict{}, false
}

// HasSlot reports whether a node has a slot, so that its Verdict is InFlight. It writes no message, and so may be
// asked of every slot.
func (d *Decision) HasSlot(node string) bool {
	n := d.fleet.nodes.byName[node]
	return n != nil && n.slot != nil
}

// Reaches reports whether a node is Ready.
func (d *Decision) Reaches(node string) bool {
	n := d.fleet.nodes.byName[node]
	return n != nil && n.Ready
}

// Blame returns the key of the member with which a node failed, "" if that is not known, and the keys of the members that
// are left to do there. Of several that may have failed it, it is the first that is left. A node that went back alone is
// blamed on what it went back with.
func (d *Decision) Blame(node string) (blamed string, left []string) {
	n := d.fleet.nodes.byName[node]
	if n == nil {
		return "", nil
	}
	suspects := suspectsOf(n)
	if n.failure == nil && len(suspects) == 0 {
		return "", nil
	}
	for i := range n.group.members {
		key := n.group.members[i].Key
		isLeft := slices.ContainsFunc(n.Pods, func(pod Pod) bool {
			return pod.Member == i && (pod.isAbsent() || !pod.Available || pod.Pin != "" || n.group.isOutdated(&pod))
		})
		if slices.Contains(suspects, key) && blamed == "" && (isLeft || len(suspects) == 1) {
			blamed = key
		}
		if isLeft {
			left = append(left, key)
		}
	}
	return blamed, left
}

// Skipped returns the verdicts on skipped nodes, sorted by name, at most the given number.
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

// Proven reports whether at least one Ready node is updated. An offline node counts as updated by
// the revision of its pods, which does not prove that the target works.
func (d *Decision) Proven() bool {
	for _, n := range d.fleet.nodes.byName {
		if n.Ready && d.explanation.verdict(n).State == Updated {
			return true
		}
	}
	return false
}
