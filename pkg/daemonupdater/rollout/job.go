package rollout

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Job is what is seen of one operation on a node.
type Job struct {
	// ID of the operation.
	ID string
	// Ours: it belongs to this group.
	Ours bool
	// Targets by member key; those that are not of this group are left out.
	Targets map[string]string
	// Prepared: it waits for nothing but its grant. Granted: it may touch the node.
	Prepared, Granted bool
	// Stalled: it is not prepared because something is amiss, and may not be for long.
	Stalled bool
	// Held: it has ended, and keeps the node cordoned.
	Held bool
	// Message says what it is at.
	Message string
}

// isHeld reports whether an operation that has ended keeps the node; nil is no operation.
func (j *Job) isHeld() bool { return j != nil && j.Held }

// isOfAnotherGroup reports whether there is an operation, and not of this group.
func (j *Job) isOfAnotherGroup() bool { return j != nil && !j.Ours }

// isAtWork reports whether an operation, of whatever group, may touch the node and has
// not ended: then no pod is deleted but by it. It may have no slot here, when it is about
// a Node object of before.
func (j *Job) isAtWork() bool { return j != nil && j.Granted && !j.Held }

// isOursAtWork reports whether an operation of this group may touch the node and has not
// ended.
func (j *Job) isOursAtWork() bool { return j.isAtWork() && j.Ours }

// awaitsGrant reports whether an operation of this group waits for its grant, or will.
func (j *Job) awaitsGrant() bool { return j != nil && j.Ours && !j.Granted && !j.Held }

// End is how an operation ended.
type End struct {
	ID string
	// Outcome of it.
	Outcome Outcome
	// Message says why.
	Message string
	// Time at which it ended.
	Time time.Time
}

// endOf returns how an operation ended, nil when it has not.
func endOf(operation string, ended []End) *End {
	i := slices.IndexFunc(ended, func(e End) bool { return e.ID == operation })
	if i < 0 {
		return nil
	}
	return &ended[i]
}

// Outcome is how an operation ended.
type Outcome string

// Outcomes of an operation.
const (
	// Done: every component is what it was to be.
	Done Outcome = "Done"
	// Broken counts against the version. Lost is Broken because the node went offline.
	Broken Outcome = "Broken"
	Lost   Outcome = "Lost"
	// Quarantined is a rollback that was Broken.
	Quarantined Outcome = "Quarantined"
	// Dropped says nothing of the version: the node was busy, or was to be brought
	// elsewhere.
	Dropped Outcome = "Dropped"
	// Stopped was ended by a person.
	Stopped Outcome = "Stopped"
)

// Order is what an operation of a node is to be told.
type Order struct {
	Node string
	UID  types.UID
	// Operation is its id. One that is not there is made: of all members of the group
	// that are to be replaced on the node.
	Operation string
	// Grant lets it touch the node, and Abort winds it up.
	Grant, Abort bool
}
