package hostagent

import (
	"errors"
	"fmt"
	"time"
)

// maxAttempts bounds how often the service manager is asked within one
// operation. More than once happens only when the daemon is the same as before
// and nothing that was asked is going on.
const maxAttempts = 3

// configurePatience is how long the configuration on disk may lack the wanted default
// runtime before that is taken as it is.
const configurePatience = time.Minute

// step is what a restart needs next.
type step int

const (
	// report: the result says it; nothing is begun. Unless it is final, Execute is to
	// be called again.
	report step = iota
	// begin: record the request.
	begin
	// ask: record the attempt, then ask the service manager.
	ask
	// wait and look again.
	wait
	// finish: record the result for good.
	finish
)

// sighting is what a restart is decided from.
type sighting struct {
	want RestartRuntime
	// canRestart: there is a service manager. byHand is what a person runs instead, and
	// config the file on the host that says how the engine starts.
	canRestart bool
	byHand     string
	config     string

	// engineErr: no engine was found, which happens before the request only.
	engineErr error
	engine    Engine
	// instance of the daemon, notRunning when there is none; instanceErr when it
	// cannot be told.
	instance    string
	instanceErr error
	// statusErr is nil when the daemon answers, with defaultRuntime.
	statusErr      error
	defaultRuntime string
	// configured is what the files say; confNamed when they say anything.
	configured string
	confNamed  bool
	// fresh: it was asked for so recently that the installer of the toolkit, whose pod is
	// ready when an earlier version is in place, may not have written the configuration yet.
	fresh bool
	// ownGone: the daemon does not show the agent's own container as running.
	ownGone error

	// begun is the request, nil before it was made.
	begun *begun
	// busy: what was asked for is still going on; busyErr when it cannot be told.
	busy    bool
	busyErr error
	// settled: enough time has passed since the agent came back for a restart
	// that was handed over to show.
	settled bool
	expired bool
}

// decision with its reason.
type decision struct {
	step    step
	state   State
	reason  Reason
	message string
}

func failed(s step, reason Reason, format string, arguments ...any) decision {
	return decision{s, Failed, reason, fmt.Sprintf(format, arguments...)}
}

// decide is pure: the state of a restart is read off the daemon, not remembered.
func decide(s sighting) decision {
	if s.begun != nil {
		return goOn(s)
	}
	return first(s)
}

// first decides before the request is made: nothing was disturbed yet.
func first(s sighting) decision {
	switch {
	case s.engineErr != nil:
		return decision{report, Running, ReasonNoEngine, s.engineErr.Error()} // somebody may be restarting it
	case s.statusErr == nil && s.defaultRuntime == s.want.DefaultRuntime:
		return decision{report, Done, ReasonAlreadyDefault,
			fmt.Sprintf("%s default runtime is %s, need not restart", s.engine, s.defaultRuntime)}
	case s.fresh && s.configured != s.want.DefaultRuntime:
		return decision{report, Running, ReasonNotConfigured,
			fmt.Sprintf("waiting until %s names %s as default runtime of %s", s.config, s.want.DefaultRuntime, s.engine)}
	case s.confNamed && s.configured != s.want.DefaultRuntime:
		return failed(report, ReasonNotConfigured, "the configuration of %s on disk names %s as default runtime, not %s: a restart would not change it",
			s.engine, s.configured, s.want.DefaultRuntime)
	case !s.want.Allowed:
		return decision{report, Waiting, ReasonLeftToAdministrator,
			fmt.Sprintf("%s must be restarted for default runtime %s, and this is left to the administrator (--restart-runtime=false): run on the node: %s",
				s.engine, s.want.DefaultRuntime, s.byHand)}
	case !s.canRestart:
		return failed(report, ReasonNoServiceManager, "this host has no systemd, and no restart command is set for %s", s.engine)
	case s.instanceErr != nil:
		return decision{report, Running, ReasonInstanceUnknown, fmt.Sprintf("cannot determine the process of %s: %v", s.engine, s.instanceErr)}
	}
	return decision{begin, Running, ReasonInProgress, fmt.Sprintf("restarting %s for default runtime %s", s.engine, s.want.DefaultRuntime)}
}

// goOn decides after the request was recorded: by an agent that waits for the
// restart, or by one that the restart has ended.
func goOn(s sighting) decision {
	switch {
	case s.instanceErr != nil:
		return unlessExpired(s, ReasonInstanceUnknown, s.instanceErr)
	case s.instance == notRunning || s.instance == s.begun.Before:
		return notRestarted(s)
	}
	return restarted(s)
}

// restarted decides when the daemon is not the one it was.
func restarted(s sighting) decision {
	switch {
	case s.statusErr != nil:
		return notBack(s)
	case s.defaultRuntime != s.want.DefaultRuntime:
		return failed(finish, ReasonWrongDefault, "%s was restarted, and its default runtime is %s, not %s",
			s.engine, s.defaultRuntime, s.want.DefaultRuntime)
	case s.ownGone != nil:
		return unlessExpired(s, ReasonNotBack, s.ownGone)
	}
	return decision{finish, Done, ReasonRestarted, fmt.Sprintf("%s was restarted, its default runtime is %s", s.engine, s.defaultRuntime)}
}

// notRestarted decides when the daemon is the one it was, or none.
func notRestarted(s sighting) decision {
	b := s.begun
	same := s.instance != notRunning
	switch {
	case same && s.statusErr == nil && s.defaultRuntime == s.want.DefaultRuntime:
		return decision{finish, Done, ReasonAlreadyDefault, fmt.Sprintf("%s default runtime has become %s without a restart", s.engine, s.defaultRuntime)}
	case same && b.Refused != "":
		return failed(finish, ReasonRestartFailed, "%s", b.Refused)
	case s.expired && same:
		return failed(finish, ReasonNotRestarted, "%s is the same process as before the restart was asked for%s", s.engine, because(s))
	case !s.expired && mayAsk(s):
		return decision{step: ask}
	case same:
		return decision{step: wait}
	}
	return notBack(s)
}

// notBack decides while a daemon that was to be restarted does not answer. Once the
// service manager has failed, it hardly comes back by itself: then a person is told
// what to do, in words that stay the same while it is begun anew again and again.
func notBack(s sighting) decision {
	if s.begun.Refused == "" && !s.expired {
		return decision{step: wait}
	}
	d := failed(finish, ReasonNotBack, "%s does not answer%s: its log on the node says why; repair %s there, and run: %s",
		s.engine, because(s), s.config, s.byHand)
	if !s.expired {
		d.step, d.state = wait, Running
	}
	return d
}

// mayAsk tells that nothing that was asked can still have an effect. The first
// time there is nothing of ours to wait for: then asking tells what is wrong.
func mayAsk(s sighting) bool {
	b := s.begun
	if s.busy || b.Answered || b.Attempts >= maxAttempts {
		return false
	}
	return b.Attempts == 0 || s.settled && s.busyErr == nil
}

// because returns what is known of why, for the end of a message.
func because(s sighting) string {
	switch {
	case s.begun.Refused != "":
		return ": " + s.begun.Refused
	case s.busyErr != nil:
		return fmt.Sprintf(", and cannot determine whether a restart is in progress: %v", s.busyErr)
	}
	return ""
}

func unlessExpired(s sighting, reason Reason, cause error) decision {
	if !s.expired {
		return decision{step: wait}
	}
	return failed(finish, reason, "%s is not back: %v", s.engine, cause)
}

var errOwnContainer = errors.New("the container of the agent does not run any more")
