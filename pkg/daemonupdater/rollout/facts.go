package rollout

import (
	"slices"
	"time"

	"github.com/topsops/gcu-operator/pkg/daemonset"
)

// facts are derived from a node and its pods alone, without slots and failures.
type facts struct {
	// absent: a pod is missing or terminating.
	absent bool
	// unknown: the target of a member is not known yet.
	unknown bool
	// outdated: a pod that is not terminating is not at its target, or still has to be verified.
	outdated bool
	// behind: a pod that is not terminating is not at its target.
	behind bool
	// pinned: a pod is kept at an earlier revision than its target, or goes back to it.
	pinned bool
	// goingBack: a pod is to be replaced by one of the revision that it is pinned to, or the node is back and has to return to
	// service. What else is left to do on a pinned node waits like on any other.
	goingBack bool
	// replaceable: an outdated pod may be replaced, or verified, under the strategy.
	replaceable bool
	// heavy: an operation has to replace or verify one of them, or an operation keeps the node cordoned.
	heavy bool
	// available: the node is Ready, every pod on it is available, and no operation has taken it out of
	// service. unavailable: the node is Ready and not available. An offline node is neither.
	// charged: the node is unavailable and counts against the limit. One that another group keeps out
	// of service does not count, even if it lacks pods of this group for that reason.
	available, unavailable, charged bool
	// unready: the node is Ready, and a pod on it is not, since unreadySince. Pods that only wait
	// for minReadySeconds do not count.
	unready      bool
	unreadySince time.Time
	// awaitingMinReady: a pod at its target only waits for minReadySeconds.
	awaitingMinReady bool
	// onProbation: the node is Ready, and its kubelet has not renewed its Lease since a pod at its
	// target became available: the node may be dead already.
	onProbation bool
	// pull is the progress of pulling the images that the node needs before it starts; notPrepulled: some
	// are left to the kubelet.
	pull         PullState
	notPrepulled bool
	// noSuccessor: a pod that would be replaced has no successor.
	noSuccessor bool
	// notAllowed says why the policy does not allow the versions that the node would get, "" if it does.
	notAllowed string
	// moving: the node is Ready, and a pod is missing, terminating, or at its target and not
	// available, or an operation is at work. The node is in flight, even without a slot. Pods
	// on a node that an ended operation keeps cordoned do not count: they wait for another
	// operation.
	moving bool
	// updated: nothing is left to do on the node. An offline node is updated when its pods
	// are at the target, in any state.
	updated bool
	// suspect is a pod that may have failed the node after it gave its slot back (suspectpod.go); nil if there is none.
	suspect *Pod
	// unsettled: a pod that was replaced lately, or crashes, is not Ready, or was not shortly before.
	unsettled bool
	// phase follows from the fields above. changes is when the facts may change by time alone, zero for
	// never.
	phase   phase
	changes time.Time
}

// phase is where a node stands according to its facts alone.
type phase int

const (
	// phaseUpdated: nothing is left to do.
	phaseUpdated phase = iota
	// phasePinned: the same, and a pod is kept at an earlier revision than its target.
	phasePinned
	// phaseOffline: something is left to do, and the node has been offline for some time.
	phaseOffline
	// phaseJustOffline: the same, but not long enough to be skipped.
	phaseJustOffline
	// phaseUnavailable: a pod is missing or not available, and none is outdated.
	phaseUnavailable
	// phaseHeld: something is left to do, and a hold excludes the node.
	phaseHeld
	// phaseLeftToAdministrator: an administrator has to restart the container runtime.
	phaseLeftToAdministrator
	// phaseAwaitingRequest: outdated, and its pods are not replaced: strategy OTA without a request.
	phaseAwaitingRequest
	// phaseExcluded: the upgrade is limited to other nodes or components.
	phaseExcluded
	// phaseNoSuccessor: the successor of a pod would not be created.
	phaseNoSuccessor
	// phaseVersionNotAllowed: the policy does not allow the versions that the node would get.
	phaseVersionNotAllowed
	// phaseAgentTooOld: the node agent cannot execute a task of the operation that is needed.
	phaseAgentTooOld
	// phaseRecovering: unavailable for too short a time to be urgent, or about to be available.
	phaseRecovering
	// phaseRecentlyReturned: the node has not been Ready for long enough to start.
	phaseRecentlyReturned
	// phaseBusy: the node has an operation of another group.
	phaseBusy
	// phaseKeptCordoned: an ended operation of another group keeps the node out of service.
	phaseKeptCordoned
	// phaseDeferred: the node is retried later.
	phaseDeferred
	// phasePrepullFailed: its images cannot be pulled, so it keeps its pods.
	phasePrepullFailed
	// phaseSetBack: the runtime is restarted later, because something sets it back each time.
	phaseSetBack
	// phaseCandidate: the node may start.
	phaseCandidate

	phases = int(phaseCandidate) + 1
)

// factsOf derives the facts of a node and its pods at the given time.
func (g *group) factsOf(node *Node, now time.Time) facts {
	f := facts{unavailable: node.Ready && node.Disturbed && !node.Operation.isKeptCordonedByAnotherGroup(), moving: node.Ready && node.Operation.isOursAtWork()}
	for i := range node.Pods {
		f.include(g, node, &node.Pods[i])
		f.includeProbation(g, node, &node.Pods[i], now)
		f.includePull(g, node, &node.Pods[i], now)
	}
	if f.returnsByOperation(g, node) {
		f.outdated, f.replaceable, f.heavy = true, true, true // only another operation can show that it works
	}
	f.goingBack = f.goesBack(g, node)
	if f.heavy || f.goingBack || f.unready || node.Disturbed {
		f.pull, f.notPrepulled = PullNone, false // an operation pulls its images itself, and a node that is unavailable loses nothing
	}
	f.notAllowed = whyNotAllowed(g, node)
	f.available = node.Ready && !f.unavailable
	f.charged = f.isCharged(node)
	f.updated = !f.unknown && !f.outdated && (f.available || !node.Ready && !f.absent)
	f.phase = f.phaseOf(g, node, now)
	unsettled := unsettledUntil(g, node, now)
	f.unsettled = !unsettled.IsZero()
	f.changesAt(unsettled)
	f.suspect = suspectOf(g, node, f.phase == phaseUpdated)
	return f
}

// returnsByOperation reports whether an ended operation of the group keeps the node out of service, and another
// operation has to return it to service.
func (f *facts) returnsByOperation(g *group, node *Node) bool {
	return node.Operation.isKeptCordoned() && node.Operation.Ours && !node.LeftOut &&
		(g.strategy == daemonset.AdvancedRollingUpdate || g.strategy == RestartsOnly || f.pinned)
}

// isCharged reports whether the node counts against the limit.
func (f *facts) isCharged(node *Node) bool {
	return f.unavailable && !node.Operation.isKeptCordonedByAnotherGroup()
}

// include adds the facts that follow from one pod.
func (f *facts) include(g *group, node *Node, pod *Pod) {
	f.unknown = f.unknown || g.members[pod.Member].Target == ""
	f.absent = f.absent || pod.isAbsent()
	f.changesAt(pod.AvailableAt)
	if node.Ready {
		f.includeAvailability(g, node, pod)
	}
	f.behind = f.behind || isBehind(g, pod)
	f.pinned = f.pinned || pod.Pin != ""
	if g.hasWork(node, pod) {
		f.outdated = true
		f.replaceable = f.replaceable || isDue(g, node, pod)
		f.heavy = f.heavy || g.needsOperation(node, pod)
		f.noSuccessor = f.noSuccessor || pod.NoSuccessor != "" && g.wants(node, pod)
	}
}

// includeAvailability adds whether a pod on a Ready node is available or Ready.
func (f *facts) includeAvailability(g *group, node *Node, pod *Pod) {
	waits := node.Operation.isKeptCordoned() || isNextAlong(g, node, pod) // for another operation
	f.moving = f.moving || !waits && g.isMoving(pod)
	switch {
	case pod.isUnready():
		if !f.unready || pod.NotReadySince.Before(f.unreadySince) {
			f.unreadySince = pod.NotReadySince
		}
		f.unready, f.unavailable = true, true
	case !pod.Available:
		f.unavailable = true
		f.awaitingMinReady = f.awaitingMinReady || !g.isOutdated(pod)
	}
}

func (f *facts) phaseOf(g *group, node *Node, now time.Time) phase {
	switch {
	case f.updated && f.pinned:
		return phasePinned
	case f.updated:
		return phaseUpdated
	case !node.Ready:
		return f.skipped(g, node, now)
	case node.Operation.isKeptCordonedByAnotherGroup():
		return phaseKeptCordoned
	case node.Operation.isOfAnotherGroup() && (node.Operation.Granted || f.heavy && !f.maySupersede(g, node.Operation, now)):
		return phaseBusy
	case !f.outdated:
		return phaseUnavailable
	case f.exclusion(g, node) != phaseCandidate:
		return f.exclusion(g, node)
	}
	return f.deferral(g, node, now)
}

// skipped returns the phase of a node that was offline before it was touched: it is not started.
func (f *facts) skipped(g *group, node *Node, now time.Time) phase {
	if skippedAt := node.ReadySince.Add(g.deadlines.Unavailable); skippedAt.After(now) {
		f.changesAt(skippedAt)
		return phaseJustOffline
	}
	return phaseOffline
}

// deferral returns the phase of a node that only has to wait before it may start, phaseCandidate if
// it may start now.
func (f *facts) deferral(g *group, node *Node, now time.Time) phase {
	returned := node.ReadySince.Add(g.policy.Returned)
	urgent := later(node.ReadySince, f.unreadySince).Add(g.deadlines.Unavailable)
	switch {
	case g.policy.Returned > 0 && g.strategy != daemonset.OTA && returned.After(now):
		f.changesAt(returned)
		return phaseRecentlyReturned
	case f.heavy && node.Retry.After(now):
		f.changesAt(node.Retry)
		return node.whyRetried()
	case node.DeniedDeletion != nil && node.DeniedDeletion.Retry.After(now):
		f.changesAt(node.DeniedDeletion.Retry)
		return phaseDeferred
	case f.unready && g.strategy != daemonset.OTA && urgent.After(now):
		f.changesAt(urgent)
		return phaseRecovering
	}
	return f.phaseByPods(node)
}

// phaseByPods returns the phase of a node that only its own pods and images may keep from starting.
func (f *facts) phaseByPods(node *Node) phase {
	switch {
	case f.awaitingMinReady && !f.unready && !node.Disturbed:
		return phaseRecovering
	case f.pull == PullFailed:
		return phasePrepullFailed
	}
	return phaseCandidate
}

// whyRetried returns the phase of a node that is retried later.
func (n *Node) whyRetried() phase {
	if n.SetBack != "" && n.NeedsRestart {
		return phaseSetBack
	}
	return phaseDeferred
}

// maySupersede reports whether an operation of another group that waits for its grant may be
// replaced: it has waited for longer than a node may take, so its group is unlikely to start the node soon.
func (f *facts) maySupersede(g *group, other *Operation, now time.Time) bool {
	if other.WaitingSince.IsZero() {
		return false
	}
	until := other.WaitingSince.Add(g.deadlines.Progress)
	if until.After(now) && !daemonset.IsAhead(other.WaitingSince, now) {
		f.changesAt(until)
		return false
	}
	return true
}

// exclusion returns the phase of a node that a limit, a hold, the policy, a missing request or an old
// node agent keeps from starting, phaseCandidate if none does.
func (f *facts) exclusion(g *group, node *Node) phase {
	switch {
	case f.noSuccessor:
		return phaseNoSuccessor
	case f.notAllowed != "" && !f.goingBack:
		return phaseVersionNotAllowed
	case !f.replaceable && leavesRestOut(g, node):
		return phaseOfRest(g, node)
	case len(node.Holds) > 0 && !node.Operation.isOursAtWork():
		return phaseHeld
	case !f.replaceable:
		return node.whyNotRequested()
	case f.heavy && !node.Operation.isOursAtWork() && g.agentLacks(node) != "":
		return phaseAgentTooOld
	case node.Operation.isKeptCordoned() && !f.heavy:
		return phaseKeptCordoned // its taint keeps new pods off the node until an operation has run
	}
	return phaseCandidate
}

// goesBack reports whether the node is rolled back individually, or is back and has to return to service. The versions that the
// policy allows do not keep it from that.
func (f *facts) goesBack(g *group, node *Node) bool {
	return f.pinned && (f.returnsByOperation(g, node) ||
		slices.ContainsFunc(node.Pods, func(pod Pod) bool { return pod.Pin != "" && isDue(g, node, &pod) }))
}

// whyNotRequested returns the phase of a node without a request.
func (n *Node) whyNotRequested() phase {
	if n.NeedsRestart && n.LeftToAdministrator != "" {
		return phaseLeftToAdministrator
	}
	return phaseAwaitingRequest
}

// leavesRestOut reports whether everything that is left to do on a node is left out.
func leavesRestOut(g *group, node *Node) bool {
	return slices.ContainsFunc(node.Pods, func(pod Pod) bool { return g.leavesOut(node, &pod) }) && !awaitsRequest(g, node)
}

// phaseOfRest returns the phase of a node on which everything that is left to do is left out.
func phaseOfRest(g *group, node *Node) phase {
	if awaitsPod(g, node) {
		return phaseUnavailable
	}
	return phaseExcluded
}

// awaitsRequest reports whether a pod of a node that is not left out lacks a request.
func awaitsRequest(g *group, node *Node) bool {
	return slices.ContainsFunc(node.Pods, func(p Pod) bool { return g.hasWork(node, &p) && !g.allows(&p) && !isLeftOut(g, node, &p) })
}

// awaitsPod reports whether a pod of a node that is not left out is missing or not available.
func awaitsPod(g *group, node *Node) bool {
	return slices.ContainsFunc(node.Pods, func(p Pod) bool {
		return !isLeftOut(g, node, &p) && !p.isAside() && (p.isAbsent() || !p.Available)
	})
}

// includePull adds the progress of pulling the images of the successor of a pod.
func (f *facts) includePull(g *group, node *Node, pod *Pod, now time.Time) {
	if !lacksImages(g, node, pod) {
		return
	}
	state, changes := pod.Pull.at(now)
	f.changesAt(changes)
	f.notPrepulled, f.pull = f.notPrepulled || state == PullByKubelet, max(f.pull, state)
}

// changesAt records a time at which the facts change by time alone.
func (f *facts) changesAt(at time.Time) {
	if !at.IsZero() && (f.changes.IsZero() || at.Before(f.changes)) {
		f.changes = at
	}
}

// includeProbation adds whether a new pod puts the node on probation.
func (f *facts) includeProbation(g *group, node *Node, pod *Pod, now time.Time) {
	until := pod.AvailableSince.Add(g.deadlines.Probation)
	if node.Ready && pod.Available && !g.isOutdated(pod) && until.After(now) && !hasLived(node, pod, now) {
		f.onProbation = true
		f.changesAt(until)
	}
}

// hasLived reports whether the kubelet of a node has renewed its Lease since a pod was available there, by its own
// clock. A renewal later than is possible was made before that clock was set back.
func hasLived(node *Node, pod *Pod, now time.Time) bool {
	since := node.Renewed.Sub(pod.AvailableWritten)
	return since >= writtenEarly && since-daemonset.MaxSkew <= max(now.Sub(pod.Created), now.Sub(pod.AvailableSince))
}

// isPassedOver reports whether waves do not wait for the node, though something is left to do.
func (f *facts) isPassedOver() bool {
	return slices.Contains(passedOver, f.phase)
}

// passedOver are the phases of nodes that waves do not wait for, though something is left to do.
var passedOver = []phase{phasePinned, phaseOffline, phaseNoSuccessor, phaseVersionNotAllowed, phaseAgentTooOld, phaseKeptCordoned}

// needsNoOperation reports whether no operation is needed on the node. An offline node may still
// need one when it is back.
func (f *facts) needsNoOperation() bool {
	switch f.phase {
	case phaseUpdated, phasePinned, phaseUnavailable, phaseHeld, phaseLeftToAdministrator, phaseAwaitingRequest, phaseExcluded, phaseVersionNotAllowed, phaseAgentTooOld:
		return true
	}
	return f.phase != phaseOffline && f.phase != phaseJustOffline && !f.heavy
}
