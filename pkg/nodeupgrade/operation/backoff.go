package operation

import (
	"fmt"
	"slices"
	"time"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
)

const (
	firstBackoff = 5 * time.Minute
	maxBackoff   = 2 * time.Hour
)

// Backoff returns when a node may be retried after unsuccessful operations, zero for at once,
// and the last of them: five minutes after it ended, doubled for each earlier one in a row at the same
// revision, at most two hours. An operation was unsuccessful if it was deferred, or if it restarted the
// container engine and the default runtime has been set back since. One that was deferred because
// it lacked a request does not count. If the recorded end is in the future, because a manager's clock was
// ahead, the node may be retried at once: otherwise it would wait as long as the clocks differ.
func Backoff(u *topsv1.NodeUpgrade, revision string, now time.Time) (at time.Time, last *topsv1.OperationRecord) {
	wait := time.Duration(0)
	for i := range slices.Backward(u.Status.History) {
		r := &u.Status.History[i]
		if r.Phase == topsv1.OperationDeferred && r.Reason == ReasonCardsInUse {
			continue
		}
		if r.Revision != revision || r.Phase != topsv1.OperationDeferred && !wasSetBack(u, r) {
			break
		}
		if last == nil {
			last = r
		}
		wait = min(max(firstBackoff, 2*wait), maxBackoff)
	}
	if last == nil || daemonset.IsAhead(last.EndTime.Time, now) {
		return time.Time{}, last
	}
	return last.EndTime.Add(wait), last
}

// SetBack returns a message that something sets the default runtime back after it was restarted and verified, if
// that is why a node is retried later; "" otherwise. last is the record that Backoff returned, and may be nil.
func SetBack(u *topsv1.NodeUpgrade, last *topsv1.OperationRecord) string {
	if last == nil || !wasSetBack(u, last) {
		return ""
	}
	engine := u.Status.Host.Runtime
	return fmt.Sprintf("operation %s restarted %s for default runtime %s and verified it, and the default runtime is %s again: look for another tool on node %s that writes the configuration of %s",
		last.ID, engine.Engine, topsv1.DefaultRuntime, engine.Default, u.Name, engine.Engine)
}

// wasSetBack reports whether an operation restarted the engine without success.
func wasSetBack(u *topsv1.NodeUpgrade, r *topsv1.OperationRecord) bool {
	return r.Phase == topsv1.OperationDone && r.Restarted && u.Status.Host.NeedsRestart()
}
