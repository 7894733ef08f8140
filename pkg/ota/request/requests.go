package request

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

const (
	// keptRequests is how many requests are kept if some of them are finished.
	keptRequests = 20
	// maxOpenRequests bounds the unfinished requests, as in status.requests.
	maxOpenRequests = 64
)

// Request is one request in the journal.
type Request struct {
	// Sequence orders the requests of this node: unique and increasing.
	Sequence uint64 `json:"sequence"`
	// UpgradeRequest as it is submitted in status.requests.
	topsv1.UpgradeRequest `json:"request"`
	// Outcome is the final state of its task, or "".
	Outcome topsv1.TaskState `json:"outcome,omitempty"`
}

// Open reports whether a request is unfinished.
func (r Request) Open() bool { return !r.Outcome.Final() }

// IDPattern is the shape of request ids; other ids did not come from an agent.
var IDPattern = regexp.MustCompile(`^[0-9a-f]{16}(-[1-9][0-9]{0,8})?$`)

// requestID derives the id of the n-th attempt (from 1) to bring a pod to a revision, or away from it,
// so that requests are idempotent.
func requestID(wanted topsv1.UpgradeRequest, attempt int) string {
	seed := string(wanted.Pod.UID) + "\n" + wanted.Revision
	if wanted.Rollback {
		seed += "\nrollback"
	}
	sum := sha256.Sum256([]byte(seed))
	id := hex.EncodeToString(sum[:8])
	if attempt > 1 {
		return fmt.Sprintf("%s-%d", id, attempt)
	}
	return id
}

// Admit returns the open request that a wanted one repeats (found), or a new one: the first
// attempt that is neither finished nor withdrawn. ApplyAnswers must have been called with the same
// tasks.
func Admit(requests []Request, tasks []topsv1.UpgradeTask, wanted topsv1.UpgradeRequest, now metav1.Time) (r Request, found bool, refusal *Refusal) {
	for attempt := 1; ; attempt++ {
		wanted.ID = requestID(wanted, attempt)
		if i := indexOf(requests, wanted.ID); i >= 0 && requests[i].Open() && !requests[i].Withdrawn {
			return requests[i], true, nil
		} else if i < 0 && !finalState(tasks, wanted.ID).Final() {
			break
		}
	}
	if open := countOpen(requests); open >= maxOpenRequests {
		return Request{}, false, Refuse(ReasonTooMany,
			"%d requests of this node are not finished: wait until some are, the NodeUpgrade of this node shows why they wait.", open)
	}
	wanted.RequestTime = now
	return Request{Sequence: nextSequence(requests), UpgradeRequest: wanted}, false, nil
}

// ApplyAnswers updates requests from the tasks that answer them: an open request takes the final
// state of its task, and a finished one whose task is gone is dropped. The input is not
// modified.
func ApplyAnswers(requests []Request, tasks []topsv1.UpgradeTask) []Request {
	applied := make([]Request, 0, len(requests))
	for _, r := range requests {
		state := finalState(tasks, r.ID)
		switch {
		case r.Open():
			r.Outcome = state
		case !state.Final():
			continue
		}
		applied = append(applied, r)
	}
	return applied
}

// Adopt adds the requests that an agent of this node has submitted and that are missing in
// requests, because the journal was lost. The input is not changed.
func Adopt(requests []Request, submitted []topsv1.UpgradeRequest) []Request {
	adopted := slices.Clone(requests)
	for _, request := range submitted {
		if IDPattern.MatchString(request.ID) && indexOf(adopted, request.ID) < 0 {
			adopted = append(adopted, Request{Sequence: nextSequence(adopted), UpgradeRequest: request})
		}
	}
	return adopted
}

// Trim drops the oldest finished requests while there are more than
// keptRequests. Open ones are never dropped. The input is not changed.
func Trim(requests []Request) []Request {
	excess := len(requests) - keptRequests
	kept := make([]Request, 0, len(requests))
	for _, r := range requests {
		if excess > 0 && !r.Open() {
			excess--
			continue
		}
		kept = append(kept, r)
	}
	return kept
}

// Changes returns what must be written and which ids must be removed to get from one list
// to the other, each in the order of its list.
func Changes(from, to []Request) (write []Request, remove []string) {
	for _, r := range to {
		if i := indexOf(from, r.ID); i < 0 || !equality.Semantic.DeepEqual(from[i], r) {
			write = append(write, r)
		}
	}
	for _, r := range from {
		if indexOf(to, r.ID) < 0 {
			remove = append(remove, r.ID)
		}
	}
	return write, remove
}

// StatusOf returns the value of status.requests: oldest first, nil for none.
func StatusOf(requests []Request) []topsv1.UpgradeRequest {
	var list []topsv1.UpgradeRequest
	for _, r := range requests {
		list = append(list, r.UpgradeRequest)
	}
	return list
}

func indexOf(requests []Request, id string) int {
	return slices.IndexFunc(requests, func(r Request) bool { return r.ID == id })
}

func countOpen(requests []Request) int {
	open := 0
	for _, r := range requests {
		if r.Open() {
			open++
		}
	}
	return open
}

func nextSequence(requests []Request) uint64 {
	var last uint64
	for _, r := range requests {
		last = max(last, r.Sequence)
	}
	return last + 1
}

// finalState returns the state of the task that answers a request if it is final, else "".
func finalState(tasks []topsv1.UpgradeTask, id string) topsv1.TaskState {
	for i := range tasks {
		if tasks[i].RequestID == id && tasks[i].State.Final() {
			return tasks[i].State
		}
	}
	return ""
}

// Seconds truncates a time to seconds, the precision of the API.
func Seconds(t time.Time) metav1.Time { return metav1.NewTime(t.UTC().Truncate(time.Second)) }
