// Package restart decides about a restart of the container runtime: whether one is needed,
// the next step, and when it is done. The doc comment of package hostagent has a diagram.
package restart

import (
	"fmt"
	"time"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/hostagent/task"
)

// NotRunning is the instance of a daemon that is not running.
const NotRunning = ""

// maxAttempts bounds the calls of the service manager per operation. More than one happens
// only while the daemon is the same instance and no restart is in progress.
const maxAttempts = 3

// ConfigurePatience is how long to wait for the configuration on disk to name the wanted
// default runtime.
const ConfigurePatience = time.Minute

// Step is the next step of a restart.
type Step int

const (
	// Report ends the call with a result; nothing has begun. Unless the result is final,
	// Execute must be called again.
	Report Step = iota
	// Begin records the request.
	Begin
	// Attempt records the attempt, then has the service manager restart the engine.
	Attempt
	// Wait waits, then observes again.
	Wait
	// Finish records the final result.
	Finish
)

// Facts is the input of a decision.
type Facts struct {
	Want task.RestartRuntime
	// CanRestart: there is a service manager. Command is the manual alternative, and Config
	// the engine's configuration file on the host.
	CanRestart bool
	Command    string
	Config     string

	// EngineErr: no engine was found; only before the request.
	EngineErr error
	// Runtime is the engine, its instance (NotRunning when there is none) and, when it
	// responds, its default runtime.
	Runtime task.RuntimeFacts
	// InstanceErr: the daemon's process is unknown; StatusErr: the daemon does not respond.
	InstanceErr, StatusErr error
	// Configured is the default runtime in the configuration files; Named reports whether
	// they set one.
	Configured string
	Named      bool
	// ConfigErr: the configuration files cannot be read. An engine that is restarted would not start with them.
	ConfigErr error
	// Fresh: the request is so recent that the toolkit's installer may not have written the
	// configuration yet; its pod is already ready when an earlier version is in place.
	Fresh bool
	// OwnGone: the daemon does not report the agent's own container as running.
	OwnGone error

	// Begun is the request, nil before it is made.
	Begun *task.Begun
	// Busy: the requested restart is still in progress; BusyErr: that is unknown.
	Busy    bool
	BusyErr error
	// GraceOver: since the agent's start enough time has passed for a handed-over restart to
	// show.
	GraceOver bool
	// Expired: the deadline of the request has passed.
	Expired bool
}

// Decision with its reason.
type Decision struct {
	Step    Step
	State   topsv1.HostTaskState
	Reason  task.Reason
	Message string
}

func failed(s Step, reason task.Reason, format string, arguments ...any) Decision {
	return Decision{s, topsv1.HostTaskFailed, reason, fmt.Sprintf(format, arguments...)}
}

// Decide returns the next step. The state of a restart is read from the daemon, not
// remembered.
func Decide(f Facts) Decision {
	if f.Begun != nil {
		return begun(f)
	}
	return notBegun(f)
}

// notBegun decides before the request is made.
func notBegun(f Facts) Decision {
	switch {
	case f.EngineErr != nil:
		return Decision{Report, topsv1.HostTaskRunning, task.ReasonNoEngine, f.EngineErr.Error()} // it may be restarting
	case f.StatusErr == nil && f.Runtime.Default == f.Want.DefaultRuntime:
		return Decision{Report, topsv1.HostTaskDone, task.ReasonAlreadyDefault,
			fmt.Sprintf("%s default runtime is %s, need not restart", f.Runtime.Engine, f.Runtime.Default)}
	case hangs(f): // it may have the wanted default
		return Decision{Report, topsv1.HostTaskRunning, task.ReasonNoEngine,
			fmt.Sprintf("waiting until %s responds, to read its default runtime: %v", f.Runtime.Engine, f.StatusErr)}
	case f.ConfigErr != nil && f.Fresh:
		return Decision{Report, topsv1.HostTaskRunning, task.ReasonNotConfigured, fmt.Sprintf("waiting until the configuration of %s can be read: %v", f.Runtime.Engine, f.ConfigErr)}
	case f.ConfigErr != nil:
		return failed(Report, task.ReasonNotConfigured, "the configuration of %s cannot be read, it may not start with it: %v", f.Runtime.Engine, f.ConfigErr)
	case f.Fresh && f.Configured != f.Want.DefaultRuntime:
		return Decision{Report, topsv1.HostTaskRunning, task.ReasonNotConfigured,
			fmt.Sprintf("waiting until %s names %s as default runtime of %s", f.Config, f.Want.DefaultRuntime, f.Runtime.Engine)}
	case f.Named && f.Configured != f.Want.DefaultRuntime:
		return failed(Report, task.ReasonNotConfigured, "the configuration of %s on disk names %s as default runtime, not %s: a restart would not change it",
			f.Runtime.Engine, f.Configured, f.Want.DefaultRuntime)
	case !f.Want.Allowed:
		return leftToAdministrator(f)
	case !f.CanRestart:
		return failed(Report, task.ReasonNoServiceManager, "this host has no systemd, and no restart command is set for %s", f.Runtime.Engine)
	case f.InstanceErr != nil:
		return Decision{Report, topsv1.HostTaskRunning, task.ReasonInstanceUnknown, fmt.Sprintf("cannot determine the process of %s: %v", f.Runtime.Engine, f.InstanceErr)}
	}
	return Decision{Begin, topsv1.HostTaskRunning, task.ReasonInProgress, fmt.Sprintf("restarting %s for default runtime %s", f.Runtime.Engine, f.Want.DefaultRuntime)}
}

// hangs reports whether the daemon runs, for all that is known, and does not respond: its default runtime is unknown.
func hangs(f Facts) bool {
	return f.StatusErr != nil && (f.InstanceErr != nil || f.Runtime.Instance != NotRunning)
}

// leftToAdministrator says what to run on the node, and what that stops.
func leftToAdministrator(f Facts) Decision {
	stops, then := "", "; then pods of device plugin, exporter and gfd that started before are replaced: they have no cards"
	if f.Runtime.RestartStopsContainers {
		stops, then = " (this stops all containers of the node)", ""
	}
	return Decision{Report, topsv1.HostTaskWaiting, task.ReasonLeftToAdministrator,
		fmt.Sprintf("%s must be restarted for default runtime %s, and this is left to the administrator (--restart-runtime=false): run on the node%s: %s%s",
			f.Runtime.Engine, f.Want.DefaultRuntime, stops, f.Command, then)}
}

// begun decides after the request was recorded: in the agent that made it, or in one that the
// restart has restarted.
func begun(f Facts) Decision {
	switch {
	case f.InstanceErr != nil:
		return unlessExpired(f, task.ReasonInstanceUnknown, f.InstanceErr)
	case f.Runtime.Instance == NotRunning || f.Runtime.Instance == f.Begun.Before:
		return notRestarted(f)
	}
	return restarted(f)
}

// restarted decides when the daemon is another instance than before.
func restarted(f Facts) Decision {
	switch {
	case f.StatusErr != nil:
		return notBack(f)
	case f.Runtime.Default != f.Want.DefaultRuntime:
		return failed(Finish, task.ReasonWrongDefault, "%s was restarted, and its default runtime is %s, not %s",
			f.Runtime.Engine, f.Runtime.Default, f.Want.DefaultRuntime)
	case f.OwnGone != nil:
		return unlessExpired(f, task.ReasonNotBack, f.OwnGone)
	}
	return Decision{Finish, topsv1.HostTaskDone, task.ReasonRestarted, fmt.Sprintf("%s was restarted, its default runtime is %s", f.Runtime.Engine, f.Runtime.Default)}
}

// notRestarted decides when the daemon is the same instance as before, or not running.
func notRestarted(f Facts) Decision {
	b := f.Begun
	same := f.Runtime.Instance != NotRunning
	switch {
	case f.Busy && same:
		return stillRestarting(f)
	case same && f.StatusErr == nil && f.Runtime.Default == f.Want.DefaultRuntime:
		return Decision{Finish, topsv1.HostTaskDone, task.ReasonAlreadyDefault, fmt.Sprintf("%s default runtime has become %s without a restart", f.Runtime.Engine, f.Runtime.Default)}
	case same && b.Refused != "" && f.BusyErr == nil:
		return failed(Finish, task.ReasonRestartFailed, "%s", b.Refused)
	case f.Expired && same:
		return failed(Finish, task.ReasonNotRestarted, "%s was not restarted: it is still the same process%s", f.Runtime.Engine, whyTheSame(f))
	case !f.Expired && mayRestart(f):
		return Decision{Step: Attempt}
	case same:
		return Decision{Step: Wait}
	}
	return notBack(f)
}

// stillRestarting waits while the requested restart is in progress, also past the deadline: if the task ended before the
// restart, the node would be back in service when the runtime restarts (S8).
func stillRestarting(f Facts) Decision {
	if !f.Expired {
		return Decision{Step: Wait}
	}
	return Decision{Wait, topsv1.HostTaskRunning, task.ReasonInProgress,
		fmt.Sprintf("the deadline has passed, and the restart of %s has not ended: find out on the node what it waits for (systemctl list-jobs), or cancel it", f.Runtime.Engine)}
}

// notBack decides while a daemon to be restarted does not respond. After a failure of the
// service manager it is unlikely to return on its own: the message then says what an administrator has
// to do, and stays the same over repeated starts.
func notBack(f Facts) Decision {
	if f.Begun.Refused == "" && !f.Expired {
		return Decision{Step: Wait}
	}
	d := failed(Finish, task.ReasonNotBack, "%s is not responding%s: its log on the node says why; repair %s there, and run: %s",
		f.Runtime.Engine, because(f), f.Config, f.Command)
	if !f.Expired {
		d.Step, d.State = Wait, topsv1.HostTaskRunning
	}
	return d
}

// mayRestart reports whether no earlier request can still take effect. At the first attempt
// there is no earlier one, so an unknown state of the service manager does not matter:
// calling it shows what is wrong. It waits for a daemon that hangs, which may have got the
// wanted default since.
func mayRestart(f Facts) bool {
	b := f.Begun
	if f.Want.Observe || f.Busy || b.Answered || b.Attempts >= maxAttempts {
		return false
	}
	if b.Attempts == 0 {
		return !hangs(f)
	}
	return f.GraceOver && f.BusyErr == nil
}

// because returns the known cause, as the end of a message.
func because(f Facts) string {
	switch {
	case f.Begun.Refused != "":
		return ": " + f.Begun.Refused
	case f.BusyErr != nil:
		return fmt.Sprintf(", and cannot determine whether a restart is in progress: %v", f.BusyErr)
	}
	return ""
}

// whyTheSame is because for a daemon that is the same process.
func whyTheSame(f Facts) string {
	cause := because(f)
	if cause == "" && f.StatusErr != nil {
		cause = fmt.Sprintf(", and does not respond: %v", f.StatusErr)
	}
	return cause
}

func unlessExpired(f Facts, reason task.Reason, cause error) Decision {
	if !f.Expired {
		return Decision{Step: Wait}
	}
	return failed(Finish, reason, "%s is not back: %v", f.Runtime.Engine, cause)
}
