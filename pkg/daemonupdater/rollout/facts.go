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
	// outdated: a pod that is not terminating is not at its target, or lacks proof.
	outdated bool
	// behind: a pod that is not terminating is not at its target.
	behind bool
	// pinned: a pod is kept at an earlier revision than its target, or goes back to it.
	pinned bool
	// replaceable: such a pod may be replaced, or verified, under the strategy.
	replaceable bool
	// heavy: an operation has to replace one of them, or an operation keeps the node cordoned.
	heavy bool
	// available: the node is Ready, every pod on it is available, and no operation has it out
	// of service. unavailable: the node is Ready, but the rest is not so. An offline node is neither.
	// charged: the node is unavailable and counts against the limit. One that another group keeps out
	// of service does not, though that may keep pods of this group from it.
	available, unavailable, charged bool
	// unready: the node is Ready, and a pod on it is not, since unreadySince; pods that only wait
	// for minReadySeconds are left out.
	unready      bool
	unreadySince time.Time
	// settling: a pod at its target only waits for minReadySeconds.
	settling bool
	// onProbation: the node is Ready, and its kubelet has not renewed its Lease since a pod at its
	// target became available: the node may be dead already.
	onProbation bool
	// pull is how far the images are that the node needs before it starts; notPrepulled: some are left to
	// the kubelet.
	pull         PullState
	notPrepulled bool
	// noSuccessor: a pod that would be replaced has no successor.
	noSuccessor bool
	// notAllowed is why the policy does not allow the versions that the node would get, "" if it does.
	notAllowed string
	// moving: the node is Ready, and a pod is missing, terminating, or at its target and not
	// available, or an operation is at work. The node is in flight, even without a slot. The
	// pods of a node that an ended operation keeps cordoned do not count: they wait for another
	// operation.
	moving bool
	// updated: nothing is left to do on the node. An offline node is updated when its pods
	// are at the target, in any state.
	updated bool
	// suspect is the youngest pod that may have taken the node offline: the node went offline shortly
	// after the pod was created, with all pods at their targets; nil if there is none.
	suspect *Pod
	// phase follows from the above; changes is when the facts may change by time alone, zero for
	// never.
	phase   phase
	changes time.Time
}

// phase is how far a node is according to its facts.
type phase int

const (
	// phaseUpdated: nothing is left to do.
	phaseUpdated phase = iota
	// phasePinned: the same, and a pod is kept at an earlier revision than its target.
	phasePinned
	// phaseOffline: something is left to do, and the node has been offline for some time.
	phaseOffline
	// phaseJustOffline: the same, for too short a time to be skipped.
	phaseJustOffline
	// phaseUnavailable: a pod is missing or not available, and none is outdated.
	phaseUnavailable
	// phaseHeld: something is left to do, and a hold excludes the node.
	phaseHeld
	// phaseLeftToAdministrator: an administrator has to restart the container runtime.
	phaseLeftToAdministrator
	// phaseAwaitingRequest: outdated, and the strategy does not replace its pods: OTA without a
	// request.
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
	// phaseRecentlyReturned: not Ready for long enough to start.
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
	// phaseCandidate: may start.
	phaseCandidate

	phases = int(phaseCandidate) + 1
)

// factsOf derives the facts of a node and its pods at the given time.
func (g *group) factsOf(node *Node, now time.Time) facts {
	f := facts{unavailable: node.Ready && node.Disturbed && !node.Job.isKeptCordonedByAnotherGroup(), moving: node.Ready && node.Job.isOursAtWork()}
	for i := range node.Pods {
		f.include(g, node, &node.Pods[i])
		f.includeProbation(g, node, &node.Pods[i], now)
		f.includePull(g, node, &node.Pods[i], now)
	}
	if f.returnsByOperation(g, node) {
		f.outdated, f.replaceable, f.heavy = true, true, true // it needs another operation before it is known to work
	}
	if f.heavy || f.pinned || f.unready || node.Disturbed {
		f.pull, f.notPrepulled = PullNone, false // an operation pulls its images itself, and a node that is unavailable loses nothing
	}
	f.notAllowed = whyNotAllowed(g, node)
	f.available = node.Ready && !f.unavailable
	f.charged = f.isCharged(node)
	f.updated = !f.unknown && !f.outdated && (f.available || !node.Ready && !f.absent)
	f.phase = f.phaseOf(g, node, now)
	f.suspect = f.suspectOf(g, node)
	return f
}

// returnsByOperation reports whether an ended operation of the group keeps the node out of service, and another
// one is to bring it back.
func (f *facts) returnsByOperation(g *group, node *Node) bool {
	return node.Job.isKeptCordoned() && node.Job.Ours && !node.LeftOut &&
		(g.strategy == daemonset.AdvancedRollingUpdate || g.strategy == RestartsOnly || f.pinned)
}

// isCharged reports whether the node counts against the limit.
func (f *facts) isCharged(node *Node) bool {
	return f.unavailable && !node.Job.isKeptCordonedByAnotherGroup()
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

// includeAvailability adds whether a pod on a Ready node is available, or not even Ready.
func (f *facts) includeAvailability(g *group, node *Node, pod *Pod) {
	f.moving = f.moving || !node.Job.isKeptCordoned() && g.isMoving(pod) // a node kept cordoned waits for another operation
	switch {
	case pod.isAbsent() || !pod.Available && pod.AvailableAt.IsZero():
		if !f.unready || pod.NotReadySince.Before(f.unreadySince) {
			f.unreadySince = pod.NotReadySince
		}
		f.unready, f.unavailable = true, true
	case !pod.Available:
		f.unavailable = true
		f.settling = f.settling || !g.isOutdated(pod)
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
	case node.Job.isKeptCordonedByAnotherGroup():
		return phaseKeptCordoned
	case node.Job.isOfAnotherGroup() && (node.Job.Granted || f.heavy && !f.maySupersede(g, node.Job, now)):
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
	if settled := node.ReadySince.Add(g.deadlines.Unavailable); settled.After(now) {
		f.changesAt(settled)
		return phaseJustOffline
	}
	return phaseOffline
}

// deferral returns the phase of a node that would be started but for the time, phaseCandidate if
// it may be started now.
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
	case node.Denied != nil && node.Denied.Retry.After(now):
		f.changesAt(node.Denied.Retry)
		return phaseDeferred
	case f.unready && g.strategy != daemonset.OTA && urgent.After(now):
		f.changesAt(urgent)
		return phaseRecovering
	}
	return f.settlingOrReady(node)
}

// settlingOrReady returns the phase of a node of which nothing but its own pods and images keeps a start.
func (f *facts) settlingOrReady(node *Node) phase {
	switch {
	case f.settling && !f.unready && !node.Disturbed:
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

// maySupersede reports whether an operation of another group, which waits for its grant, may be
// replaced: it has waited for longer than a node may take, so its group may not use the node soon.
func (f *facts) maySupersede(g *group, job *Job, now time.Time) bool {
	if job.WaitsSince.IsZero() {
		return false
	}
	until := job.WaitsSince.Add(g.deadlines.Progress)
	if until.After(now) && !daemonset.IsAhead(job.WaitsSince, now) {
		f.changesAt(until)
		return false
	}
	return true
}

// exclusion returns the phase of a node that limits, holds, a missing request or an old node
// agent keep from starting, phaseCandidate if none does.
func (f *facts) exclusion(g *group, node *Node) phase {
	switch {
	case f.noSuccessor:
		return phaseNoSuccessor
	case f.notAllowed != "" && !f.goesBack(g, node):
		return phaseVersionNotAllowed
	case !f.replaceable && leavesRestOut(g, node):
		return phaseOfRest(g, node)
	case len(node.Holds) > 0 && !node.Job.isOursAtWork():
		return phaseHeld
	case !f.replaceable:
		return node.whyNotRequested()
	case f.heavy && !node.Job.isOursAtWork() && g.agentLacks(node) != "":
		return phaseAgentTooOld
	case node.Job.isKeptCordoned() && !f.heavy:
		return phaseKeptCordoned // its taint keeps successors off the node: an operation has to come first
	}
	return phaseCandidate
}

// goesBack reports whether the node goes back alone, or is back and out of service, which no version keeps it from.
func (f *facts) goesBack(g *group, node *Node) bool {
	return f.pinned && (f.returnsByOperation(g, node) ||
		slices.ContainsFunc(node.Pods, func(pod Pod) bool { return pod.Pin != "" && isDue(g, node, &pod) }))
}

// whyNotRequested returns the phase of a node for which nobody has asked.
func (n *Node) whyNotRequested() phase {
	if n.NeedsRestart && n.LeftToAdministrator != "" {
		return phaseLeftToAdministrator
	}
	return phaseAwaitingRequest
}

// leavesRestOut reports whether the upgrade is limited to others than all that is left to do on a node.
func leavesRestOut(g *group, node *Node) bool {
	return slices.ContainsFunc(node.Pods, func(pod Pod) bool { return g.leavesOut(node, &pod) }) && !awaitsRequest(g, node)
}

// phaseOfRest returns the phase of a node on which the upgrade leaves the rest out.
func phaseOfRest(g *group, node *Node) phase {
	if awaitsPod(g, node) {
		return phaseUnavailable
	}
	return phaseExcluded
}

// awaitsRequest reports whether the upgrade is about a pod of a node for which nobody has asked there.
func awaitsRequest(g *group, node *Node) bool {
	return slices.ContainsFunc(node.Pods, func(p Pod) bool { return g.hasWork(node, &p) && !g.allows(&p) && !isLeftOut(g, node, &p) })
}

// awaitsPod reports whether a pod of a node that the upgrade is about is missing or not available.
func awaitsPod(g *group, node *Node) bool {
	return slices.ContainsFunc(node.Pods, func(p Pod) bool {
		return !isLeftOut(g, node, &p) && !p.isAside() && (p.isAbsent() || !p.Available)
	})
}

// includePull adds how far the images of the successor of a pod are.
func (f *facts) includePull(g *group, node *Node, pod *Pod, now time.Time) {
	if !lacksImages(g, node, pod) {
		return
	}
	state, changes := pod.Pull.at(now)
	f.changesAt(changes)
	f.notPrepulled, f.pull = f.notPrepulled || state == PullLeft, max(f.pull, state)
}

// changesAt records a time at which the facts change by time alone.
func (f *facts) changesAt(at time.Time) {
	if !at.IsZero() && (f.changes.IsZero() || at.Before(f.changes)) {
		f.changes = at
	}
}

// includeProbation adds whether a new pod has the node on probation.
func (f *facts) includeProbation(g *group, node *Node, pod *Pod, now time.Time) {
	until := pod.AvailableSince.Add(g.deadlines.Probation)
	if node.Ready && pod.Available && !g.isOutdated(pod) && until.After(now) && !hasLived(node, pod, now) {
		f.onProbation = true
		f.changesAt(until)
	}
}

// hasLived reports whether the kubelet of a node has renewed its Lease since a pod was available there, by its own
// clock. A renewal that is later than can be was made before that clock went back.
func hasLived(node *Node, pod *Pod, now time.Time) bool {
	const early = time.Second // that the pod's time may be written too early
	since := node.Renewed.Sub(pod.AvailableWritten)
	return since >= early && since-daemonset.MaxSkew <= max(now.Sub(pod.Created), now.Sub(pod.AvailableSince))
}

// suspectOf returns the youngest pod that may have taken the node offline: those before it had to be
// available first.
func (f *facts) suspectOf(g *group, node *Node) (suspect *Pod) {
	if node.Ready || f.phase != phaseUpdated || g.deadlines.Probation == 0 {
		return nil
	}
	for i := range node.Pods {
		pod := &node.Pods[i]
		fits := !pod.isAside() && !node.ReadyWritten.Before(pod.Created) && !node.ReadyWritten.After(pod.Created.Add(g.deadlines.Probation))
		if fits && (suspect == nil || pod.Created.After(suspect.Created)) {
			suspect = pod
		}
	}
	return suspect
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
