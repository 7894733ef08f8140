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
	// keptRequests is how many requests are kept while some of them are finished.
	keptRequests = 20
	// maxOpenRequests is how many requests may be unfinished: the bound of status.requests.
	maxOpenRequests = 64
)

// Request is one request in the journal.
type Request struct {
	// Sequence orders the requests of this node: unique and rising.
	Sequence uint64 `json:"sequence"`
	// UpgradeRequest as it is shown in status.requests.
	topsv1.UpgradeRequest `json:"request"`
	// Outcome is the final state of its task, "" as long as none was seen.
	Outcome topsv1.TaskState `json:"outcome,omitempty"`
}

// Open reports whether a request has not ended.
func (r Request) Open() bool { return !r.Outcome.Final() }

// IDPattern is the shape of the ids of requests; ids of any other shape did not
// come from an agent.
var IDPattern = regexp.MustCompile(`^[0-9a-f]{16}(-[1-9][0-9]{0,8})?$`)

// requestID derives the id of the n-th attempt (from 1) to bring a pod to a
// revision, so that asking twice is asking once.
func requestID(wanted topsv1.UpgradeRequest, attempt int) string {
	sum := sha256.Sum256([]byte(string(wanted.Pod.UID) + "\n" + wanted.Revision))
	id := hex.EncodeToString(sum[:8])
	if attempt > 1 {
		return fmt.Sprintf("%s-%d", id, attempt)
	}
	return id
}

// Admit finds the open request that a wanted one repeats, or makes a new one: the first
// attempt that is neither finished nor withdrawn. requests are settled with the same
// tasks. found tells which of the two it is.
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

// Settle brings requests up to date with the tasks that answer them: an open
// request takes over the final state of its task, a finished one whose task is
// gone is dropped. The input is not changed.
func Settle(requests []Request, tasks []topsv1.UpgradeTask) []Request {
	settled := make([]Request, 0, len(requests))
	for _, r := range requests {
		state := finalState(tasks, r.ID)
		switch {
		case r.Open():
			r.Outcome = state
		case !state.Final():
			continue
		}
		settled = append(settled, r)
	}
	return settled
}

// Adopt adds the requests that an agent of this node has shown before and that
// are not in requests: the journal was lost. The input is not changed.
func Adopt(requests []Request, shown []topsv1.UpgradeRequest) []Request {
	adopted := slices.Clone(requests)
	for _, request := range shown {
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

// Changes compares two lists: what has to be written and which ids have to be
// removed to get from one to the other, each in the order of its list.
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

// Shown returns what status.requests should say: oldest first, nil for none.
func Shown(requests []Request) []topsv1.UpgradeRequest {
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

// finalState returns the state of the task that answers a request when it is
// final, "" otherwise.
func finalState(tasks []topsv1.UpgradeTask, id string) topsv1.TaskState {
	for i := range tasks {
		if tasks[i].RequestID == id && tasks[i].State.Final() {
			return tasks[i].State
		}
	}
	return ""
}

// Seconds drops what a NodeUpgrade cannot carry.
func Seconds(t time.Time) metav1.Time { return metav1.NewTime(t.UTC().Truncate(time.Second)) }
