package task

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Record is one task in the journal.
type Record struct {
	// Subject is the content of the request, without times and secrets.
	Subject string `json:"subject"`
	Result  Result `json:"result"`
	// Begun is set before the service manager is first called.
	Begun *Begun `json:"begun,omitempty"`
}

// Begun is the request for a restart.
type Begun struct {
	Engine Engine `json:"engine"`
	// Before is the instance of the daemon at the time of the request, "" when none ran. It
	// is already in the first generation of the record, so that a torn later one cannot cause
	// a second restart.
	Before string `json:"before"`
	// Deadline for the daemon to be back, UTC.
	Deadline time.Time `json:"deadline"`
	// Timeout is that of the request; zero in the records of earlier versions.
	Timeout time.Duration `json:"timeout,omitempty"`
	// Attempts is the number of calls of the service manager.
	Attempts int `json:"attempts,omitempty"`
	// Answered: the last call has returned; Refused is its error, if any.
	Answered bool   `json:"answered,omitempty"`
	Refused  string `json:"refused,omitempty"`
}

// Within returns the request with a deadline that is at most a time away from now: one that is further away
// was written before the clock of the node was set back. If the clock was set ahead past the deadline, the restart is reported as
// failed, and not repeated.
func (b Begun) Within(now time.Time, timeout time.Duration) *Begun {
	if latest := now.Add(timeout); b.Deadline.After(latest) {
		b.Deadline = latest
	}
	return &b
}

// Matches reports whether a request is about the same as the record.
func (r Record) Matches(request Request) bool {
	subject, _, _ := strings.Cut(r.Subject, engineSubject)
	return subject == request.Subject()
}

// Unended returns a request that observes the restart of a record until it has ended; false if it has not begun, or has
// ended.
func (r Record) Unended() (Request, bool) {
	if r.Begun == nil || r.Final() {
		return Request{}, false
	}
	subject, _, _ := strings.Cut(r.Subject, engineSubject)
	return Request{ID: r.Result.ID, Task: r.Result.Task, Attempt: r.Result.Attempt, Since: r.Result.Since, Engine: r.Begun.Engine,
		RestartRuntime: &RestartRuntime{DefaultRuntime: strings.TrimPrefix(subject, restartSubject), Observe: true,
			Timeout: r.Begun.Timeout}}, true
}

// Final reports whether the record needs no further work: its restart has ended.
func (r Record) Final() bool {
	return r.Begun != nil && r.Result.State.Final()
}

// last is the time of the last change.
func (r Record) last() time.Time {
	if r.Result.Finished.IsZero() {
		return r.Result.Started
	}
	return r.Result.Finished
}

// ahead is -1 for a record from after now, 0 for another.
func (r Record) ahead(now time.Time) int {
	if r.last().After(now) {
		return -1
	}
	return 0
}

// Key identifies the task on this node.
func (r Record) Key() string { return KeyOf(r.Result.ID, r.Result.Task) }

// KeyOf returns the key of a task on this node; no id contains '_'.
func KeyOf(id, task string) string { return id + "_" + task }

// Superfluous returns the keys of the oldest records beyond keep, sorted. Restarts in
// progress, and the newest record, are never among them. A record from after now was written before the clock of
// the node was set back: it is taken for older than those from before now, of which some were written since.
func Superfluous(records map[string]Record, keep int, now time.Time) []string {
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
		return cmp.Or(cmp.Compare(a.ahead(now), b.ahead(now)), a.last().Compare(b.last()), strings.Compare(a.Key(), b.Key()))
	})
	var keys []string
	for _, r := range ended[:len(ended)-keep] {
		keys = append(keys, r.Key())
	}
	slices.Sort(keys)
	return keys
}
