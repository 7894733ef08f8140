package hostagent

import (
	"context"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/hostagent/task"
)

// Executor executes the host-side tasks of one node. It is safe for concurrent use. Only one
// Executor may use a state directory.
type Executor struct {
	host      host
	records   *records
	defaults  *defaults
	puller    puller
	restarter restarter
}

// New opens the journal. It returns an error when the state directory is not writable; it
// does not access the host.
func New(o Options) (*Executor, error) {
	o = o.withDefaults()
	kept, err := openRecords(o)
	if err != nil {
		return nil, err
	}
	remembered, err := openDefaults(o)
	if err != nil {
		return nil, err
	}
	h, manager := servicesOf(o)
	return &Executor{host: h, records: kept, defaults: remembered, puller: puller{host: h, records: kept},
		restarter: restarter{options: o, host: h, records: kept, manager: manager, opened: o.Clock.Now()}}, nil
}

// servicesOf returns the service manager for the engines of the host, nil when there is none.
func servicesOf(o Options) (h host, manager ServiceManager) {
	h = host{root: o.HostRoot, paths: o.Paths, units: o.Units, podUID: o.PodUID, reads: &reads{limit: responseTimeout}}
	systemd := Systemd{Bus: func() (string, error) { return resolve(h.root, h.paths.SystemBus) }, Units: h.unitsOf}
	// /run/systemd/system exists when systemd is the init system.
	runs := h.exists("run/systemd/system")
	if runs {
		h.services = systemd.MainPID
	}
	switch {
	case o.ServiceManager != nil:
		manager = o.ServiceManager
	case runs:
		manager = systemd
	case len(o.Command) > 0:
		manager = o.command()
	}
	return h, manager
}

// Execute executes a task, or continues one that was begun, even by an earlier agent process,
// and returns its result. It blocks until the task has ended, waits for a person, or ctx
// ends; then the error is that of ctx, and another call continues the task.
//
// An error means that nothing was done, and wraps one of ErrInvalid, ErrBusy, ErrConflict,
// ErrLost, ErrNotRecorded; ErrNotRecorded and the error of ctx may also come after the task
// has begun. A failed task is a Result, not an error.
//
// A restart that has ended answers from the journal. Every other task runs again: a failed
// pull is repeated, facts are read anew.
func (e *Executor) Execute(ctx context.Context, request task.Request) (task.Result, error) {
	if err := request.Validate(); err != nil {
		return task.Result{}, err
	}
	r, release, err := e.records.take(request)
	if err != nil {
		return task.Result{}, err
	}
	defer release()
	switch {
	case r.Final():
		return e.records.again(request, r)
	case request.Prepull != nil:
		return e.puller.prepull(ctx, request, r)
	case request.RestartRuntime != nil:
		return e.restarter.restart(ctx, request, r)
	}
	return e.verify(ctx, request, r)
}

// verify reads the state of the node. The caller interprets it.
func (e *Executor) verify(ctx context.Context, request task.Request, r task.Record) (task.Result, error) {
	facts, err := e.Facts(ctx, request.Engine)
	if err != nil {
		return task.Result{}, err
	}
	facts.Host.Holders = nil // of the moment, and read again for each report
	r.Result.Facts = facts
	r.Result.Attempts++
	return e.records.end(r, topsv1.HostTaskDone, task.ReasonRead, "")
}

// Facts reads the current state of the node, without recording more of it than the default runtime. Unreadable facts are left
// out and explained in Host.Missing; Host is never nil. The error is that of ctx.
func (e *Executor) Facts(ctx context.Context, wanted task.Engine) (task.Facts, error) {
	facts, err := e.host.facts(ctx, wanted)
	if facts.Runtime != nil {
		facts.Runtime.DefaultSince = e.defaults.since(facts.Runtime)
	}
	return facts, err
}

// Results returns the results of all recorded tasks, sorted by id and task. A task that is
// Running after the agent has restarted must be executed again.
func (e *Executor) Results() []task.Result { return e.records.results() }

// Unended returns, for each restart that has begun and not ended, the request with which Execute observes it until it has,
// without another attempt.
func (e *Executor) Unended() []task.Request { return e.records.unended() }
