package rollout

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"github.com/topsops/gcu-operator/pkg/daemonset"
)

// fleetNode is a node with its facts, and with what the current decision records for it.
type fleetNode struct {
	Node
	facts
	ledgerEntry
	group *group
	hash  uint64

	// pins of the ledger for its name.
	pins []Pin
	// wave is the index of its wave, lane its lane while it is a candidate.
	wave int
	lane *lane
}

// ledgerEntry is what the current decision stores of a node in the ledger. The slot of a queued node is not in
// flight, so it is not here.
type ledgerEntry struct {
	queued  bool
	slot    *Slot
	failure *Failure
	// fencing: its slot is kept until a pod has been written to.
	fencing bool
	// listed: the node is in nodeIndex.recorded.
	listed bool
}

// isEmpty reports whether a node has neither a slot nor a failure and is not queued.
func (e *ledgerEntry) isEmpty() bool { return e.slot == nil && e.failure == nil && !e.queued }

// isInFlight reports whether the node is in flight by the ledger or by live facts.
func (n *fleetNode) isInFlight() bool { return n.slot != nil || n.moving }

// countsAsUnavailable reports whether the node counts against the limit.
func (n *fleetNode) countsAsUnavailable() bool { return n.slot != nil || n.charged }

// mayBeAvailable reports whether nothing but minReadySeconds is missing on a Ready node: they may be
// over by the clock of its kubelet.
func (n *fleetNode) mayBeAvailable() bool {
	return n.available || n.Ready && !n.unready && !n.Disturbed
}

// hasRecovered reports whether the node is Ready and updated, even if it failed before.
func (n *fleetNode) hasRecovered() bool { return n.Ready && n.updated }

// isOtherMachine reports whether a failure of the same name was that of another machine.
func (n *fleetNode) isOtherMachine(failure *Failure) bool {
	return n.Machine != "" && failure.Machine != "" && n.Machine != failure.Machine
}

// isStartable reports whether a candidate has no slot and did not fail at this revision. A failed
// node may start again if it was lost and is back, or if it has a newer request.
func (n *fleetNode) isStartable() bool {
	if n.slot != nil || n.queued || !n.isAgreed() {
		return false
	}
	return n.failure == nil || n.failure.Reason == ReasonNodeLost || n.hasRequestAfter(n.failure.Requested)
}

// hasRequestAfter reports whether a request that does not run yet is newer than another time of the node's clock, which
// may have been ahead.
func (n *fleetNode) hasRequestAfter(at time.Time) bool {
	return slices.ContainsFunc(n.Pods, func(pod Pod) bool { return n.group.isAsked(&pod) && !pod.Request.Running && pod.Request.Time.After(at) })
}

// isAgreed reports whether the work left on a candidate is agreed to, or needs no request: under OTA a
// request that lost its slot does not start the node for another revision than it is for.
func (n *fleetNode) isAgreed() bool {
	return n.group.strategy != daemonset.OTA || slices.ContainsFunc(n.Pods, func(pod Pod) bool {
		return (n.group.isAsked(&pod) || pod.Pin != "" || pod.isAside() || lacksCards(n.group, &pod) || n.group.restartsWithoutRequest(&n.Node, &pod)) && isDue(n.group, &n.Node, &pod)
	})
}

// isBusy reports whether an operation of another group has the node out of service. Then nothing
// may be done there (invariant S6), and a slot is of no use.
func (n *fleetNode) isBusy() bool { return n.Disturbed && n.Job.isOfAnotherGroup() }

// yields reports whether the node gives its slot back to the operation of another group. One that
// this group took down keeps it until that operation has ended, or its deadline: the node may go
// offline, and would not count as unavailable any more.
func (n *fleetNode) yields() bool {
	return n.Ready && n.isBusy() && (!n.unready && !n.settling || n.Job.isKeptCordonedByAnotherGroup())
}

// slotWaitsFor reports whether the node's slot waits for a pod. Under OTA it waits only for
// members with a request and for those replaced under the slot, even if that was before the
// strategy became OTA.
func (n *fleetNode) slotWaitsFor(pod *Pod) bool {
	if n.group.strategy != daemonset.OTA || pod.Request != nil || pod.Pin != "" || pod.isAside() || lacksCards(n.group, pod) {
		return true
	}
	return n.slot != nil && slices.Contains(n.slot.Members, n.group.keyOf(pod))
}

// isFinished reports whether the node no longer needs its slot: nothing is left to replace, and
// every pod it waits for is available, including outdated ones that may not be replaced now.
func (n *fleetNode) isFinished() bool {
	if len(n.Pods) == 0 {
		return true
	}
	return n.Ready && !n.replaceable && !slices.ContainsFunc(n.Pods, func(pod Pod) bool {
		return n.slotWaitsFor(&pod) && (pod.isAbsent() || !pod.Available)
	}) && !awaitsCards(n.group, n.slot, n.Pods)
}

// isIdle reports whether the slot has no work in progress: the pod it names is replaced, and the
// node is available and offers its cards. When the target changes, such a node queues again like any other.
func (n *fleetNode) isIdle(slot *Slot) bool {
	return n.available && !awaitsCards(n.group, slot, n.Pods) && !slices.ContainsFunc(n.Pods, func(pod Pod) bool { return pod.UID == slot.Pod })
}

// isDenied reports whether the API server refuses to delete the pod of a slot. An offline node does
// not wait for that.
func (n *fleetNode) isDenied(slot *Slot) bool {
	return n.Ready && n.Denied != nil && n.Denied.Pod == slot.Pod
}

// isRefused reports whether it has done so for longer than the deadline: then the node waits without
// a slot.
func (n *fleetNode) isRefused(slot *Slot, in *Input) bool {
	return n.isDenied(slot) && !in.Now.Before(n.Denied.Since.Add(in.Deadlines.Progress))
}

// whyNoSuccessor says which pod of the node would have no successor, and why.
func (n *fleetNode) whyNoSuccessor() string {
	for i := range n.Pods {
		if pod := &n.Pods[i]; pod.NoSuccessor != "" && n.group.wants(&n.Node, pod) {
			return fmt.Sprintf("no pod of %s would be created in place of %s: %s", n.group.keyOf(pod), pod.Name, pod.NoSuccessor)
		}
	}
	return "no pod would be created in place of another"
}

// whyAgentTooOld says what the node agent cannot do.
func (n *fleetNode) whyAgentTooOld() string {
	agent := strings.TrimSpace("the node agent " + n.Agent.Version)
	return fmt.Sprintf("%s on node %s cannot do %s, which the operation needs: upgrade the node agent", agent, n.Name, n.group.agentLacks(&n.Node))
}

// needsAnotherOperation reports whether a heavy member needs replacing or verifying again since the
// operation of a slot was done. An outdated pod older than the slot only means that the cache is
// stale, unless the operation left it so, for a pin that has ended since; what lacks proof is read together with the operation.
func (n *fleetNode) needsAnotherOperation(slot *Slot, end *End) bool {
	return slices.ContainsFunc(n.Pods, func(pod Pod) bool {
		key := n.group.keyOf(&pod)
		return n.group.toVerify(&n.Node, &pod) ||
			n.group.needsOperation(&n.Node, &pod) && (slot.isNew(&pod) || !slices.Contains(slot.Members, key) || slices.Contains(end.Left, Target{key, pod.Revision}))
	})
}

// crashLooping returns a crash-looping pod at its target that was created under the slot. A pod
// that is older says nothing about the new version.
func (n *fleetNode) crashLooping(slot *Slot) *Pod {
	for i := range n.Pods {
		pod := &n.Pods[i]
		if pod.CrashLooping != "" && slot.isNew(pod) && n.slotWaitsFor(pod) && !pod.Terminating && !n.group.isOutdated(pod) {
			return pod
		}
	}
	return nil
}

// nextPod returns the pod to delete now, nil when the node waits for something. Pods are replaced
// in member order, each after the one before is available; before them those that run nothing, so
// that an old version does not start when its rival is gone, and last the plugin of a node that offers
// no cards, which shows that the others have none.
func (n *fleetNode) nextPod() *Pod {
	for i := range n.Pods {
		if pod := &n.Pods[i]; pod.isAside() && n.group.toReplace(&n.Node, pod) {
			return pod
		}
	}
	for _, pod := range pluginLast(n.Pods) {
		if !n.slotWaitsFor(pod) {
			continue
		}
		if n.group.needsOperation(&n.Node, pod) {
			return nil
		}
		if n.group.toReplace(&n.Node, pod) {
			return pod
		}
		if n.group.isOutdated(pod) || pod.Available {
			continue
		}
		return nil
	}
	return nil
}

// pluginLast returns pods in their order, after them the plugin of a node that offers no cards.
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

// membersToReplace returns the keys of the members whose pods have to be replaced or verified.
func (n *fleetNode) membersToReplace() []string {
	var keys []string
	for i := range n.Pods {
		if pod := &n.Pods[i]; isDue(n.group, &n.Node, pod) {
			keys = append(keys, n.group.keyOf(pod))
		}
	}
	return keys
}

// progress returns what a node in flight waits for.
func (n *fleetNode) progress() (Reason, string) {
	if !n.Ready {
		return ReasonNodeLost, "the node went offline after it was started; it keeps its slot until it is back"
	}
	if n.fencing && n.Unfenced != nil {
		return ReasonFenceDenied, "the API server refuses a write to a pod of the node, without which its slot is not given back; it is tried again: " + n.Unfenced.Message
	}
	if n.slot != nil && n.slot.Operation != "" && endOf(n.slot.Operation, n.Ended) == nil {
		written := n.Job != nil && n.Job.ID == n.slot.Operation
		if n.Unordered != nil && (!written || !n.Job.Granted) {
			return ReasonOperationDenied, "the API server refuses to write the operation of the node, which is tried again: " + n.Unordered.Message
		}
		if !written {
			return ReasonOperating, fmt.Sprintf("operation %s is being created", n.slot.Operation)
		}
		return ReasonOperating, n.Job.Message
	}
	for i := range n.Pods {
		if reason, message := n.progressOf(&n.Pods[i]); reason != "" {
			return reason, message
		}
	}
	return ReasonReplacing, "every pod is replaced"
}

// progressOf returns what a node in flight waits for at one of its pods, "" for nothing.
func (n *fleetNode) progressOf(pod *Pod) (Reason, string) {
	member := n.group.keyOf(pod)
	old := (n.group.isOutdated(pod) || lacksCards(n.group, pod)) && !isLeftOut(n.group, &n.Node, pod)
	switch {
	case !n.slotWaitsFor(pod):
		return "", ""
	case pod.UID == "":
		return ReasonAwaitingPod, fmt.Sprintf("waiting for the DaemonSet controller to create the pod of %s", member)
	case pod.Terminating:
		return ReasonTerminating, fmt.Sprintf("waiting for pod %s of %s to terminate", pod.Name, member)
	case old && n.Denied != nil && n.Denied.Pod == pod.UID:
		return ReasonDeletionDenied, deniedMessage(n.Denied)
	case old:
		return ReasonReplacing, fmt.Sprintf("replacing pod %s of %s", pod.Name, member)
	case pod.Gated && pod.Pin != "":
		return ReasonAwaitingPod, fmt.Sprintf("pod %s of %s waits at the gate until the pod of revision %s, at which the node is pinned, is created", pod.Name, member, pod.Pin)
	case !pod.Available:
		return ReasonAwaitingAvailable, fmt.Sprintf("waiting for pod %s of %s to be available", pod.Name, member)
	case pod.OffersNone && awaitsCards(n.group, n.slot, n.Pods):
		return ReasonAwaitingAvailable, fmt.Sprintf("waiting for the node to offer its cards, which pod %s of %s announces", pod.Name, member)
	}
	return "", ""
}

// deniedMessage says what the API server refuses. It names no time, so that it stays the same.
func deniedMessage(d *Denial) string {
	return "the API server refuses to delete a pod of the node, which is tried again: " + d.Message
}

// candidateLane returns the lane of the node as a candidate.
func (n *fleetNode) candidateLane() lane {
	urgency := healthy
	switch {
	case !n.unready && !n.Disturbed:
	case n.moving:
		urgency = inFlightAlready
	case n.unavailable:
		urgency = unavailableAlready
	}
	return lane{
		priority: priority{denied: n.Denied != nil, urgency: urgency, wave: n.wave, place: n.group.place(&n.Node)},
		zone:     n.Zone, pool: n.Pool, timeZone: n.TimeZone, zoneError: n.ZoneError,
		heavy: n.heavy, pinned: n.pinned, unprepared: n.heavy && !n.group.isPrepared(&n.Node) || n.pull.isAwaited(),
	}
}

// compareHash orders nodes by a stable hash of the name, so that the same input gives the same
// order. Names that differ in their beginnings are spread; those that differ only in their last
// digits may stay together.
func (n *fleetNode) compareHash(other *fleetNode) int {
	return cmp.Or(cmp.Compare(n.hash, other.hash), cmp.Compare(n.Name, other.Name))
}

func hashOf(name string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name)) // never fails
	return h.Sum64()
}

// pinMessage says why the node is kept at an earlier revision.
func pinMessage(n *fleetNode) string {
	for i := range n.pins {
		if n.pins[i].Holds(n.Machine) {
			return n.pins[i].Message
		}
	}
	return ""
}

// suspectsOf returns the keys of the members that may have failed a node.
func suspectsOf(n *fleetNode) (keys []string) {
	if n.failure != nil {
		for _, t := range n.failure.Targets {
			keys = append(keys, t.Member)
		}
		return keys
	}
	for i := range n.pins {
		if pin := &n.pins[i]; pin.Failed && pin.Holds(n.Machine) {
			keys = append(keys, pin.Member)
		}
	}
	return keys
}

// whyNotPulled says why the images of a node are not there. It names no time, so that it stays the same.
func whyNotPulled(n *fleetNode) string {
	for i := range n.Pods {
		if pod := &n.Pods[i]; pod.Pull.State == PullFailed && lacksImages(n.group, &n.Node, pod) {
			return "the pod stays, because the images of the next one of " + n.group.keyOf(pod) + " cannot be pulled, which is tried again: " + pod.Pull.Message
		}
	}
	return "the images cannot be pulled"
}
