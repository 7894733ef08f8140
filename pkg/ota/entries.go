package ota

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"

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

// entry is one request in the journal.
type entry struct {
	// Sequence orders the requests of this node: unique and rising.
	Sequence uint64 `json:"sequence"`
	// Request as it is shown in status.requests.
	Request topsv1.UpgradeRequest `json:"request"`
	// Outcome is the final state of its task, "" as long as none was seen.
	Outcome topsv1.TaskState `json:"outcome,omitempty"`
}

func (e entry) open() bool { return !e.Outcome.Final() }

// requestIDPattern is the shape of requestID; ids of any other shape did not
// come from an agent.
var requestIDPattern = regexp.MustCompile(`^[0-9a-f]{16}(-[1-9][0-9]{0,8})?$`)

// requestID derives the id of the n-th attempt (from 1) to bring a pod to a
// revision, so that asking twice is asking once.
func requestID(v verdict, attempt int) string {
	sum := sha256.Sum256([]byte(string(v.Pod.UID) + "\n" + v.Revision))
	id := hex.EncodeToString(sum[:8])
	if attempt > 1 {
		return fmt.Sprintf("%s-%d", id, attempt)
	}
	return id
}

// admit finds the open request that v repeats, or makes the entry for a new
// one: with the first attempt that is neither finished nor taken back. entries are settled with
// the same tasks. found tells which of the two it is.
func admit(entries []entry, tasks []topsv1.UpgradeTask, v verdict, now metav1.Time) (e entry, found bool, refusal *Refusal) {
	var id string
	for attempt := 1; ; attempt++ {
		id = requestID(v, attempt)
		if i := indexOf(entries, id); i >= 0 && entries[i].open() && !entries[i].Request.Withdrawn {
			return entries[i], true, nil
		} else if i < 0 && !finalState(tasks, id).Final() {
			break
		}
	}
	if open := countOpen(entries); open >= maxOpenRequests {
		return entry{}, false, refuse(ReasonTooMany,
			"%d requests of this node are not finished: wait until some are, the NodeUpgrade of this node shows why they wait.", open)
	}
	return entry{
		Sequence: nextSequence(entries),
		Request: topsv1.UpgradeRequest{
			ID: id, DaemonSet: v.DaemonSet, Pod: v.Pod, Revision: v.Revision, RequestTime: now,
		},
	}, false, nil
}

// settle brings entries up to date with the tasks that answer them: an open
// entry takes over the final state of its task, a finished one whose task is
// gone is dropped. The input is not changed.
func settle(entries []entry, tasks []topsv1.UpgradeTask) []entry {
	settled := make([]entry, 0, len(entries))
	for _, e := range entries {
		state := finalState(tasks, e.Request.ID)
		switch {
		case e.open():
			e.Outcome = state
		case !state.Final():
			continue
		}
		settled = append(settled, e)
	}
	return settled
}

// adopt adds the requests that an agent of this node has shown before and that
// are not in entries: the journal was lost. The input is not changed.
func adopt(entries []entry, shown []topsv1.UpgradeRequest) []entry {
	adopted := slices.Clone(entries)
	for _, request := range shown {
		if requestIDPattern.MatchString(request.ID) && indexOf(adopted, request.ID) < 0 {
			adopted = append(adopted, entry{Sequence: nextSequence(adopted), Request: request})
		}
	}
	return adopted
}

// trim drops the oldest finished entries while there are more than
// keptRequests. Open ones are never dropped. The input is not changed.
func trim(entries []entry) []entry {
	excess := len(entries) - keptRequests
	kept := make([]entry, 0, len(entries))
	for _, e := range entries {
		if excess > 0 && !e.open() {
			excess--
			continue
		}
		kept = append(kept, e)
	}
	return kept
}

// changes compares two lists: what has to be written and which ids have to be
// removed to get from one to the other, each in the order of its list.
func changes(from, to []entry) (write []entry, remove []string) {
	for _, e := range to {
		if i := indexOf(from, e.Request.ID); i < 0 || !equality.Semantic.DeepEqual(from[i], e) {
			write = append(write, e)
		}
	}
	for _, e := range from {
		if indexOf(to, e.Request.ID) < 0 {
			remove = append(remove, e.Request.ID)
		}
	}
	return write, remove
}

// requests returns what status.requests should say: oldest first, nil for none.
func requests(entries []entry) []topsv1.UpgradeRequest {
	var list []topsv1.UpgradeRequest
	for _, e := range entries {
		list = append(list, e.Request)
	}
	return list
}

func indexOf(entries []entry, id string) int {
	return slices.IndexFunc(entries, func(e entry) bool { return e.Request.ID == id })
}

func countOpen(entries []entry) int {
	open := 0
	for _, e := range entries {
		if e.open() {
			open++
		}
	}
	return open
}

func nextSequence(entries []entry) uint64 {
	var last uint64
	for _, e := range entries {
		last = max(last, e.Sequence)
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
