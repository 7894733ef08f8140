package operation

import (
	"fmt"
	"time"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

// kind is a kind of task. Its values hold no state.
type kind interface {
	// done reports whether the facts show the task done.
	done(f *Facts, t upgradeplan.Task) bool
	// attempt works on the task while it is current, and returns its state.
	attempt(c *changes, t upgradeplan.Task) verdict
	// deadline returns the deadline of an attempt in the state why.
	deadline(f *Facts, why verdict) deadline
	// lasts reports whether a task recorded as done still counts as done although the facts
	// no longer show it.
	lasts(f *Facts, t upgradeplan.Task) bool
	// retry makes sure that a task retried by a person is not done at once.
	retry(c *changes, t upgradeplan.Task)
	// superseded returns why the target of the task is out of date, "" when it is not.
	superseded(f *Facts, t upgradeplan.Task) string
}

// verdict is the state of a current task: why it waits or, with a phase, how the operation
// ends.
type verdict struct {
	reason, text string
	phase        topsv1.OperationPhase
	// atEnd is appended to the text when the operation ends in this state.
	atEnd string
}

func waiting(reason, format string, args ...any) verdict {
	return verdict{reason: reason, text: fmt.Sprintf(format, args...)}
}

// deadline is how long an attempt may take, and how the operation ends after that. An
// operation that fails before anything of the version was on the node is Deferred, which does
// not count against the version (blame).
type deadline struct {
	after  time.Duration
	phase  topsv1.OperationPhase
	reason string
}

// base is the default behavior: a task once done lasts while later ones run, a retry has
// nothing to reset, and nothing supersedes it.
type base struct{}

func (base) lasts(f *Facts, t upgradeplan.Task) bool {
	stage := f.stageOf(t)
	return f.begun(func(later upgradeplan.Task) bool { return f.stageOf(later) > stage }, false)
}

func (base) retry(*changes, upgradeplan.Task) {}

func (base) superseded(*Facts, upgradeplan.Task) string { return "" }

// awaitHost describes what the agent is doing.
func awaitHost(f *Facts, result *topsv1.HostTaskResult) verdict {
	switch {
	case result != nil && result.State == topsv1.HostTaskWaiting:
		return waiting(ReasonLeftToAdministrator, "%s", result.Message)
	case f.silent():
		return waiting(ReasonInProgress, "the node agent has stopped reporting")
	case result != nil && result.Message != "":
		return waiting(ReasonInProgress, "%s", result.Message)
	}
	return waiting(ReasonInProgress, "in progress on the node agent")
}
