package hostagent

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/topsops/gcu-operator/pkg/journal"
)

// keptRecords is how many records are kept, unfinished restarts apart: those of the last
// twenty operations of a node, and some.
const keptRecords = 400

// record is one task in the journal.
type record struct {
	// Subject is what was asked, apart from times and secrets.
	Subject string `json:"subject"`
	Result  Result `json:"result"`
	// Begun is set before the service manager is asked to restart anything.
	Begun *begun `json:"begun,omitempty"`
}

// begun is the request for a restart.
type begun struct {
	Engine Engine `json:"engine"`
	// Before is the instance of the daemon when the restart was asked for: "" when
	// none ran. It is in the first generation already, so that a torn later one
	// cannot make a second restart.
	Before string `json:"before"`
	// Deadline for the daemon to be back, UTC.
	Deadline time.Time `json:"deadline"`
	// Attempts to ask the service manager.
	Attempts int `json:"attempts,omitempty"`
	// Answered: it has answered the last attempt; Refused is its error, if any.
	Answered bool   `json:"answered,omitempty"`
	Refused  string `json:"refused,omitempty"`
}

// final tells that Execute does nothing any more for this record.
func (r record) final() bool {
	return r.Begun != nil && ended(r.Result.State)
}

// last is when anything was heard of the task.
func (r record) last() time.Time {
	if r.Result.Finished.IsZero() {
		return r.Result.Started
	}
	return r.Result.Finished
}

func (r record) key() string { return keyOf(r.Result.ID, r.Result.Task) }

// keyOf names a task on this node; '_' is in no id.
func keyOf(id, task string) string { return id + "_" + task }

var recordKind = journal.Kind[record]{
	ID:           record.key,
	IDPattern:    regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9.-]{0,61}[A-Za-z0-9])?_[A-Za-z0-9.-]{1,63}_[A-Za-z0-9.-]{1,63}$`),
	KeepPrevious: true,
}

// superfluous returns the keys of the oldest records beyond the number that is
// kept, sorted. A restart that has begun and not ended, and the newest record, are
// never among them.
func superfluous(records map[string]record, keep int) []string {
	var ended []record
	for _, r := range records {
		if r.Begun == nil || r.final() {
			ended = append(ended, r)
		}
	}
	if len(ended) <= keep {
		return nil
	}
	slices.SortFunc(ended, func(a, b record) int {
		return cmp.Or(a.last().Compare(b.last()), strings.Compare(a.key(), b.key()))
	})
	var keys []string
	for _, r := range ended[:len(ended)-keep] {
		keys = append(keys, r.key())
	}
	slices.Sort(keys)
	return keys
}
