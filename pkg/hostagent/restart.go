package hostagent

import (
	"context"
	"strings"
	"time"
)

// restart observes, decides and acts until the restart has ended.
func (e *Executor) restart(ctx context.Context, o Operation, r record) (Result, error) {
	for {
		s := e.sight(ctx, o, &r)
		if err := ctx.Err(); err != nil {
			return r.Result, context.Cause(ctx)
		}
		d := decide(s)
		e.options.Log.V(4).Info("Decided on a restart of the runtime", "operation", o.ID, "reason", d.reason, "message", d.message)
		var err error
		switch d.step {
		case report:
			if !ended(d.state) && e.toldBefore(r, d) {
				return r.Result, nil
			}
			e.tell(o, s, r, d)
			return e.end(r, d.state, d.reason, d.message)
		case finish:
			result, err := e.end(r, d.state, d.reason, d.message)
			if err == nil {
				e.tell(o, s, r, d)
			}
			return result, err
		case begin:
			r, err = e.begin(o, s, r, d)
		case ask:
			r, err = e.ask(ctx, o, r)
		case wait:
			if r, err = e.waitFor(r, d); err == nil {
				err = e.pause(ctx)
			}
		}
		if err != nil {
			return r.Result, err
		}
	}
}

// sight looks at the host. What it sees of the runtime becomes a fact of the result.
func (e *Executor) sight(ctx context.Context, o Operation, r *record) sighting {
	s := sighting{want: *o.RestartRuntime, canRestart: e.manager != nil, begun: r.Begun}
	if r.Begun != nil {
		s.engine = r.Begun.Engine
		s.expired = !e.options.Clock.Now().Before(r.Begun.Deadline)
		s.settled = e.options.Clock.Since(e.opened) >= e.options.Settle
	} else if s.engine, s.engineErr = e.host.detect(ctx, o.engine()); s.engineErr != nil {
		return s
	}
	// The instance is read first: an answer that comes after it is of this
	// instance or of a newer one.
	s.instance, s.instanceErr = e.host.instanceOf(ctx, s.engine, e.services)
	var status engineStatus
	status, s.statusErr = e.host.ask(ctx, s.engine)
	s.defaultRuntime = status.defaultRuntime
	s.byHand, s.config = e.byHand(s.engine), "/"+e.host.config(s.engine)
	if s.statusErr == nil {
		r.Result.Facts.Runtime = runtimeFacts(s.engine, s.instance, status)
		s.ownGone = e.ownGone(ctx, s.engine)
	}
	if r.Begun == nil {
		s.fresh = e.options.Clock.Since(r.Result.Started) < configurePatience
		var err error
		if s.configured, s.confNamed, err = e.host.configuredDefault(s.engine); err != nil {
			e.options.Log.Error(err, "Could not read the configuration of the container engine", "engine", s.engine)
		}
		return s
	}
	s.busy, s.busyErr = e.isBusy(ctx, s.engine, r.key())
	return s
}

// byHand is the command that restarts an engine.
func (e *Executor) byHand(engine Engine) string {
	if argv := e.options.Command[engine]; e.services == nil && len(argv) > 0 {
		return strings.Join(argv, " ")
	}
	return "systemctl restart " + Systemd{Units: e.options.Units}.unit(engine)
}

func (e *Executor) isBusy(ctx context.Context, engine Engine, operation string) (bool, error) {
	if e.manager == nil {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	return e.manager.Busy(ctx, engine, operation)
}

func runtimeFacts(engine Engine, instance string, status engineStatus) *RuntimeFacts {
	return &RuntimeFacts{
		Engine:                 engine,
		Version:                status.version,
		Default:                status.defaultRuntime,
		RestartStopsContainers: status.restartStopsContainers,
		Instance:               instance,
	}
}

// ownGone returns nil when the container of the agent runs, or there is none.
func (e *Executor) ownGone(ctx context.Context, engine Engine) error {
	if e.options.PodUID == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	client, err := e.host.connect(engine)
	if err != nil {
		return err
	}
	defer client.close()
	running, err := client.runningContainers(ctx, e.options.PodUID)
	if err == nil && running == 0 {
		return errOwnContainer
	}
	return err
}

// begin records the request, with the instance that is to go.
func (e *Executor) begin(o Operation, s sighting, r record, d decision) (record, error) {
	r.Begun = &begun{Engine: s.engine, Before: s.instance, Deadline: e.now().Add(o.timeout())}
	r.Result.State, r.Result.Reason, r.Result.Message = d.state, d.reason, d.message
	return r, e.put(r)
}

// ask records the attempt, asks the service manager, and records its answer.
// Killed before the answer is recorded, the next agent looks at the daemon.
func (e *Executor) ask(ctx context.Context, o Operation, r record) (record, error) {
	attempt := *r.Begun
	attempt.Attempts++
	r.Begun, r.Result.Attempts = &attempt, attempt.Attempts
	if err := e.put(r); err != nil {
		return r, err
	}
	e.options.Log.Info("Restarting the container runtime", "engine", attempt.Engine, "operation", o.ID, "attempt", attempt.Attempts)
	e.options.RestartLog.Printf("It is detected that %s default runtime of host %s must become %s (operation %s), ready restart %s",
		attempt.Engine, e.options.Host, o.RestartRuntime.DefaultRuntime, o.ID, attempt.Engine)
	limit, cancel := context.WithTimeout(ctx, max(time.Second, attempt.Deadline.Sub(e.options.Clock.Now())))
	defer cancel()
	err := e.manager.Restart(limit, attempt.Engine, r.key())
	if ctx.Err() != nil {
		return r, context.Cause(ctx)
	}
	answered := attempt
	answered.Answered = true
	if err != nil {
		answered.Refused = short(err.Error())
	}
	r.Begun = &answered
	return r, e.put(r)
}

// waitFor records what is waited for, when there is something new to tell of it.
func (e *Executor) waitFor(r record, d decision) (record, error) {
	if d.message == "" || r.Result.Reason == d.reason && r.Result.Message == short(d.message) {
		return r, nil
	}
	e.options.Log.Info("Waiting for the container runtime", "operation", r.Result.ID, "reason", d.reason, "message", d.message)
	r.Result.State, r.Result.Reason, r.Result.Message = d.state, d.reason, short(d.message)
	return r, e.put(r)
}

// pause waits for the time between two looks.
func (e *Executor) pause(ctx context.Context) error {
	timer := e.options.Clock.NewTimer(e.options.Poll)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C():
		return nil
	}
}

// toldBefore reports whether the journal says the same of this attempt.
func (e *Executor) toldBefore(r record, d decision) bool {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	kept := e.records[r.key()].Result
	return kept.State == d.state && kept.Reason == d.reason && kept.Message == short(d.message) && kept.Attempt == r.Result.Attempt
}

// tell writes the end of a restart to the restart log, unless it was written
// before in the same words.
func (e *Executor) tell(o Operation, s sighting, r record, d decision) {
	if r.Result.State == d.state && r.Result.Reason == d.reason {
		return
	}
	if d.state == Running {
		return
	}
	log, name := e.options.RestartLog, e.options.Host
	switch {
	case d.state == Done && d.step == report:
		log.Printf("Host %s %s", name, d.message)
	case d.state == Done:
		log.Printf("Host %s restart %s success, default runtime is %s", name, s.engine, s.defaultRuntime)
	case d.state == Waiting:
		log.Printf("Host %s not restarted: %s", name, d.message)
	default:
		log.Printf("Host %s restart failed: %s: %s", name, d.reason, d.message)
	}
	log.Printf("End of current restart cycle, operation %s", o.ID)
}
