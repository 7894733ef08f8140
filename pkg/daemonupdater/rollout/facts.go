package rollout

import (
	"slices"
	"time"

	"github.com/topsops/gcu-operator/pkg/daemonset"
)

// facts are what follows from a node and its pods, whatever slots and failures there are.
type facts struct {
	// absent: a pod is missing or terminating.
	absent bool
	// unknown: the target of a member is not known yet.
	unknown bool
	// outdated: a pod that is not terminating is not at its target.
	outdated bool
	// replaceable: an outdated pod may be replaced under the strategy.
	replaceable bool
	// heavy: one of them is replaced by an operation, or the node is held by one.
	heavy bool
	// available: the node is Ready and so is every pod on it. unavailable: it is Ready, and
	// a pod is missing, terminating or not available, or an operation has it out of service;
	// that counts against the limit. An offline node is neither.
	available, unavailable bool
	// moving: the node is Ready, and a pod is missing, terminating, or at its target and not
	// available, or an operation is at work. It is in flight, whatever the ledger says. On a
	// node that is held by an operation none of these ends by itself.
	moving bool
	// updated: nothing is left to do on the node. An offline node is updated when its pods
	// are at the target, whatever their state.
	updated bool
	// suspect is the pod that may have taken the node offline: the node went offline shortly
	// after it was made, and all its pods are at their targets; nil when there is none.
	suspect *Pod
	// phase follows from the above; changes is when it may change by time alone, zero for
	// never.
	phase   phase
	changes time.Time
}

// phase is how far a node is by its facts.
type phase int

const (
	// phaseUpdated: nothing is left to do.
	phaseUpdated phase = iota
	// phaseOffline: something is left to do, and the node is offline.
	phaseOffline
	// phaseUnavailable: a pod is missing or not available, and none is outdated.
	phaseUnavailable
	// phaseHeld: something is left to do, and somebody wants the node left alone.
	phaseHeld
	// phaseAwaitingRequest: under OTA, outdated, and its person has not asked.
	phaseAwaitingRequest
	// phaseExcluded: the upgrade is limited to something else.
	phaseExcluded
	// phaseRecentlyReturned: Ready for too short a time to be started.
	phaseRecentlyReturned
	// phaseBusy: an operation of another group is at work on the node.
	phaseBusy
	// phaseDeferred: the node is tried again later.
	phaseDeferred
	// phaseCandidate: may be started.
	phaseCandidate

	phases = int(phaseCandidate) + 1
)

// factsOf derives everything from a node and its pods, as of now.
func (g *group) factsOf(node *Node, now time.Time) facts {
	f := facts{unavailable: node.Ready && node.Disturbed, moving: node.Ready && node.Job.isOursAtWork()}
	for i := range node.Pods {
		f.include(g, node, &node.Pods[i])
	}
	if node.Job.isHeld() && node.Job.Ours && !node.LeftOut && g.strategy == daemonset.AdvancedRollingUpdate {
		f.outdated, f.replaceable, f.heavy = true, true, true // it is known to work after another operation
	}
	f.available = node.Ready && !f.unavailable
	f.updated = !f.unknown && !f.outdated && (f.available || !node.Ready && !f.absent)
	f.phase = f.phaseOf(g, node, now)
	f.suspect = f.suspectOf(node)
	return f
}

// include adds what follows from one pod.
func (f *facts) include(g *group, node *Node, pod *Pod) {
	f.unknown = f.unknown || g.members[pod.Member].Target == ""
	f.absent = f.absent || pod.isAbsent()
	f.changesAt(pod.AvailableAt)
	if node.Ready {
		f.unavailable = f.unavailable || pod.isAbsent() || !pod.Available
		f.moving = f.moving || !node.Job.isHeld() && g.isMoving(pod) // one that is held waits for another operation
	}
	if g.isOutdated(pod) {
		f.outdated = true
		f.replaceable = f.replaceable || g.toReplace(node, pod)
		f.heavy = f.heavy || g.needsOperation(node, pod)
	}
}

func (f *facts) phaseOf(g *group, node *Node, now time.Time) phase {
	returned := node.ReadySince.Add(g.policy.Returned)
	switch {
	case f.updated:
		return phaseUpdated
	case !node.Ready:
		return phaseOffline
	case node.Job.isOfAnotherGroup():
		return phaseBusy
	case !f.outdated:
		return phaseUnavailable
	case f.keptByPeople(g, node) != phaseCandidate:
		return f.keptByPeople(g, node)
	case g.policy.Returned > 0 && g.strategy != daemonset.OTA && returned.After(now):
		f.changesAt(returned)
		return phaseRecentlyReturned
	case f.heavy && node.Retry.After(now):
		f.changesAt(node.Retry)
		return phaseDeferred
	}
	return phaseCandidate
}

// keptByPeople says how people keep a node with something left to do from being started;
// phaseCandidate when they do not.
func (f *facts) keptByPeople(g *group, node *Node) phase {
	switch {
	case !f.replaceable && slices.ContainsFunc(node.Pods, func(pod Pod) bool { return g.isOutdated(&pod) && g.allows(&pod) }):
		return phaseExcluded
	case len(node.Holds) > 0 && !node.Job.isOursAtWork():
		return phaseHeld
	case !f.replaceable:
		return phaseAwaitingRequest
	}
	return phaseCandidate
}

// changesAt notes a moment at which the facts change by time alone.
func (f *facts) changesAt(at time.Time) {
	if !at.IsZero() && (f.changes.IsZero() || at.Before(f.changes)) {
		f.changes = at
	}
}

// suspicion is how long after its new pod was made a node that goes offline is
// suspected to do so because of it.
const suspicion = 2 * time.Minute

func (f *facts) suspectOf(node *Node) *Pod {
	if node.Ready || f.phase != phaseUpdated {
		return nil
	}
	for i := range node.Pods {
		pod := &node.Pods[i]
		if !node.ReadySince.Before(pod.Created) && !node.ReadySince.After(pod.Created.Add(suspicion)) {
			return pod
		}
	}
	return nil
}

// needsNoOperation reports whether nothing is to be replaced on the node by an operation.
// What is offline may have to be replaced when it is back.
func (f *facts) needsNoOperation() bool {
	switch f.phase {
	case phaseUpdated, phaseUnavailable, phaseHeld, phaseAwaitingRequest, phaseExcluded:
		return true
	}
	return f.phase != phaseOffline && !f.heavy
}
