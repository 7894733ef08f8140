package rollout

import (
	"fmt"
	"time"

	"github.com/topsops/gcu-operator/pkg/daemonset"
)

// Verdict is the state of a node, why it is in that state, and since when.
type Verdict struct {
	Node    string
	State   State
	Reason  Reason
	Message string
	// Since is zero when not known.
	Since time.Time
}

// explanation holds the reasons for which the decision does not start nodes.
type explanation struct {
	blocked *Blocked
	ending  bool
	paused  bool
	halted  string
	// beforehand is the global task that comes before the nodes.
	beforehand *Blocked
	// returned is how long a node must have been Ready before it is started.
	returned time.Duration
	refused  map[*lane]refusal
}

// verdict returns the state of a node, and why.
func (e *explanation) verdict(n *Node) Verdict {
	v := Verdict{Node: n.Name}
	switch {
	case n.slot != nil:
		v.State, v.Since = InFlight, n.slot.Since
		v.Reason, v.Message = n.progress()
	case n.failure != nil:
		v.State, v.Reason, v.Message, v.Since = Failed, n.failure.Reason, n.failure.Message, n.failure.Since
	case n.phase == phasePinned:
		v.State, v.Reason, v.Message = Pinned, ReasonPinned, pinMessage(n)
	case n.phase == phaseUpdated:
		v.State, v.Reason = Updated, ReasonAtTarget
	case n.phase == phaseOffline:
		v.State, v.Reason, v.Since = Skipped, ReasonNodeOffline, n.ReadySince
		v.Message = "the node was offline before it was touched; it is upgraded when it is Ready again"
	default:
		v.Reason, v.Message = e.waitsFor(n)
		v.State = v.Reason.State()
	}
	return v
}

// waitsFor returns why a Ready node with work left is not being upgraded.
func (e *explanation) waitsFor(n *Node) (Reason, string) {
	if e.blocked != nil && n.phase != phaseExcluded { // what is left out would not start without the block either
		return ReasonBlocked, e.blocked.Message
	}
	if message := n.whyNotFenced(); message != "" { // it is queued, and others wait for it
		return ReasonFenceDenied, message
	}
	if reason, message := whyExcluded(n); reason != "" {
		return reason, message
	}
	if reason, message := e.whyNothingStarts(n); reason != "" {
		return reason, message
	}
	switch {
	case n.queued:
		return ReasonQueued, "starts as soon as the budget allows"
	case n.phase == phaseRecentlyReturned:
		return ReasonRecentlyReturned, fmt.Sprintf("Ready since %s; a node is started only after it has been Ready for %s",
			n.ReadySince.UTC().Format(time.RFC3339), e.returned)
	case n.phase == phaseDeferred:
		return whyDeferred(n)
	}
	switch n.phase {
	case phaseSetBack:
		return ReasonRuntimeSetBack, n.RetryWhy
	case phasePrepullFailed:
		return ReasonPrepullFailed, whyNotPulled(n)
	}
	if n.Operation.awaitsGrant() && n.lane != nil && n.lane.unprepared {
		return ReasonPreparing, n.Operation.Message
	}
	if r, ok := e.refused[n.lane]; ok {
		return r.reason, r.why
	}
	_, message := n.progress()
	return ReasonUnavailable, message
}

// whyDeferred returns why a deferred node is tried again later.
func whyDeferred(n *Node) (Reason, string) {
	if n.DeniedDeletion != nil {
		return ReasonDeletionDenied, deniedMessage(n.DeniedDeletion)
	}
	return ReasonDeferred, n.RetryWhy
}

// whyNothingStarts returns why nodes like this one are not started in the whole group, "" if they are. A halt
// does not keep a node from going back.
func (e *explanation) whyNothingStarts(n *Node) (Reason, string) {
	switch {
	case e.ending:
		return ReasonEnding, "the GcuResource or DaemonSet is being deleted"
	case e.paused:
		return ReasonPaused, "the rollout is paused"
	case e.halted != "" && (n.lane == nil || !n.lane.goingBack):
		return ReasonHalted, e.halted
	case e.beforehand != nil:
		return Reason(e.beforehand.Reason), e.beforehand.Message
	}
	return "", ""
}

// LeftOutMessage is the message of ReasonLeftOut.
const LeftOutMessage = "the upgrade is limited to other nodes or components"

// whyExcluded returns why a node would not be upgraded even if the rollout started nodes; "" if it
// would be.
func whyExcluded(n *Node) (Reason, string) {
	if n.Ready && n.LeftOut && n.Operation.isKeptCordoned() {
		return ReasonNodeBusy, n.Operation.Message
	}
	switch n.phase {
	case phaseJustOffline:
		return ReasonNodeOffline, "the node has just gone offline; it is skipped unless it returns"
	case phaseBusy, phaseKeptCordoned:
		return ReasonNodeBusy, n.Operation.Message
	case phaseUnavailable, phaseRecovering:
		_, message := n.progress()
		return ReasonUnavailable, message
	case phaseNoSuccessor:
		return ReasonNoSuccessor, whyNoSuccessor(n)
	case phaseVersionNotAllowed:
		return ReasonVersionNotAllowed, n.notAllowed
	case phaseAgentTooOld:
		return ReasonAgentTooOld, whyAgentTooOld(n)
	case phaseExcluded:
		return ReasonLeftOut, LeftOutMessage
	case phaseHeld:
		return ReasonNodeHeld, daemonset.HoldWords(n.Holds, n.Name)
	case phaseLeftToAdministrator:
		return ReasonLeftToAdministrator, n.LeftToAdministrator
	case phaseAwaitingRequest:
		if awaitsIdleNode(n) {
			return ReasonAwaitingRequest, "strategy OTA: " + n.Operation.Message
		}
		return ReasonAwaitingRequest, "strategy OTA: the node is upgraded only after a request on that node"
	}
	return "", ""
}
