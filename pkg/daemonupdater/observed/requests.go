package observed

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
)

// openRequests returns the latest request per DaemonSet that has no final answer and is not
// withdrawn.
func openRequests(upgrade *topsv1.NodeUpgrade) map[types.UID]*rollout.Request {
	if upgrade == nil {
		return nil
	}
	open, final := map[types.UID]*rollout.Request{}, finalTasks(upgrade)
	for _, r := range upgrade.Status.Requests {
		if !final[r.ID] && !r.Withdrawn {
			open[r.DaemonSet.UID] = &rollout.Request{PodUID: r.Pod.UID, Time: r.RequestTime.Time}
		}
	}
	return open
}

// lastRequest returns the latest time of a request, by the node's clock; zero if there is none.
func lastRequest(upgrade *topsv1.NodeUpgrade) (last time.Time) {
	if upgrade == nil {
		return last
	}
	for _, r := range upgrade.Status.Requests {
		if r.RequestTime.After(last) {
			last = r.RequestTime.Time
		}
	}
	return last
}

// Unanswered reports whether a request has no final answer, or an answer has no request.
func Unanswered(upgrade *topsv1.NodeUpgrade) bool {
	final := finalTasks(upgrade)
	for _, r := range upgrade.Status.Requests {
		if !final[r.ID] {
			return true
		}
		delete(final, r.ID)
	}
	return len(final) > 0
}

// finalTasks maps the request id of every task to whether its state is final.
func finalTasks(upgrade *topsv1.NodeUpgrade) map[string]bool {
	final := make(map[string]bool, len(upgrade.Status.Tasks))
	for _, task := range upgrade.Status.Tasks {
		final[task.RequestID] = task.State.Final()
	}
	return final
}
