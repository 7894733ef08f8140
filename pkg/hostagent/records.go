package hostagent

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/hostagent/task"
	"github.com/topsops/gcu-operator/pkg/journal"
)

// keptRecords is how many records are kept, not counting unfinished restarts: more than those
// of the last twenty operations of a node.
const keptRecords = 400

var recordKind = journal.Kind[task.Record]{
	ID:           task.Record.Key,
	IDPattern:    regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9.-]{0,61}[A-Za-z0-9])?_[A-Za-z0-9.-]{1,63}_[A-Za-z0-9.-]{1,63}$`),
	KeepPrevious: true,
}

// records holds the tasks in the journal, and which of them are being executed.
type records struct {
	clock clock.PassiveClock
	log   logr.Logger
	// outputs are the output files of restart commands.
	outputs Command

	mutex   sync.Mutex
	journal *journal.Journal[task.Record]
	all     map[string]task.Record
	lost    map[string]bool
	busy    map[string]bool
}

// openRecords opens the journal. It returns an error when the state directory is not
// writable.
func openRecords(o Options) (*records, error) {
	s := &records{clock: o.Clock, log: o.Log, outputs: o.command(), all: map[string]task.Record{}, lost: map[string]bool{}, busy: map[string]bool{}}
	kept, content, err := journal.Open(filepath.Join(o.StateDirectory, "tasks"), recordKind, o.Log)
	if err != nil {
		return nil, err
	}
	s.journal = kept
	for _, r := range content.Values {
		s.all[r.Key()] = r
	}
	for _, key := range content.Lost {
		s.lost[key] = true
	}
	return s, nil
}

// of returns the record of a task, the zero value when there is none.
func (s *records) of(key string) task.Record {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.all[key]
}

// results returns the results of all tasks, sorted by id and task.
func (s *records) results() []task.Result {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	all := make([]task.Result, 0, len(s.all))
	for _, key := range slices.Sorted(maps.Keys(s.all)) {
		all = append(all, s.all[key].Result)
	}
	return all
}

// unended returns requests that observe the restarts that have begun and not ended, sorted by id and task.
func (s *records) unended() (requests []task.Request) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for _, key := range slices.Sorted(maps.Keys(s.all)) {
		if request, is := s.all[key].Unended(); is {
			requests = append(requests, request)
		}
	}
	return requests
}

// again returns the recorded result, with the attempt of this request.
func (s *records) again(request task.Request, r task.Record) (task.Result, error) {
	if r.Result.Attempt == request.Attempt {
		return r.Result, nil
	}
	r.Result.Attempt = request.Attempt
	return r.Result, s.put(r)
}

// take reserves a task for one call, and returns its record, new if there is none.
func (s *records) take(request task.Request) (r task.Record, release func(), err error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	key := task.KeyOf(request.ID, request.Task)
	reserve := []string{key}
	if request.RestartRuntime != nil {
		reserve = append(reserve, "any restart")
	}
	for _, k := range reserve {
		if s.busy[k] {
			return task.Record{}, nil, fmt.Errorf("%s: %w", key, task.ErrBusy)
		}
	}
	if s.lost[key] && request.RestartRuntime != nil { // other tasks may be repeated
		return task.Record{}, nil, fmt.Errorf("%s: %w", key, task.ErrLost)
	}
	r, known := s.all[key]
	if known && !r.Matches(request) {
		return task.Record{}, nil, fmt.Errorf("%s: it is now %q, and was %q: %w", key, request.Subject(), r.Subject, task.ErrConflict)
	}
	if !known {
		r = task.Record{Subject: request.Subject(), Result: task.Result{ID: request.ID, Task: request.Task, Since: request.Since.UTC(), Started: s.now()}}
	}
	if !r.Final() {
		r.Result.Attempt = request.Attempt
	}
	for _, k := range reserve {
		s.busy[k] = true
	}
	return r, func() { s.release(reserve) }, nil
}

func (s *records) release(reserved []string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for _, k := range reserved {
		delete(s.busy, k)
	}
}

// put stores a record durably, and then removes the oldest records beyond keptRecords with
// their command output.
func (s *records) put(r task.Record) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if err := s.journal.Put(r); err != nil {
		return fmt.Errorf("%w: %w", task.ErrNotRecorded, err)
	}
	s.all[r.Key()] = r
	old := task.Superfluous(s.all, keptRecords, s.now())
	if err := s.journal.Change(nil, old); err != nil {
		s.log.Error(err, "Could not remove old records from the journal")
		return nil
	}
	for _, key := range old {
		delete(s.all, key)
		if err := os.Remove(s.outputs.output(key)); err != nil && !os.IsNotExist(err) {
			s.log.Error(err, "Could not remove the output of an old restart command")
		}
	}
	return nil
}

// end records a result.
func (s *records) end(r task.Record, state topsv1.HostTaskState, reason task.Reason, message string) (task.Result, error) {
	r.Result.State, r.Result.Reason, r.Result.Message = state, reason, task.Short(message)
	r.Result.Finished = time.Time{}
	if state.Final() {
		r.Result.Finished = s.now()
	}
	if err := s.put(r); err != nil {
		return task.Result{}, err
	}
	return r.Result, nil
}

// now returns the time with the precision of records.
func (s *records) now() time.Time { return s.clock.Now().UTC().Truncate(time.Second) }
