package rollout

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/topsops/gcu-operator/pkg/daemonset"
)

// Decision is what to do now, and the reason for each node.
type Decision struct {
	// Ledger has to be stored before any pod in Delete is deleted.
	Ledger Ledger
	// Started names the nodes that this decision started.
	Started []string
	// Finished holds the duration of each node that reached the target and gave its slot back.
	Finished []time.Duration
	// Over lists the slots of Input.Ledger under which the work on their members is over: the node does not need the slot any
	// more, has failed, or goes on with other members.
	Over []Slot
	// Delete lists the pods to delete; a slot of Ledger names each of them, in the version to delete it in.
	Delete []Pod
	// Unready has an entry for each node whose pod of Delete is deleted, or whose operation is granted, before its turn, because
	// the node is unavailable: the members without a Ready pod, none if only an operation has it out of service, or it is offline. A
	// cache that lags may show it: one of the members must still have none at that time, or the operation still have the node.
	Unready map[string][]int
	// Fence lists the pods to write to, so that they get another resourceVersion. The slot that names
	// such a pod is to be given back, and a manager that read the slot before must no longer be able to
	// delete the pod.
	Fence []Pod
	// Operations lists the commands for operations, to be carried out once Ledger is stored.
	Operations []OperationChange
	// Prepulls lists the nodes on which images are pulled before they start.
	Prepulls []Prepull
	// PrepullKeepsFailing: on some node, pulling images has failed for a quarter of an hour.
	PrepullKeepsFailing bool
	// Unseen lists the slots of Input.Ledger that Ledger drops because their node does not exist,
	// or its name belongs to another Node object. Confirm this with a live read before storing
	// Ledger: the cache may be stale.
	Unseen []Slot
	// Vacated lists the slots of Input.Ledger that Ledger drops although a member that was replaced under them no longer runs on
	// the node, with those members only. Confirm with a live read that it has no pod there: the cache may lack it.
	Vacated []Slot
	// WithoutOperation lists the slots of Input.Ledger that Ledger drops because their operation is not on its node, and would
	// be created, under OTA, for targets that were not requested. Confirm with a live read that it is not there.
	WithoutOperation []Slot
	// AwaitsHeartbeats: nodes wait for others to leave probation, so the Leases of these have to be read.
	AwaitsHeartbeats bool
	// Counts sums up the verdicts.
	Counts Counts
	// Waiting sums up why nodes wait, the most common reason first.
	Waiting []Waiting
	// Unapproved is the wave or batch that has to be approved next, as an approval names it, "" for none.
	Unapproved string
	// AllReached: no wave or batch is still to come. NotReached is what the next one waits for, "" if none is to come.
	AllReached bool
	NotReached string
	// IsQuiet: for Deadlines.Probation no node has made progress, and what was replaced lately has been Ready. So what the
	// version does to nodes that got it is known. IsSettled: also for Deadlines.Progress, in which they may fail.
	IsQuiet, IsSettled bool
	// Advanced names the nodes whose facts have changed by time alone, without an event.
	Advanced []string
	// MaxUnavailable is the number of nodes that may be unavailable.
	MaxUnavailable int
	// Behind is the number of nodes with a pod that is not at its target, reachable or not.
	Behind int
	// Unbound is the number of nodes with a pod that is not bound to them, so that nothing shows that they have had its revision.
	Unbound int
	// NotPrepulled is the number of nodes still to be upgraded whose images are not pulled before they start.
	NotPrepulled int
	// InFlight is the number of nodes in flight by the ledger or live facts, without queued ones.
	InFlight int
	// Used is the number of nodes that count against MaxUnavailable.
	Used int
	// UsedByFailed is how many of these have failed.
	UsedByFailed int
	// Halted is set when too many nodes failed; it says how many, and what to do.
	Halted string
	// LastTaskEnd is when a task of an operation in flight last ended, zero if none has.
	LastTaskEnd time.Time
	// OfflineSince is when the longest current outage of a skipped node began, zero if no node is skipped.
	OfflineSince time.Time
	// Recheck is the time until the next decision if nothing changes; 0 means never.
	Recheck time.Duration

	fleet       *Fleet
	explanation explanation
}

// IsIdle reports whether nothing is left to do on any node, and no slot or operation is left.
func (d *Decision) IsIdle() bool {
	return d.fleet.all.outdated == 0 && len(d.Ledger.Slots) == 0 && len(d.fleet.preparing) == 0 && len(d.fleet.outside) == 0
}

// ETA estimates how long the nodes in flight, pending and held by the policy take at the usual pace;
// 0 if there are none or the pace is unknown. It ignores nodes that wait for a person, and the time
// of soaks and closed windows.
func (d *Decision) ETA() time.Duration {
	left := d.Counts.InFlight + d.Counts.Pending + d.Counts.Held
	for _, w := range d.Waiting {
		if w.Reason.needsPerson() {
			left -= w.Nodes
		}
	}
	if left == 0 || d.MaxUnavailable == 0 {
		return 0
	}
	rounds := (left + d.MaxUnavailable - 1) / d.MaxUnavailable
	return time.Duration(rounds) * d.Ledger.Usual
}

// Verdict returns the verdict on a node; false when the fleet has no such node.
func (d *Decision) Verdict(node string) (Verdict, bool) {
	if n := d.fleet.nodes.byName[node]; n != nil {
		return d.explanation.verdict(n), true
	}
	return Verdict{}, false
}

// FailedAndGone returns the nodes that failed and are no longer in the group; they may come back.
func (d *Decision) FailedAndGone() []string { return d.fleet.gone(d.Ledger.Failures) }

// HasSlot reports whether a node has a slot, so that its Verdict is InFlight. It formats no message, so it is cheap
// enough to be called for every slot.
func (d *Decision) HasSlot(node string) bool {
	n := d.fleet.nodes.byName[node]
	return n != nil && n.slot != nil
}

// GetsTarget reports whether a node has a slot under which it gets the target of a member, by index: the slot names the member
// or waits for its pod, or its operation replaces that. It does not if nobody requested that under OTA, or if it is left out.
// While the settings are wrong or disagree, the strategy is not known: it may be OTA.
func (d *Decision) GetsTarget(node string, uid types.UID, member int) bool {
	n := d.fleet.nodes.lookup(node, uid)
	i := slices.IndexFunc(d.Ledger.Slots, func(s Slot) bool { return s.Node == node && s.UID == uid && !s.Queued })
	if n == nil || i < 0 {
		return false
	}
	slot, op, key := &d.Ledger.Slots[i], n.Operation, n.group.members[member].Key
	if slices.Contains(slot.Members, key) || op.isFor(slot.Operation, key) {
		return true
	}
	return n.group.strategy != daemonset.NoStrategy && slices.ContainsFunc(n.Pods, func(pod Pod) bool {
		return pod.Member == member && n.slotWaitsFor(&pod) && !isLeftOut(n.group, n, &pod)
	})
}

// DependsOn returns the indexes of the members whose DaemonSets must be as observed when a pod of Delete is deleted: its own,
// and those whose pods seemed to be missing on its node when this was decided. If others are missing by then, the node may be
// available. Pods of a recreated DaemonSet do not belong to the observed one, although it has the same name.
func (d *Decision) DependsOn(pod *Pod) []int {
	members := []int{pod.Member}
	if n := d.fleet.nodes.byName[pod.Node]; n != nil {
		members = append(members, membersWith(n.Pods, func(p *Pod) bool { return p.UID == "" })...)
	}
	return members
}

// IsReady reports whether a node is Ready.
func (d *Decision) IsReady(node string) bool {
	n := d.fleet.nodes.byName[node]
	return n != nil && n.Ready
}

// Blame returns the key of the member that made a node fail, "" if that is not known, and the keys of the members with
// work left there. Of several that may have caused the failure, it returns the first with work left. For a node that went
// back alone, it returns the member that went back.
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

// Skipped returns the verdicts on skipped nodes, sorted by name, at most limit.
func (d *Decision) Skipped(limit int) []Verdict {
	var list []Verdict
	d.fleet.byPhase[phaseOffline].Ascend(func(n *Node) bool {
		if v := d.explanation.verdict(n); v.State == Skipped && len(list) < limit {
			list = append(list, v)
		}
		return len(list) < limit
	})
	return list
}

// AcceptsRequest reports whether a new request for a member starts a node that has failed again, or another one does.
func (d *Decision) AcceptsRequest(node string, member int) bool {
	n := d.fleet.nodes.byName[node]
	return n == nil || n.failure == nil || n.failure.Reason == ReasonNodeLost || startsAgainWith(n, member, n.failure) || n.isRequestedAgain(n.failure)
}

// TargetsOn returns the targets that pods of a node are at, nil if there is no such node.
func (d *Decision) TargetsOn(node string) (targets []Target) {
	n := d.fleet.nodes.byName[node]
	if n == nil {
		return nil
	}
	for i := range n.Pods {
		if pod := &n.Pods[i]; pod.UID != "" && pod.Revision == n.group.members[pod.Member].Target {
			targets = append(targets, Target{n.group.keyOf(pod), pod.Revision})
		}
	}
	return targets
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
