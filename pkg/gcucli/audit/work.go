package audit

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// Work is one piece of work on a node: an operation, or the replacement of a pod.
type Work struct {
	Node string `json:"node"`
	// What was done: the id of an operation, the name of a requested task, or the DaemonSet of a new pod.
	What  string    `json:"what"`
	Began time.Time `json:"began"`
	// Ended is absent while it runs, and if it is not known.
	Ended *time.Time `json:"ended,omitempty"`
	// GoesBack is true for the work of a rollback, which is at the revision before.
	GoesBack bool `json:"goesBack,omitempty"`
	// Result is the phase of the operation, the state of the task, or, of a new pod, Done, Running or Unknown.
	Result  string `json:"result"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// RequestTime is when it was asked for on the node, under OTA.
	RequestTime *time.Time `json:"requestTime,omitempty"`
	// Tasks of an operation by their outcome.
	Tasks *topsv1.OperationResult `json:"tasks,omitempty"`
	// endUnknown is true if it no longer runs, and nothing shows when it ended.
	endUnknown bool
	// resumed is true for an operation before it was resumed, whose end was recorded and is not any more.
	resumed bool
}

// seconds that it took, until now if it runs; 0 if its end is not known.
func (w *Work) seconds(now time.Time) int64 {
	if w.endUnknown {
		return 0
	}
	if w.Ended != nil {
		now = *w.Ended
	}
	return int64(now.Sub(w.Began).Seconds())
}

// failed reports whether it did not succeed.
func (w *Work) failed() bool {
	return w.Result == string(topsv1.OperationFailed) || w.Result == string(topsv1.OperationQuarantined) || w.Result == string(topsv1.TaskFailed)
}

func utc(t *metav1.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	at := t.UTC()
	return &at
}
