package rollout

import "time"

// A light change deletes a pod before it is known whether the images of its successor can be pulled. If the
// node agent can pull them first, a healthy node starts only once they are there, or once they are left to
// the kubelet: because the agent cannot pull images, or does not answer in time. This only delays starts,
// so keeping the budget does not depend on it.

// PullState is the progress of pulling the images that the successor of a pod needs and the pod does not run.
// A node has the highest state of its pods.
type PullState int

// States of a pull.
const (
	// PullNone: there are no such images, or that is not known.
	PullNone PullState = iota
	// PullByKubelet: the kubelet pulls them when the successor starts.
	PullByKubelet
	// PullReady: they are on the node.
	PullReady
	// PullRequested: the node agent has a request to pull them.
	PullRequested
	// PullNeeded: the node agent needs a request to pull them.
	PullNeeded
	// PullFailed: the node agent could not pull them.
	PullFailed
)

// Pull is the progress of pulling the images that the successor of a pod needs.
type Pull struct {
	State PullState
	// Until is when this state ends, zero for never. Until then, a report is awaited, possibly to another attempt
	// after a failure, or the images are assumed to be there.
	Until time.Time
	// Retry is when a failed pull is retried. If Until is zero, no attempt is in progress. Attempts is the number
	// of attempts so far, and Message says why the last one failed.
	Retry    time.Time
	Attempts int32
	Message  string
}

// Prepull requests the pull of the images of some members on a node, for pods that are replaced without an operation.
type Prepull struct {
	Node    string
	Members []int
}

const (
	// maxFailedPulls is on how many nodes an image that no node runs yet may fail to be pulled before no other node gets a request for it.
	maxFailedPulls = 20
	// manyAttempts is the number of failed attempts, within a quarter of an hour, after which a person is needed.
	manyAttempts = 5
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
		return PullNeeded, time.Time{}
	}
	return PullByKubelet, time.Time{} // the node agent did not report
}

// IsDue reports whether the node agent should get a request now.
func (p *Pull) IsDue(now time.Time) bool {
	state, changes := p.at(now)
	return state == PullNeeded || state == PullFailed && changes.IsZero()
}

// isAwaited reports whether a node does not start because its images are not there yet.
func (s PullState) isAwaited() bool { return s >= PullRequested }
