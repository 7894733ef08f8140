package hostagent

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"github.com/topsops/gcu-operator/pkg/journal"
	"github.com/topsops/gcu-operator/pkg/logging"
)

// Options configure an Executor. Fields without a default are required.
type Options struct {
	// StateDirectory holds the journal; it is made when it does not exist, and must
	// survive restarts of the node.
	StateDirectory string
	// HostRoot is where the root of the host is mounted: "/" outside a container.
	HostRoot string
	// Paths on the host; the zero value has the usual ones.
	Paths Paths
	// ServiceManager restarts engines. When nil, it is systemd where the host has
	// one, else Command.
	ServiceManager ServiceManager
	// Units of the engines in systemd, when they are not docker.service and
	// containerd.service.
	Units map[Engine]string
	// Command are the argument vectors that restart engines on hosts without systemd.
	Command map[Engine][]string
	// Host is the name or address of the node in the restart log.
	Host string
	// PodUID of the agent; "" when it runs in no pod. Its container must be running
	// after a restart.
	PodUID string
	// RestartLog is restart-docker.log; nil: none.
	RestartLog *logging.Dated
	// Poll is the time between two looks at a daemon that is coming back; 1 second when zero.
	Poll time.Duration
	// Settle is how long an agent that finds a restart asked for, and neither done
	// nor going on, waits before it asks again; 30 seconds when zero.
	Settle time.Duration
	Clock  clock.Clock
	Log    logr.Logger
}

// Executor does the host-side tasks of one node. Its methods may be called from
// many goroutines. Only one Executor may use a state directory.
type Executor struct {
	options  Options
	host     host
	services mainPIDs
	manager  ServiceManager
	opened   time.Time

	mutex   sync.Mutex
	journal *journal.Journal[record]
	records map[string]record
	lost    map[string]bool
	busy    map[string]bool
}

// New opens the journal. It returns an error when nothing could be recorded in
// the state directory; it does not look at the host.
func New(o Options) (*Executor, error) {
	o.Poll = cmp.Or(o.Poll, time.Second)
	o.Settle = cmp.Or(o.Settle, 30*time.Second)
	e := &Executor{
		options: o,
		host:    host{root: filepath.Clean(o.HostRoot), paths: o.Paths.withDefaults()},
		opened:  o.Clock.Now(),
		records: map[string]record{},
		lost:    map[string]bool{},
		busy:    map[string]bool{},
	}
	kept, content, err := journal.Open(filepath.Join(o.StateDirectory, "tasks"), recordKind, o.Log)
	if err != nil {
		return nil, err
	}
	e.journal = kept
	for _, r := range content.Values {
		e.records[r.key()] = r
	}
	for _, key := range content.Lost {
		e.lost[key] = true
	}
	e.chooseManager()
	return e, nil
}

// chooseManager finds who restarts engines on this host.
func (e *Executor) chooseManager() {
	systemd := Systemd{Bus: e.host.path(e.host.paths.SystemBus), Units: e.options.Units}
	// /run/systemd/system is how systemd says that it runs the machine.
	runs := exists(e.host.path("run/systemd/system"))
	if runs {
		e.services = systemd.MainPID
	}
	switch {
	case e.options.ServiceManager != nil:
		e.manager = e.options.ServiceManager
	case runs:
		e.manager = systemd
	case len(e.options.Command) > 0:
		e.manager = Command{Argv: e.options.Command, Directory: filepath.Join(e.options.StateDirectory, "commands")}
	}
}

// Execute does a task, or goes on with one that was begun, also by an agent
// that has died since, and returns what became of it. It blocks until the task
// has ended, waits for a person, or ctx ends; then the error is that of ctx and
// calling it again goes on.
//
// An error means that nothing was done, and wraps one of ErrInvalid, ErrBusy,
// ErrConflict, ErrLost, ErrNotRecorded; ErrNotRecorded and the error of ctx may
// also come after a restart was begun. A task that went wrong is a Result.
//
// A restart that has ended answers from the journal. Everything else looks
// anew: a failed pull can be repeated, facts are read again.
func (e *Executor) Execute(ctx context.Context, o Operation) (Result, error) {
	if err := o.Validate(); err != nil {
		return Result{}, err
	}
	r, release, err := e.take(o)
	if err != nil {
		return Result{}, err
	}
	defer release()
	switch {
	case r.final():
		return e.again(o, r)
	case o.Prepull != nil:
		return e.prepull(ctx, o, r)
	case o.RestartRuntime != nil:
		return e.restart(ctx, o, r)
	}
	return e.verify(ctx, o, r)
}

// again answers from the record, and echoes who asks this time.
func (e *Executor) again(o Operation, r record) (Result, error) {
	if r.Result.Attempt == o.Attempt {
		return r.Result, nil
	}
	r.Result.Attempt = o.Attempt
	return r.Result, e.put(r)
}

// take reserves a task for one call, and returns its record: a new one when
// there is none.
func (e *Executor) take(o Operation) (r record, release func(), err error) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	key := keyOf(o.ID, o.Task)
	reserve := []string{key}
	if o.RestartRuntime != nil {
		reserve = append(reserve, "any restart")
	}
	for _, k := range reserve {
		if e.busy[k] {
			return record{}, nil, fmt.Errorf("%s: %w", key, ErrBusy)
		}
	}
	if e.lost[key] && o.RestartRuntime != nil { // what else there is may be done again
		return record{}, nil, fmt.Errorf("%s: %w", key, ErrLost)
	}
	r, known := e.records[key]
	if known && r.Subject != o.subject() {
		return record{}, nil, fmt.Errorf("%s: it is now %q, and was %q: %w", key, o.subject(), r.Subject, ErrConflict)
	}
	if !known {
		r = record{Subject: o.subject(), Result: Result{ID: o.ID, Task: o.Task, Since: o.Since.UTC(), Started: e.now()}}
	}
	if !r.final() {
		r.Result.Attempt = o.Attempt
	}
	for _, k := range reserve {
		e.busy[k] = true
	}
	return r, func() { e.release(reserve) }, nil
}

func (e *Executor) release(reserved []string) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	for _, k := range reserved {
		delete(e.busy, k)
	}
}

// Results returns what is known of every recorded task, sorted by id and task.
// A task that Runs after the agent has come back is to be executed again.
func (e *Executor) Results() []Result {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	results := make([]Result, 0, len(e.records))
	for _, key := range slices.Sorted(maps.Keys(e.records)) {
		results = append(results, e.records[key].Result)
	}
	return results
}

// put records durably, and forgets what is too old when a task ended. Removing
// gives a full disk its room back.
func (e *Executor) put(r record) error {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if err := e.journal.Put(r); err != nil {
		return fmt.Errorf("%w: %w", ErrNotRecorded, err)
	}
	e.records[r.key()] = r
	old := superfluous(e.records, keptRecords)
	if err := e.journal.Change(nil, old); err != nil {
		e.options.Log.Error(err, "Could not remove old records from the journal")
		return nil
	}
	for _, key := range old {
		delete(e.records, key)
		if err := os.Remove(e.commandOutput(key)); err != nil && !os.IsNotExist(err) {
			e.options.Log.Error(err, "Could not remove the output of an old restart command")
		}
	}
	return nil
}

func (e *Executor) commandOutput(key string) string {
	return Command{Directory: filepath.Join(e.options.StateDirectory, "commands")}.output(key)
}

// end records a result.
func (e *Executor) end(r record, state State, reason Reason, message string) (Result, error) {
	r.Result.State, r.Result.Reason, r.Result.Message = state, reason, short(message)
	r.Result.Finished = time.Time{}
	if ended(state) {
		r.Result.Finished = e.now()
	}
	if err := e.put(r); err != nil {
		return Result{}, err
	}
	return r.Result, nil
}

// now is the time as it is recorded.
func (e *Executor) now() time.Time { return e.options.Clock.Now().UTC().Truncate(time.Second) }

// maxMessage bounds what a status has to carry, in bytes.
const maxMessage = 1024

func short(message string) string {
	if len(message) <= maxMessage {
		return message
	}
	cut := maxMessage - len("…")
	for cut > 0 && message[cut]&0xC0 == 0x80 { // not inside a character
		cut--
	}
	return message[:cut] + "…"
}
