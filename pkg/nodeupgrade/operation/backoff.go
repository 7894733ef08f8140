package operation

import (
	"time"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

const (
	firstBackoff = 5 * time.Minute
	maxBackoff   = 2 * time.Hour
)

// Backoff returns when a node may be retried after deferred operations: five minutes after
// the last one ended, doubled for each earlier one in a row at the same revision, at most two
// hours. Zero: at once.
func Backoff(history []topsv1.OperationRecord, revision string) time.Time {
	wait := time.Duration(0)
	for i := len(history) - 1; i >= 0; i-- {
		if history[i].Phase != topsv1.OperationDeferred || history[i].Revision != revision {
			break
		}
		wait = min(max(firstBackoff, 2*wait), maxBackoff)
	}
	if wait == 0 {
		return time.Time{}
	}
	return history[len(history)-1].EndTime.Add(wait)
}
