package rollout

// State of a node in its rollout.
type State string

// States of a node; a closed list.
const (
	Updated  State = "updated"
	InFlight State = "in-flight"
	Pending  State = "pending"
	Held     State = "held"
	Skipped  State = "skipped"
	Failed   State = "failed"
)

// States lists all states in the order they are reported.
var States = []State{Updated, InFlight, Pending, Held, Skipped, Failed}

// Reason says in one word why a node is in its state; a closed list.
type Reason string

// Reasons of the states.
const (
	// ReasonAtTarget: every pod is at the target revision.
	ReasonAtTarget Reason = "AtTarget"

	// In flight.
	ReasonReplacing         Reason = "Replacing"
	ReasonTerminating       Reason = "PodTerminating"
	ReasonAwaitingPod       Reason = "AwaitingPod"
	ReasonAwaitingAvailable Reason = "AwaitingAvailable"
	ReasonNodeLost          Reason = "NodeLost"
	// ReasonOperating: an operation is at work on the node.
	ReasonOperating Reason = "Operating"

	// Pending: for room, or for the node's own pods.
	ReasonBudgetExhausted Reason = "BudgetExhausted"
	// ReasonPoolExhausted: the budget of the node's own pool is used up.
	ReasonPoolExhausted Reason = "PoolBudgetExhausted"
	// ReasonQueued: the node has its turn when there is room.
	ReasonQueued      Reason = "Queued"
	ReasonUnavailable Reason = "Unavailable"
	// ReasonPreparing: the node is checked, and images are pulled, before it gets a slot.
	ReasonPreparing Reason = "Preparing"
	// ReasonNodeBusy: an operation of another group is at work on the node.
	ReasonNodeBusy Reason = "NodeBusy"
	// ReasonDeferred: the last operation could not be done, for no fault of the version.
	ReasonDeferred Reason = "Deferred"

	// Held: by policy, or until a person does something.
	// ReasonWaveNotReached, ReasonSoaking and ReasonAwaitingApproval: the waves of the policy.
	ReasonWaveNotReached   Reason = "WaveNotReached"
	ReasonSoaking          Reason = "Soaking"
	ReasonAwaitingApproval Reason = "AwaitingApproval"
	// ReasonRecentlyReturned: the node has not been Ready for long enough.
	ReasonRecentlyReturned Reason = "RecentlyReturned"
	// ReasonOutsideWindow: the maintenance window is closed or too short.
	ReasonOutsideWindow   Reason = "OutsideMaintenanceWindow"
	ReasonHalted          Reason = "Halted"
	ReasonPaused          Reason = "Paused"
	ReasonBlocked         Reason = "Blocked"
	ReasonAwaitingRequest Reason = "AwaitingRequest"
	// ReasonLeftOut: the upgrade is limited to other nodes or components.
	ReasonLeftOut Reason = "LeftOut"
	// ReasonNodeHeld: the person at the node or an administrator wants it left alone.
	ReasonNodeHeld Reason = "NodeHeld"

	// Skipped.
	ReasonNodeOffline Reason = "NodeOffline"

	// Failed; ReasonNodeLost as well.
	ReasonCrashLooping             Reason = "CrashLooping"
	ReasonProgressDeadlineExceeded Reason = "ProgressDeadlineExceeded"
	// ReasonOperationFailed, ReasonOperationAborted, ReasonQuarantined: how the
	// operation of the node ended.
	ReasonOperationFailed  Reason = "OperationFailed"
	ReasonOperationAborted Reason = "OperationAborted"
	ReasonQuarantined      Reason = "Quarantined"
)

// State is that of a node that waits for a reason: pending when it waits for
// room or for its own pods, held when it waits for a person or by policy.
func (r Reason) State() State {
	switch r {
	case ReasonBudgetExhausted, ReasonPoolExhausted, ReasonQueued, ReasonUnavailable, ReasonPreparing, ReasonNodeBusy, ReasonDeferred:
		return Pending
	}
	return Held
}

// isForPeople reports whether nodes that wait for this reason wait for a person.
func (r Reason) isForPeople() bool {
	switch r {
	case ReasonBlocked, ReasonPaused, ReasonHalted, ReasonAwaitingRequest, ReasonAwaitingApproval, ReasonLeftOut, ReasonNodeHeld:
		return true
	}
	return false
}
