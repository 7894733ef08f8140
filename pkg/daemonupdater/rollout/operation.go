package rollout

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Operation is the observed state of one operation on a node.
type Operation struct {
	ID string
	// Revision of the group that it was made for.
	Revision string
	// Ours: it belongs to this group.
	Ours bool
	// Targets by member key, without members of other groups.
	Targets map[string]string
	// OldPolicy: it drains or verifies by rules that the policy no longer has.
	OldPolicy bool
	// Prepared: it waits for nothing but its grant. Granted: it may touch the node.
	Prepared, Granted bool
	// Aborted: it was told to end.
	Aborted bool
	// OnlyIdle: it has no request, and ends before it touches a node whose cards are in use. InUse:
	// a pod used one at its last check.
	OnlyIdle, InUse bool
	// Stalled: a problem keeps it from being prepared, possibly for a long time.
	Stalled bool
	// KeptCordoned: it has ended, and keeps the node cordoned.
	KeptCordoned bool
	// Committed: it took over the cordon of one that failed, or has replaced the driver and not verified it yet. If it were aborted,
	// its node would be back in service with what may not work.
	Committed bool
	// WaitingSince is when it began to wait for its grant, or stalled; zero while it is being prepared, or at
	// work.
	WaitingSince time.Time
	// LastTaskEnd is when its last task ended, zero if none has.
	LastTaskEnd time.Time
	// Message describes its progress.
	Message string
}

// isKeptCordoned reports whether an ended operation keeps the node cordoned; false for nil.
func (o *Operation) isKeptCordoned() bool { return o != nil && o.KeptCordoned }

// isOfAnotherGroup reports whether there is an operation and it belongs to another group.
func (o *Operation) isOfAnotherGroup() bool { return o != nil && !o.Ours }

// othersWaiting returns the id of an operation of another group that waits for its grant or is stalled;
// "" otherwise.
func (o *Operation) othersWaiting() string {
	if !o.isOfAnotherGroup() || o.Granted || o.KeptCordoned || o.WaitingSince.IsZero() {
		return ""
	}
	return o.ID
}

// isKeptCordonedByAnotherGroup reports whether an ended operation of another group keeps the node out of
// service.
func (o *Operation) isKeptCordonedByAnotherGroup() bool { return o.isKeptCordoned() && !o.Ours }

// isAtWork reports whether an operation of any group may touch the node and has not ended.
// Meanwhile only the operation deletes pods. It may have no slot here if it belongs to a
// former Node object of the same name.
func (o *Operation) isAtWork() bool { return o != nil && o.Granted && !o.KeptCordoned }

// isOursAtWork reports whether an operation of this group may touch the node and has not ended.
func (o *Operation) isOursAtWork() bool { return o.isAtWork() && o.Ours }

// awaitsGrant reports whether an operation of this group is being prepared or waits for its
// grant.
func (o *Operation) awaitsGrant() bool { return o != nil && o.Ours && !o.Granted && !o.KeptCordoned }

// isFor reports whether an operation has this id, and the member with this key is one of its targets; false for nil.
func (o *Operation) isFor(id, member string) bool {
	return o != nil && o.ID == id && o.Targets[member] != ""
}

// End is how an operation ended.
type End struct {
	ID string
	// Done: every component is at its target. Otherwise Failure is why the node has failed, or "" if
	// the end does not prove anything about the version: the node was busy, or got another target.
	Done    bool
	Failure Reason
	// Message says why it ended so.
	Message string
	// Time is when it ended.
	Time time.Time
	// Touched: it may have changed something on the node.
	Touched bool
	// Targets are the revisions that it was to bring the node to, none if they are no longer known.
	Targets []Target
	// Along are the revisions of what it replaced along with them, or only verified, at the revision that it had; none if they are not known.
	Along []Target
	// Left are the earlier revisions at which it left members, because the node was pinned.
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
	// Operation is its id. If it does not exist, it is created for all members of the group that have
	// to be replaced or verified on the node.
	Operation string
	// Instead is the id of the operation that it replaces, "" for none: one of another group, or a stale one of
	// this group.
	Instead string
	// Grant permits it to touch the node, Abort aborts it.
	Grant, Abort bool
	// AtWork: it is to be aborted only while it is at work, not if it has failed and keeps its node cordoned.
	AtWork bool
}

// isDone reports whether an operation, nil if there is none, has been told what a change tells it.
func (c *OperationChange) isDone(op *Operation) bool {
	if c.Abort {
		return op != nil && op.Aborted
	}
	return op != nil && op.Granted
}
