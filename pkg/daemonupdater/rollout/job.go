package rollout

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Job is the observed state of one operation on a node.
type Job struct {
	ID string
	// Revision of the group that it was made for.
	Revision string
	// Ours: it belongs to this group.
	Ours bool
	// Targets by member key, members of other groups left out.
	Targets map[string]string
	// OldPolicy: it drains or verifies by rules that the policy no longer has.
	OldPolicy bool
	// Prepared: it waits only for its grant. Granted: it may touch the node.
	Prepared, Granted bool
	// OnlyIdle: it has no request, and ends before it touches a node whose cards are used. InUse:
	// a pod used one when it last looked.
	OnlyIdle, InUse bool
	// Stalled: a problem keeps it from being prepared, possibly for long.
	Stalled bool
	// KeptCordoned: it has ended, and keeps the node cordoned.
	KeptCordoned bool
	// WaitsSince is when it began to wait for its grant, or for its problem to be solved; zero while
	// it is being prepared, or at work.
	WaitsSince time.Time
	// Stepped is when its last task ended, zero if none has.
	Stepped time.Time
	// Message describes its progress.
	Message string
}

// isKeptCordoned reports whether an ended operation keeps the node cordoned; false for nil.
func (j *Job) isKeptCordoned() bool { return j != nil && j.KeptCordoned }

// isOfAnotherGroup reports whether there is an operation and it belongs to another group.
func (j *Job) isOfAnotherGroup() bool { return j != nil && !j.Ours }

// othersWaiting returns the id of an operation of another group that is not at work, and cannot go on
// now; "" otherwise.
func (j *Job) othersWaiting() string {
	if !j.isOfAnotherGroup() || j.Granted || j.KeptCordoned || j.WaitsSince.IsZero() {
		return ""
	}
	return j.ID
}

// isKeptCordonedByAnotherGroup reports whether an ended operation of another group keeps the node out of
// service.
func (j *Job) isKeptCordonedByAnotherGroup() bool { return j.isKeptCordoned() && !j.Ours }

// isAtWork reports whether an operation of any group may touch the node and has not ended.
// Meanwhile only the operation deletes pods. It may have no slot here, when it belongs to a
// former Node object of the same name.
func (j *Job) isAtWork() bool { return j != nil && j.Granted && !j.KeptCordoned }

// isOursAtWork reports whether an operation of this group may touch the node and has not ended.
func (j *Job) isOursAtWork() bool { return j.isAtWork() && j.Ours }

// awaitsGrant reports whether an operation of this group is being prepared or waits for its
// grant.
func (j *Job) awaitsGrant() bool { return j != nil && j.Ours && !j.Granted && !j.KeptCordoned }

// End is how an operation ended.
type End struct {
	ID string
	// Done: every component is at its target. Failure is otherwise why the node has failed, or "" if
	// the end says nothing about the version: the node was busy, or got another target.
	Done    bool
	Failure Reason
	// Message says why.
	Message string
	// Time at which it ended.
	Time time.Time
	// Targets are the revisions it was to bring the node to, none if they are not known any more.
	Targets []Target
	// Left are the earlier revisions at which it left members of a node that was pinned.
	Left []Target
}

// endOf returns how an operation ended, nil if it has not.
func endOf(operation string, ended []End) *End {
	i := slices.IndexFunc(ended, func(e End) bool { return e.ID == operation })
	if i < 0 {
		return nil
	}
	return &ended[i]
}

// OperationChange is a command for the operation of a node.
type OperationChange struct {
	Node string
	UID  types.UID
	// Operation is its id. If it does not exist it is created, for all members of the group that
	// have to be replaced on the node.
	Operation string
	// Instead is the operation that it replaces, "" for none: one of another group, or one that was prepared here and
	// is stale.
	Instead string
	// Grant lets it touch the node, Abort aborts it.
	Grant, Abort bool
}
