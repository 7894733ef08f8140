package rollout

import (
	"slices"
	"time"

	"github.com/topsops/gcu-operator/pkg/daemonset"
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
	f.unbound = f.unbound || pod.Unbound && !pod.runsNothing()
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
	f.moving = f.moving || !waits && !pod.isBack() && g.isMoving(pod)
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
	urgent := f.urgentAt(g, node)
	switch {
	case g.policy.Returned > 0 && g.strategy != daemonset.OTA && returned.After(now):
		f.changesAt(returned)
		return phaseRecentlyReturned
	case f.heavy && node.Retry.After(now):
		f.changesAt(node.Retry)
		return whyRetried(node)
	case node.DeniedDeletion != nil && node.DeniedDeletion.Retry.After(now):
		f.changesAt(node.DeniedDeletion.Retry)
		return phaseDeferred
	case f.unready && g.strategy != daemonset.OTA && urgent.After(now):
		f.changesAt(urgent)
		return phaseRecovering
	}
	return f.phaseByPods(node)
}

// urgentAt returns when a node with an unready pod has been so for long enough to be down, and not only about to be back.
func (f *facts) urgentAt(g *group, node *Node) time.Time {
	return later(node.ReadySince, f.unreadySince).Add(g.deadlines.Unavailable)
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
func whyRetried(n *Node) phase {
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
		return whyNotRequested(node)
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
func whyNotRequested(n *Node) phase {
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
		return !isLeftOut(g, node, &p) && !p.runsNothing() && (p.isAbsent() || !p.Available)
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
