package rollout

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Decision is what to do now, and why for each node.
type Decision struct {
	// Ledger to store before anything in Delete is done.
	Ledger Ledger
	// Started names the nodes that were given a slot by this decision.
	Started []string
	// Finished has, for each node that gave its slot back at the target, how long it took.
	Finished []time.Duration
	// Delete lists the pods to delete, each named by a slot of Ledger.
	Delete []Deletion
	// Fence lists the pods to be written to, so that they get another
	// resourceVersion: a slot that names one is to be given back, and nobody who
	// read that slot before may delete the pod any more.
	Fence []Pod
	// Orders lists what operations of nodes are to be told, once Ledger is stored.
	Orders []Order
	// Unseen lists slots of Input.Ledger that are not in Ledger any more because their
	// node is not seen, or another one of its name. Before Ledger is stored it has to
	// be made certain that this is so, and not what a view shows that is behind.
	Unseen []Slot
	// Counts sums the verdicts.
	Counts Counts
	// Waiting sums up why nodes wait, the most common reason first.
	Waiting []Waiting
	// Limit is the number of nodes that may be unavailable.
	Limit int
	// InFlight is the number of nodes in flight by ledger or live facts; queued ones
	// are not.
	InFlight int
	// Used is the number of nodes that count against Limit.
	Used int
	// Halted is set when too many nodes failed; it says how many and what helps.
	Halted string
	// Recheck is when to decide again if nothing happens; 0 means never.
	Recheck time.Duration

	plan *planner
}

// ETA is how long what is started, pending and held by policy takes at the usual
// pace; 0 when there is nothing or the pace is not known. Nodes that wait for a
// person, soaks and windows are not in it.
func (d *Decision) ETA() time.Duration {
	left := d.Counts.InFlight + d.Counts.Pending + d.Counts.Held
	for _, w := range d.Waiting {
		if w.Reason.byPeople() {
			left -= w.Nodes
		}
	}
	if left == 0 || d.Limit == 0 {
		return 0
	}
	rounds := (left + d.Limit - 1) / d.Limit
	return time.Duration(rounds) * d.Ledger.Usual
}

// Counts has one number per state; they add up to Total.
type Counts struct {
	Total, Updated, InFlight, Pending, Held, Skipped, Failed int
}

// Of returns the number of nodes in a state.
func (c Counts) Of(s State) int {
	switch s {
	case Updated:
		return c.Updated
	case InFlight:
		return c.InFlight
	case Pending:
		return c.Pending
	case Held:
		return c.Held
	case Skipped:
		return c.Skipped
	case Failed:
		return c.Failed
	}
	return 0
}

// Deletion is one pod to delete.
type Deletion struct {
	Node   string
	Member int
	Pod    string
	// UID and Version are the preconditions of the deletion.
	UID     types.UID
	Version string
	// WasUnavailable is true when the pod was unavailable already.
	WasUnavailable bool
}

// Verdict says what state a node is in, why, and since when.
type Verdict struct {
	Node    string
	State   State
	Reason  Reason
	Message string
	// Since is zero when not known.
	Since time.Time
}

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
