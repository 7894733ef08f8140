package hostagent

import (
	"context"

	"github.com/topsops/gcu-operator/pkg/hostagent/task"
)

// Executor does the host-side tasks of one node. Its methods may be called from
// many goroutines. Only one Executor may use a state directory.
type Executor struct {
	host      host
	records   *records
	puller    puller
	restarter restarter
}

// New opens the journal. It returns an error when nothing could be recorded in
// the state directory; it does not look at the host.
func New(o Options) (*Executor, error) {
	o = o.withDefaults()
	kept, err := openRecords(o)
	if err != nil {
		return nil, err
	}
	h, manager := servicesOf(o)
	return &Executor{host: h, records: kept, puller: puller{host: h, records: kept},
		restarter: restarter{options: o, host: h, records: kept, manager: manager, opened: o.Clock.Now()}}, nil
}

// servicesOf finds who restarts engines on the host; nil when nobody does.
func servicesOf(o Options) (h host, manager ServiceManager) {
	h = host{root: o.HostRoot, paths: o.Paths}
	systemd := Systemd{Bus: h.path(h.paths.SystemBus), Units: o.Units}
	// /run/systemd/system is how systemd says that it runs the machine.
	runs := exists(h.path("run/systemd/system"))
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

// verify reads what the node shows. What it means is for the asker to say.
func (e *Executor) verify(ctx context.Context, request task.Request, r task.Record) (task.Result, error) {
	facts, err := e.Facts(ctx, request.Engine)
	if err != nil {
		return task.Result{}, err
	}
	r.Result.Facts = facts
	r.Result.Attempts++
	return e.records.end(r, task.Done, task.ReasonRead, "")
}

// Facts reads what the node shows now, without recording it. What cannot be read
// is left out and explained in Host.Missing; Host is never nil. The error is that
// of ctx.
func (e *Executor) Facts(ctx context.Context, wanted task.Engine) (task.Facts, error) {
	return e.host.facts(ctx, wanted)
}

// Results returns what is known of every recorded task, sorted by id and task.
// A task that Runs after the agent has come back is to be executed again.
func (e *Executor) Results() []task.Result { return e.records.results() }
