package operation

import (
	"fmt"
	"time"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

// kind is one kind of task. Its values keep nothing.
type kind interface {
	// done reports whether the facts show the task done.
	done(s *snapshot, t upgradeplan.Task) bool
	// attempt works on the task while it is current, and returns how it stands.
	attempt(c *changes, t upgradeplan.Task) verdict
	// deadline returns that of an attempt that stands as why says.
	deadline(s *snapshot, why verdict) deadline
	// lasts reports whether a task that was seen done still counts as done, though the
	// facts do not show it any more.
	lasts(s *snapshot, t upgradeplan.Task) bool
	// retry makes sure that a task that a person retries is not done at once.
	retry(c *changes, t upgradeplan.Task)
	// superseded returns why what the task brings is out of date, "" when it is not.
	superseded(s *snapshot, t upgradeplan.Task) string
}

// verdict is how a current task stands: why it waits, or, with a phase, that the
// operation ends.
type verdict struct {
	reason, text string
	phase        topsv1.OperationPhase
}

func waiting(reason, format string, args ...any) verdict {
	return verdict{reason: reason, text: fmt.Sprintf(format, args...)}
}

// deadline is how long an attempt may take, and how the operation ends when it has
// passed. Deferred is no fault of the version: so ends an operation that failed before
// anything of the version was on the node (blame).
type deadline struct {
	after  time.Duration
	phase  topsv1.OperationPhase
	reason string
}

// base is what most kinds have in common: once seen done, a task lasts while later ones
// run; a retry has nothing to forget; and nothing overtakes it.
type base struct{}

func (base) lasts(s *snapshot, t upgradeplan.Task) bool {
	stage := s.stageOf(t)
	return s.begun(func(later upgradeplan.Task) bool { return s.stageOf(later) > stage }, false)
}

func (base) retry(*changes, upgradeplan.Task) {}

func (base) superseded(*snapshot, upgradeplan.Task) string { return "" }

// awaitHost words what the agent is doing.
func awaitHost(s *snapshot, result *topsv1.HostTaskResult) verdict {
	switch {
	case result != nil && result.State == topsv1.HostTaskWaiting:
		return waiting(ReasonLeftToAdministrator, "%s", result.Message)
	case s.silent():
		return waiting(ReasonInProgress, "the node agent is silent")
	case result != nil && result.Message != "":
		return waiting(ReasonInProgress, "%s", result.Message)
	}
	return waiting(ReasonInProgress, "in progress on the node agent")
}
