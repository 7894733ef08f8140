package rollout

import topsv1 "github.com/topsops/gcu-operator/api/v1"

// State is the state of a node in its rollout.
type State string

// States of a node; a closed list.
const (
	Updated  State = "updated"
	InFlight State = "in-flight"
	Pending  State = "pending"
	Held     State = "held"
	Skipped  State = "skipped"
	Failed   State = "failed"
	Pinned   State = "pinned"
)

// States lists all states in the order in which they are reported.
var States = []State{Updated, InFlight, Pending, Held, Skipped, Failed, Pinned}

// Reason is why a node is in its state, in one word; a closed list.
type Reason string

// Reasons of the states.
const (
	// ReasonAtTarget: every pod is at the target revision.
	ReasonAtTarget Reason = "AtTarget"

	// ReasonPinned: the node is kept at an earlier revision. ReasonUndone: because a person asked for it.
	ReasonPinned Reason = "Pinned"
	ReasonUndone Reason = topsv1.ReasonUndone

	// In flight; ReasonFenceDenied also of a queued node.
	ReasonReplacing         Reason = "Replacing"
	ReasonTerminating       Reason = "PodTerminating"
	ReasonAwaitingPod       Reason = "AwaitingPod"
	ReasonAwaitingAvailable Reason = "AwaitingAvailable"
	ReasonNodeLost          Reason = topsv1.ReasonNodeLost
	// ReasonOperating: an operation is at work on the node.
	ReasonOperating Reason = "Operating"
	// ReasonFenceDenied: the slot is no longer needed, and the API server denies the write that rules out
	// the deletion that the slot permits.
	ReasonFenceDenied Reason = "FenceDenied"
	// ReasonOperationDenied: the API server denies the write of the operation of the node, or of its grant.
	ReasonOperationDenied Reason = "OperationDenied"

	// Pending: for the budget, or for the node's own pods.
	ReasonBudgetExhausted Reason = "BudgetExhausted"
	// ReasonPoolExhausted: the budget of the node's own pool is used up.
	ReasonPoolExhausted Reason = "PoolBudgetExhausted"
	// ReasonNodesOnProbation: too many nodes with the version are not proven.
	ReasonNodesOnProbation Reason = "NodesOnProbation"
	// ReasonQueued: the node starts in its turn as soon as the budget allows.
	ReasonQueued      Reason = "Queued"
	ReasonUnavailable Reason = "Unavailable"
	// ReasonPreparing: the node is checked, and images are pulled, before it gets a slot.
	ReasonPreparing Reason = "Preparing"
	// ReasonPrepullFailed: the images of a node that needs no operation cannot be pulled, so it keeps its pods.
	ReasonPrepullFailed Reason = topsv1.ReasonPrepullFailed
	// ReasonNodeBusy: the node has an operation of another group, or its own left it out of service.
	ReasonNodeBusy Reason = "NodeBusy"
	// ReasonDeferred: the last operation could not be completed, for a reason other than the
	// version.
	ReasonDeferred Reason = "Deferred"
	// ReasonRuntimeSetBack: something sets the default runtime back after each restart.
	ReasonRuntimeSetBack Reason = "RuntimeSetBack"
	// ReasonDeletionDenied: the API server denies the deletion of a pod of the node.
	ReasonDeletionDenied Reason = topsv1.ReasonDeletionDenied

	// Held: by policy, or until a person acts.
	// ReasonWaveNotReached, ReasonSoaking and ReasonAwaitingApproval: the waves of the policy.
	ReasonWaveNotReached   Reason = "WaveNotReached"
	ReasonSoaking          Reason = "Soaking"
	ReasonAwaitingApproval Reason = "AwaitingApproval"
	// ReasonRecentlyReturned: the node has not been Ready for long enough.
	ReasonRecentlyReturned Reason = "RecentlyReturned"
	// ReasonOutsideWindow: the maintenance window is closed or closes too soon.
	ReasonOutsideWindow Reason = "OutsideMaintenanceWindow"
	ReasonHalted        Reason = topsv1.ReasonHalted
	ReasonPaused        Reason = topsv1.ReasonPaused
	// ReasonEnding: the GcuResource or DaemonSet is being deleted, or gone.
	ReasonEnding Reason = "Ending"
	// ReasonNoSuccessor: a taint would keep the successor of a pod off the node.
	ReasonNoSuccessor     Reason = topsv1.ReasonNoSuccessor
	ReasonBlocked         Reason = "Blocked"
	ReasonAwaitingRequest Reason = "AwaitingRequest"
	// ReasonLeftOut: the upgrade is limited to other nodes or components.
	ReasonLeftOut Reason = "LeftOut"
	// ReasonVersionNotAllowed: the policy does not allow the versions that the node would get.
	ReasonVersionNotAllowed Reason = "VersionNotAllowed"
	// ReasonAgentTooOld: the node agent cannot execute a task of the operation that the node needs.
	ReasonAgentTooOld Reason = "AgentTooOld"
	// ReasonLeftToAdministrator: an administrator has to restart the container runtime.
	ReasonLeftToAdministrator Reason = topsv1.ReasonLeftToAdministrator
	// ReasonNodeHeld: a hold of an administrator, or one set on the node, excludes it.
	ReasonNodeHeld Reason = topsv1.ReasonNodeHeld
	// ReasonAwaitingGlobalTask and ReasonGlobalTaskFailed: a global task of the plan comes before the nodes.
	ReasonAwaitingGlobalTask Reason = topsv1.ReasonAwaitingGlobalTask
	ReasonGlobalTaskFailed   Reason = topsv1.ReasonGlobalTaskFailed

	// Skipped; pending while the node may be back at once.
	ReasonNodeOffline Reason = topsv1.ReasonNodeOffline

	// Failed; also ReasonNodeLost.
	ReasonCrashLooping             Reason = "CrashLooping"
	ReasonProgressDeadlineExceeded Reason = "ProgressDeadlineExceeded"
	// ReasonOperationFailed, ReasonOperationAborted, ReasonQuarantined: how the
	// operation of the node ended.
	ReasonOperationFailed  Reason = "OperationFailed"
	ReasonOperationAborted Reason = "OperationAborted"
	ReasonQuarantined      Reason = "Quarantined"
)

// FailureReasons are the reasons of failures.
var FailureReasons = []Reason{ReasonCrashLooping, ReasonProgressDeadlineExceeded, ReasonNodeLost, ReasonOperationFailed, ReasonOperationAborted, ReasonQuarantined}

// State returns the state of a node that waits for this reason: pending if it waits for the budget or its
// own pods, held if it waits for a person or because of the policy.
func (r Reason) State() State {
	switch r {
	case ReasonNodeOffline, ReasonBudgetExhausted, ReasonPoolExhausted, ReasonNodesOnProbation, ReasonQueued, ReasonUnavailable, ReasonPreparing, ReasonPrepullFailed, ReasonNodeBusy, ReasonDeferred, ReasonRuntimeSetBack, ReasonDeletionDenied, ReasonFenceDenied:
		return Pending
	}
	return Held
}

// IsDenied reports whether a node waits because the API server denies a write.
func (r Reason) IsDenied() bool {
	return r == ReasonDeletionDenied || r == ReasonFenceDenied || r == ReasonOperationDenied
}

// needsPerson reports whether nodes with this reason wait for a person.
func (r Reason) needsPerson() bool {
	switch r {
	case ReasonBlocked, ReasonPaused, ReasonHalted, ReasonAwaitingRequest, ReasonAwaitingApproval, ReasonLeftOut, ReasonNodeHeld,
		ReasonEnding, ReasonNoSuccessor, ReasonVersionNotAllowed, ReasonAgentTooOld, ReasonLeftToAdministrator, ReasonGlobalTaskFailed:
		return true
	}
	return false
}
