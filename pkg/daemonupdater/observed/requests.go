package observed

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
)

// openRequests returns the latest request per DaemonSet that has no final answer and is not
// withdrawn.
func openRequests(upgrade *topsv1.NodeUpgrade, now time.Time) map[types.UID]*rollout.Request {
	if upgrade == nil {
		return nil
	}
	open, states := map[types.UID]*rollout.Request{}, taskStates(upgrade)
	for _, r := range upgrade.Status.Requests {
		if state := states[r.ID]; !state.Final() && !r.Withdrawn {
			open[r.DaemonSet.UID] = &rollout.Request{
				PodUID: r.Pod.UID, Revision: r.Revision, Time: RequestedAt(&r, now), Running: state == topsv1.TaskRunning,
			}
		}
	}
	return open
}

// lastRequest returns the latest time of a request, by the node's clock; zero if there is none.
func lastRequest(upgrade *topsv1.NodeUpgrade, now time.Time) (last time.Time) {
	if upgrade == nil {
		return last
	}
	for _, r := range upgrade.Status.Requests {
		if at := RequestedAt(&r, now); at.After(last) {
			last = at
		}
	}
	return last
}

// RequestedAt returns when a request was made, by the node's clock, but no later than now: a node
// with a wrong clock gains nothing by it.
func RequestedAt(r *topsv1.UpgradeRequest, now time.Time) time.Time {
	if r.RequestTime.After(now) {
		return now
	}
	return r.RequestTime.Time
}

// Unanswered reports whether a request, or an ask, has no final answer, or an answer has no request.
func Unanswered(upgrade *topsv1.NodeUpgrade) bool {
	states := taskStates(upgrade)
	for _, r := range upgrade.Status.Requests {
		if !states[r.ID].Final() {
			return true
		}
		delete(states, r.ID)
	}
	if ask := AskOf(upgrade); ask != nil {
		if !states[ask.ID].Final() {
			return true
		}
		delete(states, ask.ID)
	}
	return len(states) > 0
}

// taskStates maps the request id of every task to its state.
func taskStates(upgrade *topsv1.NodeUpgrade) map[string]topsv1.TaskState {
	states := make(map[string]topsv1.TaskState, len(upgrade.Status.Tasks))
	for _, task := range upgrade.Status.Tasks {
		states[task.RequestID] = task.State
	}
	return states
}

// OpenAskOf is AskOf, nil also once the ask has its final answer.
func OpenAskOf(upgrade *topsv1.NodeUpgrade) *Ask {
	ask := AskOf(upgrade)
	if ask == nil || taskStates(upgrade)[ask.ID].Final() {
		return nil
	}
	ask.Begun = taskStates(upgrade)[ask.ID] == topsv1.TaskRunning
	return ask
}
