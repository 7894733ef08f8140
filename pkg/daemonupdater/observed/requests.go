package observed

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// openRequests returns, per DaemonSet, the latest request for an upgrade that has no final answer and is not
// withdrawn; none of them was made later than now.
func openRequests(upgrade *topsv1.NodeUpgrade, now time.Time) map[types.UID]*topsv1.UpgradeRequest {
	if upgrade == nil {
		return nil
	}
	open, states := map[types.UID]*topsv1.UpgradeRequest{}, taskStates(upgrade)
	for _, r := range upgrade.Status.Requests {
		if !states[r.ID].Final() && !r.Withdrawn && !r.Rollback {
			r.RequestTime.Time = RequestedAt(&r, now)
			open[r.DaemonSet.UID] = &r
		}
	}
	return open
}

// lastRequest returns the latest time of a request for an upgrade, by the node's clock; zero if there is none.
func lastRequest(upgrade *topsv1.NodeUpgrade, now time.Time) (last time.Time) {
	if upgrade == nil {
		return last
	}
	for _, r := range upgrade.Status.Requests {
		if at := RequestedAt(&r, now); at.After(last) && !r.Rollback {
			last = at
		}
	}
	return last
}

// RequestedAt returns when a request was made, by the node's clock, but no later than now: a clock that is ahead
// gives a node no advantage.
func RequestedAt(r *topsv1.UpgradeRequest, now time.Time) time.Time {
	if r.RequestTime.After(now) {
		return now
	}
	return r.RequestTime.Time
}

// Unanswered reports whether a request or the pin request of the annotation has no final answer, or an answer has no
// request.
func Unanswered(upgrade *topsv1.NodeUpgrade) bool {
	states := taskStates(upgrade)
	for _, r := range upgrade.Status.Requests {
		if !states[r.ID].Final() {
			return true
		}
		delete(states, r.ID)
	}
	if request := PinRequestOf(upgrade); request != nil {
		if !states[request.ID].Final() {
			return true
		}
		delete(states, request.ID)
	}
	return len(states) > 0
}

// isRunning reports whether a request, nil for none, has a task that runs.
func isRunning(r *topsv1.UpgradeRequest, upgrade *topsv1.NodeUpgrade) bool {
	return r != nil && taskStates(upgrade)[r.ID] == topsv1.TaskRunning
}

// taskStates maps the request id of every task to its state.
func taskStates(upgrade *topsv1.NodeUpgrade) map[string]topsv1.TaskState {
	states := make(map[string]topsv1.TaskState, len(upgrade.Status.Tasks))
	for _, task := range upgrade.Status.Tasks {
		states[task.RequestID] = task.State
	}
	return states
}

// OpenPinRequests returns the pin requests of a node that have no final answer and were not withdrawn before they
// began.
func OpenPinRequests(upgrade *topsv1.NodeUpgrade) (open []PinRequest) {
	var all []PinRequest
	if request := PinRequestOf(upgrade); request != nil {
		all = append(all, *request)
	}
	for i := range upgrade.Status.Requests {
		if r := &upgrade.Status.Requests[i]; r.Rollback {
			all = append(all, *PinRequestFrom(r))
		}
	}
	states := taskStates(upgrade)
	for _, request := range all {
		request.Begun = states[request.ID] == topsv1.TaskRunning
		if !states[request.ID].Final() && (!request.Withdrawn || request.Begun) {
			open = append(open, request)
		}
	}
	return open
}
