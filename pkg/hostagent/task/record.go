package task

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Record is one task in the journal.
type Record struct {
	// Subject is what was asked, apart from times and secrets.
	Subject string `json:"subject"`
	Result  Result `json:"result"`
	// Begun is set before the service manager is asked to restart anything.
	Begun *Begun `json:"begun,omitempty"`
}

// Begun is the request for a restart.
type Begun struct {
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

// Final reports whether nothing is done any more for this record.
func (r Record) Final() bool {
	return r.Begun != nil && r.Result.State.Final()
}

// last is when anything was heard of the task.
func (r Record) last() time.Time {
	if r.Result.Finished.IsZero() {
		return r.Result.Started
	}
	return r.Result.Finished
}

// Key names the task on this node.
func (r Record) Key() string { return KeyOf(r.Result.ID, r.Result.Task) }

// KeyOf names a task on this node; '_' is in no id.
func KeyOf(id, task string) string { return id + "_" + task }

// Superfluous returns the keys of the oldest records beyond the number that is
// kept, sorted. A restart that has begun and not ended, and the newest record, are
// never among them.
func Superfluous(records map[string]Record, keep int) []string {
	var ended []Record
	for _, r := range records {
		if r.Begun == nil || r.Final() {
			ended = append(ended, r)
		}
	}
	if len(ended) <= keep {
		return nil
	}
	slices.SortFunc(ended, func(a, b Record) int {
		return cmp.Or(a.last().Compare(b.last()), strings.Compare(a.Key(), b.Key()))
	})
	var keys []string
	for _, r := range ended[:len(ended)-keep] {
		keys = append(keys, r.Key())
	}
	slices.Sort(keys)
	return keys
}
