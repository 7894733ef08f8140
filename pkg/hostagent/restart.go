package hostagent

import (
	"context"
	"strings"
	"time"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/hostagent/restart"
	"github.com/topsops/gcu-operator/pkg/hostagent/task"
)

// restarter restarts container engines.
type restarter struct {
	options Options
	host    host
	records *records
	// manager restarts engines; nil when there is none.
	manager ServiceManager
	// opened is when the agent started.
	opened time.Time
}

// restart observes, decides and acts until the restart has ended.
func (s restarter) restart(ctx context.Context, request task.Request, r task.Record) (task.Result, error) {
	for {
		f := s.observe(ctx, request, &r)
		if err := ctx.Err(); err != nil {
			return r.Result, context.Cause(ctx)
		}
		d := restart.Decide(f)
		s.options.Log.V(4).Info("Decided on a restart of the runtime", "operation", request.ID, "reason", d.Reason, "message", d.Message)
		var err error
		switch d.Step {
		case restart.Report:
			if kept := s.records.of(r.Key()).Result; !d.State.Final() && matches(kept, d) && kept.Attempt == r.Result.Attempt {
				return r.Result, nil
			}
			s.logCycle(request, f, r, d)
			return s.records.end(r, d.State, d.Reason, d.Message)
		case restart.Finish:
			result, err := s.records.end(r, d.State, d.Reason, d.Message)
			if err == nil {
				s.logCycle(request, f, r, d)
			}
			return result, err
		case restart.Begin:
			r, err = s.begin(request, f, r, d)
		case restart.Attempt:
			r, err = s.attempt(ctx, request, r)
		case restart.Wait:
			if r, err = s.waitFor(r, d); err == nil {
				err = s.pause(ctx)
			}
		}
		if err != nil {
			return r.Result, err
		}
	}
}

// observe reads the state of the host. The state of the runtime is also added to the result.
func (s restarter) observe(ctx context.Context, request task.Request, r *task.Record) (f restart.Facts) {
	f = restart.Facts{Want: *request.RestartRuntime, CanRestart: s.manager != nil, Begun: r.Begun}
	if r.Begun != nil {
		f.Runtime.Engine = r.Begun.Engine
		now := s.options.Clock.Now()
		r.Begun = r.Begun.Within(now, request.Timeout())
		f.Expired = !now.Before(r.Begun.Deadline)
		f.GraceOver = s.options.Clock.Since(s.opened) >= s.options.RepeatAfter
	} else if f.Runtime.Engine, f.EngineErr = s.host.detect(ctx, request.Engine); f.EngineErr != nil {
		return f
	}
	engine := f.Runtime.Engine
	// The instance is read first: a later response is from this instance or a newer one.
	instance, instanceErr := s.host.instanceOf(ctx, engine)
	status, err := s.host.ask(ctx, engine)
	status.Engine, status.Instance = engine, instance
	f.Runtime, f.InstanceErr, f.StatusErr = status.RuntimeFacts, instanceErr, err
	if err == nil {
		r.Result.Facts.Runtime = &status.RuntimeFacts
		f.OwnGone = s.host.ownGone(ctx, engine)
	}
	f.Command, f.Config = s.manualCommand(engine), "/"+s.host.config(engine)
	if r.Begun == nil {
		f.Fresh = s.options.Clock.Since(r.Result.Started).Abs() < restart.ConfigurePatience // else its clock was set back
		f.Configured, f.Named, f.ConfigErr = s.host.configuredDefault(engine)
		return f
	}
	f.Busy, f.BusyErr = s.isBusy(ctx, engine, r.Key())
	return f
}

// manualCommand returns the command by which a person restarts an engine.
func (s restarter) manualCommand(engine task.Engine) string {
	if argv := s.options.Command[engine]; s.host.services == nil && len(argv) > 0 {
		return strings.Join(argv, " ")
	}
	units := s.host.unitsOf(engine)
	if len(units) == 1 {
		return "systemctl restart " + units[0]
	}
	return "systemctl restart UNIT, where UNIT is the active one of " + strings.Join(units, ", ")
}

func (s restarter) isBusy(ctx context.Context, engine task.Engine, operation string) (bool, error) {
	if s.manager == nil {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, responseTimeout)
	defer cancel()
	return s.manager.Busy(ctx, engine, operation)
}

// begin records the request with the current instance.
func (s restarter) begin(request task.Request, f restart.Facts, r task.Record, d restart.Decision) (task.Record, error) {
	r.Begun = &task.Begun{Engine: f.Runtime.Engine, Before: f.Runtime.Instance, Deadline: s.records.now().Add(request.Timeout()), Timeout: request.Timeout()}
	r.Result.State, r.Result.Reason, r.Result.Message = d.State, d.Reason, d.Message
	return r, s.records.put(r)
}

// attempt records the attempt, calls the service manager, and records its response. If it is
// killed before that, the next agent observes the daemon instead.
func (s restarter) attempt(ctx context.Context, request task.Request, r task.Record) (task.Record, error) {
	begun := *r.Begun
	begun.Attempts++
	r.Begun, r.Result.Attempts = &begun, begun.Attempts
	if err := s.records.put(r); err != nil {
		return r, err
	}
	s.options.Log.Info("Restarting the container runtime", "engine", begun.Engine, "operation", request.ID, "attempt", begun.Attempts)
	s.options.RestartLog.Printf("It is detected that %s default runtime of host %s must become %s (operation %s), ready restart %s",
		begun.Engine, s.options.Host, request.RestartRuntime.DefaultRuntime, request.ID, begun.Engine)
	limit, cancel := context.WithTimeout(ctx, max(time.Second, begun.Deadline.Sub(s.options.Clock.Now())))
	defer cancel()
	err := s.manager.Restart(limit, begun.Engine, r.Key())
	if ctx.Err() != nil {
		return r, context.Cause(ctx)
	}
	answered := begun
	answered.Answered = true
	if err != nil {
		answered.Refused = task.Short(err.Error())
	}
	r.Begun = &answered
	return r, s.records.put(r)
}

// waitFor records what the restart waits for, when it has changed.
func (s restarter) waitFor(r task.Record, d restart.Decision) (task.Record, error) {
	if d.Message == "" || r.Result.Reason == d.Reason && r.Result.Message == task.Short(d.Message) {
		return r, nil
	}
	s.options.Log.Info("Waiting for the container runtime", "operation", r.Result.ID, "reason", d.Reason, "message", d.Message)
	r.Result.State, r.Result.Reason, r.Result.Message = d.State, d.Reason, task.Short(d.Message)
	return r, s.records.put(r)
}

// pause waits for the poll interval.
func (s restarter) pause(ctx context.Context) error {
	timer := s.options.Clock.NewTimer(s.options.Poll)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C():
		return nil
	}
}

// logCycle writes the end of a restart to the restart log, unless it is Running or its state
// and reason are already recorded.
func (s restarter) logCycle(request task.Request, f restart.Facts, r task.Record, d restart.Decision) {
	if r.Result.State == d.State && r.Result.Reason == d.Reason {
		return
	}
	if d.State == topsv1.HostTaskRunning {
		return
	}
	cycle, name := s.options.RestartLog, s.options.Host
	switch {
	case d.State == topsv1.HostTaskDone && d.Step == restart.Report:
		cycle.Printf("Host %s %s", name, d.Message)
	case d.State == topsv1.HostTaskDone:
		cycle.Printf("Host %s restart %s success, default runtime is %s", name, f.Runtime.Engine, f.Runtime.Default)
	case d.State == topsv1.HostTaskWaiting:
		cycle.Printf("Host %s not restarted: %s", name, d.Message)
	default:
		cycle.Printf("Host %s restart failed: %s: %s", name, d.Reason, d.Message)
	}
	cycle.Printf("End of current restart cycle, operation %s", request.ID)
}

// matches reports whether a result equals a decision.
func matches(r task.Result, d restart.Decision) bool {
	return r.State == d.State && r.Reason == d.Reason && r.Message == task.Short(d.Message)
}
