package rollout

import "time"

// A light change deletes a pod, and finds out afterwards whether the images of its successor can be
// pulled. Where the node agent can pull them before, a healthy node starts only once they are there, or
// once they are left to the kubelet: because the agent cannot pull them, or does not answer in time. That
// only puts starts off, so nothing that keeps the budget depends on it.

// PullState is how far the images are that the successor of a pod needs and the pod does not run. The
// highest of its pods is that of a node.
type PullState int

// States of a pull.
const (
	// PullNone: there are no such images, or it is not known.
	PullNone PullState = iota
	// PullLeft: the kubelet pulls them when the successor starts.
	PullLeft
	// PullReady: they are on the node.
	PullReady
	// PullAsked: the node agent was asked to pull them.
	PullAsked
	// PullWanted: nobody has asked it yet.
	PullWanted
	// PullFailed: it could not.
	PullFailed
)

// Pull is how far the images are that the successor of a pod needs.
type Pull struct {
	State PullState
	// Until is how long this state lasts: an answer is waited for, also to another attempt after a failure, or
	// the images are taken to be there; zero for no end.
	Until time.Time
	// Retry is when a failed pull is tried again, and no attempt is under way if Until is zero. Attempts is how many
	// there were, and Message says why they failed.
	Retry    time.Time
	Attempts int32
	Message  string
}

// Prepull has the images of some members pulled on a node, for pods that are replaced without an operation.
type Prepull struct {
	Node    string
	Members []int
}

const (
	// doubtful is on how many nodes an image that no node runs yet fails to be pulled until no more nodes are asked.
	doubtful = 20
	// lasting is how many failed attempts, a quarter of an hour, need a person.
	lasting = 5
)

// at returns the state of a pull at a time, and when it changes by time alone, zero for never.
func (p *Pull) at(now time.Time) (state PullState, changes time.Time) {
	switch {
	case p.Until.After(now):
		return p.State, p.Until
	case p.Until.IsZero() && p.State == PullFailed && p.Retry.After(now):
		return PullFailed, p.Retry
	case p.Until.IsZero():
		return p.State, time.Time{}
	case p.State == PullReady:
		return PullWanted, time.Time{}
	}
	return PullLeft, time.Time{} // nobody answered
}

// IsDue reports whether the node agent is to be asked at a time.
func (p *Pull) IsDue(now time.Time) bool {
	state, changes := p.at(now)
	return state == PullWanted || state == PullFailed && changes.IsZero()
}

// isAwaited reports whether a node does not start, because its images are not there yet.
func (s PullState) isAwaited() bool { return s >= PullAsked }
