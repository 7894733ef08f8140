// Package restart decides about a restart of the container runtime: whether one is
// needed, what is next, and when it is done. Package hostagent has a picture of it.
package restart

import (
	"fmt"
	"time"

	"github.com/topsops/gcu-operator/pkg/hostagent/task"
)

// NotRunning is the instance of a daemon that does not run.
const NotRunning = ""

// maxAttempts bounds how often the service manager is asked within one
// operation. More than once happens only when the daemon is the same as before
// and nothing that was asked is going on.
const maxAttempts = 3

// ConfigurePatience is how long the configuration on disk may lack the wanted default
// runtime before that is taken as it is.
const ConfigurePatience = time.Minute

// Step is what a restart needs next.
type Step int

const (
	// Report ends the call with a result; nothing is begun. Unless it is final, Execute is to
	// be called again.
	Report Step = iota
	// Begin records the request.
	Begin
	// Attempt records the attempt, then has the service manager restart the engine.
	Attempt
	// Wait waits, then looks again.
	Wait
	// Finish records the result for good.
	Finish
)

// Facts are what a restart is decided from.
type Facts struct {
	Want task.RestartRuntime
	// CanRestart: there is a service manager. Command is what a person runs instead, and
	// Config the file on the host that says how the engine starts.
	CanRestart bool
	Command    string
	Config     string

	// EngineErr: no engine was found, which happens before the request only.
	EngineErr error
	// Runtime is the engine, its instance, NotRunning when there is none, and, when it
	// answers, its default runtime.
	Runtime task.RuntimeFacts
	// InstanceErr: which process the daemon is cannot be told; StatusErr: it does not answer.
	InstanceErr, StatusErr error
	// Configured is what the files say; Named when they say anything.
	Configured string
	Named      bool
	// Fresh: it was asked for so recently that the installer of the toolkit, whose pod is
	// ready when an earlier version is in place, may not have written the configuration yet.
	Fresh bool
	// OwnGone: the daemon does not show the agent's own container as running.
	OwnGone error

	// Begun is the request, nil before it was made.
	Begun *task.Begun
	// Busy: what was asked for is still going on; BusyErr when it cannot be told.
	Busy    bool
	BusyErr error
	// Settled: enough time has passed since the agent came back for a restart
	// that was handed over to show.
	Settled bool
	// Expired: the deadline of the request has passed.
	Expired bool
}

// Decision with its reason.
type Decision struct {
	Step    Step
	State   task.State
	Reason  task.Reason
	Message string
}

func failed(s Step, reason task.Reason, format string, arguments ...any) Decision {
	return Decision{s, task.Failed, reason, fmt.Sprintf(format, arguments...)}
}

// Decide is the decision: the state of a restart is read off the daemon, not remembered.
func Decide(f Facts) Decision {
	if f.Begun != nil {
		return begun(f)
	}
	return notBegun(f)
}

// notBegun decides before the request is made: nothing was disturbed yet.
func notBegun(f Facts) Decision {
	switch {
	case f.EngineErr != nil:
		return Decision{Report, task.Running, task.ReasonNoEngine, f.EngineErr.Error()} // somebody may be restarting it
	case f.StatusErr == nil && f.Runtime.Default == f.Want.DefaultRuntime:
		return Decision{Report, task.Done, task.ReasonAlreadyDefault,
			fmt.Sprintf("%s default runtime is %s, need not restart", f.Runtime.Engine, f.Runtime.Default)}
	case f.Fresh && f.Configured != f.Want.DefaultRuntime:
		return Decision{Report, task.Running, task.ReasonNotConfigured,
			fmt.Sprintf("waiting until %s names %s as default runtime of %s", f.Config, f.Want.DefaultRuntime, f.Runtime.Engine)}
	case f.Named && f.Configured != f.Want.DefaultRuntime:
		return failed(Report, task.ReasonNotConfigured, "the configuration of %s on disk names %s as default runtime, not %s: a restart would not change it",
			f.Runtime.Engine, f.Configured, f.Want.DefaultRuntime)
	case !f.Want.Allowed:
		return Decision{Report, task.Waiting, task.ReasonLeftToAdministrator,
			fmt.Sprintf("%s must be restarted for default runtime %s, and this is left to the administrator (--restart-runtime=false): run on the node: %s",
				f.Runtime.Engine, f.Want.DefaultRuntime, f.Command)}
	case !f.CanRestart:
		return failed(Report, task.ReasonNoServiceManager, "this host has no systemd, and no restart command is set for %s", f.Runtime.Engine)
	case f.InstanceErr != nil:
		return Decision{Report, task.Running, task.ReasonInstanceUnknown, fmt.Sprintf("cannot determine the process of %s: %v", f.Runtime.Engine, f.InstanceErr)}
	}
	return Decision{Begin, task.Running, task.ReasonInProgress, fmt.Sprintf("restarting %s for default runtime %s", f.Runtime.Engine, f.Want.DefaultRuntime)}
}

// begun decides after the request was recorded: by an agent that waits for the
// restart, or by one that the restart has ended.
func begun(f Facts) Decision {
	switch {
	case f.InstanceErr != nil:
		return unlessExpired(f, task.ReasonInstanceUnknown, f.InstanceErr)
	case f.Runtime.Instance == NotRunning || f.Runtime.Instance == f.Begun.Before:
		return notRestarted(f)
	}
	return restarted(f)
}

// restarted decides when the daemon is not the one it was.
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
	return Decision{Finish, task.Done, task.ReasonRestarted, fmt.Sprintf("%s was restarted, its default runtime is %s", f.Runtime.Engine, f.Runtime.Default)}
}

// notRestarted decides when the daemon is the one it was, or none.
func notRestarted(f Facts) Decision {
	b := f.Begun
	same := f.Runtime.Instance != NotRunning
	switch {
	case same && f.StatusErr == nil && f.Runtime.Default == f.Want.DefaultRuntime:
		return Decision{Finish, task.Done, task.ReasonAlreadyDefault, fmt.Sprintf("%s default runtime has become %s without a restart", f.Runtime.Engine, f.Runtime.Default)}
	case same && b.Refused != "":
		return failed(Finish, task.ReasonRestartFailed, "%s", b.Refused)
	case f.Expired && same:
		return failed(Finish, task.ReasonNotRestarted, "%s is the same process as before the restart was asked for%s", f.Runtime.Engine, because(f))
	case !f.Expired && mayRestart(f):
		return Decision{Step: Attempt}
	case same:
		return Decision{Step: Wait}
	}
	return notBack(f)
}

// notBack decides while a daemon that was to be restarted does not answer. Once the
// service manager has failed, it hardly comes back by itself: then a person is told
// what to do, in words that stay the same while it is begun anew again and again.
func notBack(f Facts) Decision {
	if f.Begun.Refused == "" && !f.Expired {
		return Decision{Step: Wait}
	}
	d := failed(Finish, task.ReasonNotBack, "%s does not answer%s: its log on the node says why; repair %s there, and run: %s",
		f.Runtime.Engine, because(f), f.Config, f.Command)
	if !f.Expired {
		d.Step, d.State = Wait, task.Running
	}
	return d
}

// mayRestart reports whether nothing that was asked can still have an effect. The first
// time there is nothing of ours to wait for: then asking tells what is wrong.
func mayRestart(f Facts) bool {
	b := f.Begun
	if f.Busy || b.Answered || b.Attempts >= maxAttempts {
		return false
	}
	return b.Attempts == 0 || f.Settled && f.BusyErr == nil
}

// because returns what is known of why, for the end of a message.
func because(f Facts) string {
	switch {
	case f.Begun.Refused != "":
		return ": " + f.Begun.Refused
	case f.BusyErr != nil:
		return fmt.Sprintf(", and cannot determine whether a restart is in progress: %v", f.BusyErr)
	}
	return ""
}

func unlessExpired(f Facts, reason task.Reason, cause error) Decision {
	if !f.Expired {
		return Decision{Step: Wait}
	}
	return failed(Finish, reason, "%s is not back: %v", f.Runtime.Engine, cause)
}
