package rollout

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	"github.com/topsops/gcu-operator/pkg/daemonset"
)

// isInFlight reports whether the node is in flight by the ledger or by live facts.
func (n *Node) isInFlight() bool { return n.slot != nil || n.moving }

// countsAsUnavailable reports whether the node counts against the limit.
func (n *Node) countsAsUnavailable() bool { return n.slot != nil || n.charged }

// mayBeAvailable reports whether a node is available, or Ready with pods that only wait for
// minReadySeconds, which may be over by the clock of its kubelet.
func (n *Node) mayBeAvailable() bool {
	return n.available || n.Ready && !n.unready && !n.Disturbed
}

// hasRecovered reports whether the node is Ready and updated, even if it failed before.
func (n *Node) hasRecovered() bool { return n.Ready && n.updated }

// isOtherMachine reports whether a failure of a node of this name was on another machine.
func (n *Node) isOtherMachine(failure *Failure) bool {
	return n.Machine != "" && failure.Machine != "" && n.Machine != failure.Machine
}

// isStartable reports whether a candidate has no slot, is requested if need be, and did not fail at this
// revision. A failed node may start again if it was lost and is back, or if what may have failed is requested again.
func (n *Node) isStartable() bool {
	if n.slot != nil || n.queued || !n.hasAllowedWork() {
		return false
	}
	return n.failure == nil || n.failure.Reason == ReasonNodeLost || n.isRequestedAgain(n.failure)
}

// isRequestedAgain reports whether a request that does not run yet, for a member with which the node may start again, is newer
// than those before the failure, both by the node's clock. One that runs does not count, because that clock may have been ahead.
func (n *Node) isRequestedAgain(failure *Failure) bool {
	return slices.ContainsFunc(n.Pods, func(pod Pod) bool {
		return n.group.isRequested(&pod) && !pod.RequestRuns && pod.Request.RequestTime.After(failure.Requested) && startsAgainWith(n, pod.Member, failure)
	})
}

// startsAgainWith reports whether a request for a member may start a node again that failed: the member may have failed, or
// nothing is left to do for those that may have, which could be what they need.
func startsAgainWith(n *Node, member int, failure *Failure) bool {
	mayHaveFailed := func(of int) bool {
		return failure.blames(n.group.members[of].Key)
	}
	return len(failure.Targets) == 0 || mayHaveFailed(member) || !slices.ContainsFunc(n.Pods, func(pod Pod) bool {
		return mayHaveFailed(pod.Member) && n.group.hasWork(n, &pod)
	})
}

// hasAllowedWork reports whether some of the work left on a candidate is requested, or needs no request. Under OTA,
// a request that lost its slot does not start the node for another revision than the requested one.
func (n *Node) hasAllowedWork() bool {
	return n.group.strategy != daemonset.OTA || slices.ContainsFunc(n.Pods, func(pod Pod) bool {
		return (n.group.isRequested(&pod) || pod.Pin != "" || pod.runsNothing() || lacksCards(n.group, &pod) || n.group.restartsWithoutRequest(n, &pod)) && isDue(n.group, n, &pod)
	})
}

// isBusy reports whether an operation of another group has taken the node out of service. Then nothing
// may be done there (invariant S6), and a slot has no use.
func (n *Node) isBusy() bool { return n.Disturbed && n.Operation.isOfAnotherGroup() }

// onlyAwaitsOthers reports whether nothing was done under a slot, nor came by itself and does not work, because its node needs an operation
// and there is one of another group.
func (s *Slot) onlyAwaitsOthers(n *Node) bool {
	return len(s.Members) == 0 && n.heavy && n.Operation.isOfAnotherGroup() && !slices.ContainsFunc(n.Pods, func(pod Pod) bool {
		return !pod.Available && !n.group.isOutdated(&pod)
	})
}

// yields reports whether the node gives its slot back because of the operation of another group. A node
// that this group made unavailable keeps its slot until that operation has ended, or until its deadline:
// if it went offline without a slot, it would no longer count as unavailable.
func (n *Node) yields() bool {
	return n.Ready && n.isBusy() && (!n.unready && !n.awaitingMinReady || n.Operation.isKeptCordonedByAnotherGroup())
}

// slotWaitsFor reports whether the node's slot waits for a pod. Under OTA it waits only for pods that are
// requested or need no request, and for members replaced under the slot, even if that was before
// the strategy became OTA.
func (n *Node) slotWaitsFor(pod *Pod) bool {
	if n.group.strategy != daemonset.OTA || pod.Request != nil || pod.Pin != "" || pod.runsNothing() || lacksCards(n.group, pod) {
		return true
	}
	return n.slot != nil && slices.Contains(n.slot.Members, n.group.keyOf(pod))
}

// isFinished reports whether the node no longer needs its slot: nothing may be replaced now, and every
// pod that it waits for is available, including outdated ones.
func (n *Node) isFinished() bool {
	if len(n.Pods) == 0 {
		return true
	}
	return n.Ready && !n.replaceable && !slices.ContainsFunc(n.Pods, func(pod Pod) bool {
		return n.slotWaitsFor(&pod) && (pod.isAbsent() || !pod.Available)
	}) && !awaitsCards(n.group, n.slot, n.Pods)
}

// isIdle reports whether the slot has no work in progress: the pod that it names is gone, and the node is
// available and offers its cards. When the target changes, such a node queues again like any other.
func (n *Node) isIdle(slot *Slot) bool {
	return n.available && !awaitsCards(n.group, slot, n.Pods) && !slices.ContainsFunc(n.Pods, func(pod Pod) bool { return pod.UID == slot.Pod })
}

// isDenied reports whether the API server, or a webhook, denies the deletion of the pod that a slot names.
// An offline node does not wait for that.
func (n *Node) isDenied(slot *Slot) bool {
	return n.Ready && n.DeniedDeletion != nil && n.DeniedDeletion.Object == slot.Pod
}

// isDeniedPastDeadline reports whether the deletion has been denied for longer than the deadline: then the
// node waits without a slot.
func (n *Node) isDeniedPastDeadline(slot *Slot, in *Input) bool {
	return n.isDenied(slot) && !in.Now.Before(n.DeniedDeletion.Since.Add(in.Deadlines.Progress))
}

// whyNoSuccessor says which pod of the node would get no successor, and why.
func whyNoSuccessor(n *Node) string {
	for i := range n.Pods {
		if pod := &n.Pods[i]; pod.NoSuccessor != "" && n.group.wants(n, pod) {
			return fmt.Sprintf("no pod of %s would be created in place of %s: %s", n.group.keyOf(pod), pod.Name, pod.NoSuccessor)
		}
	}
	return "no pod would be created in place of another"
}

// whyAgentTooOld says which capability the node agent lacks.
func whyAgentTooOld(n *Node) string {
	agent := strings.TrimSpace("the node agent " + n.Agent.Version)
	return fmt.Sprintf("%s on node %s cannot do %s, which the operation needs: upgrade the node agent", agent, n.Name, n.group.agentLacks(n))
}

// needsAnotherOperation reports whether a heavy member has to be replaced or verified although the operation
// of a slot is done. An outdated pod that is older than the slot only means that the cache is stale, unless
// the operation left it so because of a pin that has ended since. Whether a pod has to be verified is read
// together with the operation, so it is not stale.
func (n *Node) needsAnotherOperation(slot *Slot, end *End) bool {
	return slices.ContainsFunc(n.Pods, func(pod Pod) bool {
		key := n.group.keyOf(&pod)
		return n.group.toVerify(n, &pod) ||
			n.group.needsOperation(n, &pod) && (slot.isNew(&pod) || !slices.Contains(slot.Members, key) || slices.Contains(end.Left, Target{key, pod.Revision}))
	})
}

// crashLooping returns a crash-looping pod at its target that was created under the slot. A pod
// that is older says nothing about the new version.
func (n *Node) crashLooping(slot *Slot) *Pod {
	for i := range n.Pods {
		pod := &n.Pods[i]
		if pod.CrashLooping != "" && slot.isNew(pod) && n.slotWaitsFor(pod) && !pod.Terminating && !n.group.isOutdated(pod) {
			return pod
		}
	}
	return nil
}

// nextPod returns the pod to delete now, nil if the node waits for something. Pods are replaced in member
// order, each after the one before is available. Pods that run nothing come first, so that an old version
// does not start when its rival is gone. The plugin of a node that offers no cards comes last, because it
// shows that the others have none.
func (n *Node) nextPod() *Pod {
	for i := range n.Pods {
		if pod := &n.Pods[i]; pod.runsNothing() && n.group.toReplace(n, pod) {
			return pod
		}
	}
	for _, pod := range pluginLast(n.Pods) {
		if !n.slotWaitsFor(pod) {
			continue
		}
		if n.group.needsOperation(n, pod) {
			return nil
		}
		if n.group.toReplace(n, pod) {
			return pod
		}
		if n.group.isOutdated(pod) || pod.Available {
			continue
		}
		return nil
	}
	return nil
}

// pluginLast returns the pods in their order, but the plugin of a node that offers no cards last.
func pluginLast(pods []Pod) []*Pod {
	var list, last []*Pod
	for i := range pods {
		if pods[i].OffersNone {
			last = append(last, &pods[i])
		} else {
			list = append(list, &pods[i])
		}
	}
	return append(list, last...)
}

// membersOf returns the keys of the members that an operation of the node is for: those whose pods have to be replaced or verified,
// and, if it exists, the heavy ones among its targets, whose pods may be missing now. On a node that is kept cordoned it is for all heavy
// ones (observed.NewOperation).
func (n *Node) membersOf(operation string) []string {
	var keys []string
	for i := range n.Pods {
		pod := &n.Pods[i]
		key := n.group.keyOf(pod)
		covered := n.Operation.isFor(operation, key) || n.Operation.isKeptCordoned() && !isDisallowed(n.group, n, pod)
		if isDue(n.group, n, pod) || n.group.members[pod.Member].Heavy && covered {
			keys = append(keys, key)
		}
	}
	return keys
}

// operationOn returns the operation of a slot, nil if its node does not have it.
func (s *Slot) operationOn(n *Node) *Operation {
	if n.Operation == nil || n.Operation.ID != s.Operation {
		return nil
	}
	return n.Operation
}

// progress returns what a node in flight waits for.
func (n *Node) progress() (Reason, string) {
	if message := n.whyNotFenced(); message != "" { // also of a node that is offline: the slot waits for nothing else any more
		return ReasonFenceDenied, message
	}
	if !n.Ready {
		return ReasonNodeLost, "the node went offline after it was started; it keeps its slot until it is back"
	}
	if n.slot != nil && n.slot.Operation != "" && endOf(n.slot.Operation, n.Ended) == nil {
		written := n.slot.operationOn(n) != nil
		if n.DeniedOperation != nil && (!written || !n.Operation.Granted) {
			return ReasonOperationDenied, "the API server denied a write of the operation of the node; retrying: " + n.DeniedOperation.Message
		}
		if !written {
			return ReasonOperating, fmt.Sprintf("operation %s is being created", n.slot.Operation)
		}
		return ReasonOperating, n.Operation.Message
	}
	for i := range n.Pods {
		if reason, message := n.progressOf(&n.Pods[i]); reason != "" {
			return reason, message
		}
	}
	return ReasonReplacing, "pods are being replaced"
}

// whyNotFenced says why a pod cannot be fenced before the slot of the node is given back, "" if nothing is known against it.
func (n *Node) whyNotFenced() string {
	if !n.fencing || n.DeniedFence == nil {
		return ""
	}
	return "the API server denied a write to a pod of the node that must come before its slot is given back; retrying: " + n.DeniedFence.Message
}

// progressOf returns what a node in flight waits for because of one of its pods, "" for nothing.
func (n *Node) progressOf(pod *Pod) (Reason, string) {
	member := n.group.keyOf(pod)
	old := (n.group.isOutdated(pod) || lacksCards(n.group, pod)) && !isLeftOut(n.group, n, pod)
	switch {
	case !n.slotWaitsFor(pod):
		return "", ""
	case pod.UID == "":
		return ReasonAwaitingPod, fmt.Sprintf("waiting for the DaemonSet controller to create the pod of %s", member)
	case pod.Terminating:
		return ReasonTerminating, fmt.Sprintf("waiting for pod %s of %s to terminate", pod.Name, member)
	case old && n.DeniedDeletion != nil && n.DeniedDeletion.Object == pod.UID:
		return ReasonDeletionDenied, deniedMessage(n.DeniedDeletion)
	case old:
		return ReasonReplacing, fmt.Sprintf("replacing pod %s of %s", pod.Name, member)
	case whyAtGate(n, pod) != "":
		return ReasonAwaitingPod, fmt.Sprintf("pod %s of %s waits at the gate %s", pod.Name, member, whyAtGate(n, pod))
	case !pod.Available:
		return ReasonAwaitingAvailable, fmt.Sprintf("waiting for pod %s of %s to be available", pod.Name, member)
	case pod.OffersNone && awaitsCards(n.group, n.slot, n.Pods):
		return ReasonAwaitingAvailable, fmt.Sprintf("waiting for pod %s of %s to advertise the cards of the node", pod.Name, member)
	}
	return "", ""
}

// whyAtGate says why a pod is still at the gate, "" if it is not, or if that is only a matter of the next pass.
func whyAtGate(n *Node, pod *Pod) string {
	switch {
	case !pod.Gated:
		return ""
	case n.DeniedAtGate != nil && n.DeniedAtGate.Object == pod.UID:
		return "because the API server denied a write; retrying: " + n.DeniedAtGate.Message
	case pod.Pin != "":
		return fmt.Sprintf("until the pod of revision %s, at which the node is pinned, is created", pod.Pin)
	}
	return ""
}

// deniedMessage says which deletion the API server denied. It names no time, so that it stays the same.
func deniedMessage(d *Denial) string {
	return "the API server denied the deletion of a pod of the node; retrying: " + d.Message
}

// candidateLane returns the lane of the node as a candidate.
func (n *Node) candidateLane() lane {
	urgency := healthy
	switch {
	case !n.unready && !n.Disturbed:
	case n.moving:
		urgency = inFlightAlready
	case n.unavailable:
		urgency = unavailableAlready
	}
	return lane{
		priority: priority{denied: n.DeniedDeletion != nil, urgency: urgency, wave: n.wave, place: n.group.place(n)},
		zone:     n.Zone, pool: n.Pool, timeZone: n.TimeZone, zoneError: n.ZoneError,
		heavy: n.heavy, goingBack: n.goingBack, unprepared: n.heavy && !n.group.isPrepared(n) || n.pull.isAwaited(),
	}
}

// compareHash orders nodes by a stable hash of the name, so that the same input gives the same
// order. Names with different prefixes are spread; those that differ only in their last digits may stay
// together.
func (n *Node) compareHash(other *Node) int {
	return cmp.Or(cmp.Compare(n.hash, other.hash), cmp.Compare(n.Name, other.Name))
}

func hashOf(name string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name)) // never fails
	return h.Sum64()
}

// pinMessage says why the node is kept at an earlier revision.
func pinMessage(n *Node) string {
	for i := range n.pins {
		if n.pins[i].AppliesTo(n.Machine) {
			return n.pins[i].Message
		}
	}
	return ""
}

// suspectsOf returns the keys of the members that may have failed a node.
func suspectsOf(n *Node) (keys []string) {
	if n.failure != nil {
		for _, t := range n.failure.Targets {
			keys = append(keys, t.Member)
		}
		return keys
	}
	for i := range n.pins {
		if pin := &n.pins[i]; pin.Failed && pin.AppliesTo(n.Machine) {
			keys = append(keys, pin.Member)
		}
	}
	return keys
}

// whyNotPulled says why the images of a node could not be pulled. It names no time, so that it stays the same.
func whyNotPulled(n *Node) string {
	for i := range n.Pods {
		if pod := &n.Pods[i]; pod.Pull.State == PullFailed && lacksImages(n.group, n, pod) {
			return "the pod of " + n.group.keyOf(pod) + " stays because the images of its successor cannot be pulled; retrying: " + pod.Pull.Message
		}
	}
	return "the images cannot be pulled"
}
