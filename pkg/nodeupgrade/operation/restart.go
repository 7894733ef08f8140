package operation

import (
	"cmp"
	"fmt"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

// defaultRuntime is the default runtime of an operation that names none.
const defaultRuntime = "enflame"

// restart has the agent restart the container runtime, which sets the wanted default runtime.
// It is done when the running engine has it, or when the agent reports the restart. A missed
// deadline fails the operation, or defers it when the restart is left to an administrator.
type restart struct{ base }

func (restart) done(s *snapshot, t upgradeplan.Task) bool {
	return runtimeLacks(s) == "" || succeeded(s.f.Host.Result(s.op.ID, t.String()))
}

// attempt waits for the agent, which acts on the state of the task.
func (restart) attempt(c *changes, t upgradeplan.Task) verdict {
	c.op.Touched = true
	result := c.f.Host.Result(c.op.ID, t.String())
	if result != nil && result.State == topsv1.HostTaskFailed {
		return verdict{phase: topsv1.OperationFailed, reason: ReasonRestartFailed, text: result.Message}
	}
	return awaitHost(c.snapshot, result)
}

func (restart) deadline(s *snapshot, why verdict) deadline {
	if why.reason == ReasonLeftToAdministrator {
		return deadline{s.limits.restart, topsv1.OperationDeferred, ReasonLeftToAdministrator}
	}
	return deadline{s.limits.restart, s.blame(), ReasonRestartFailed}
}

// runtimeLacks describes what is wrong with the default runtime, "" when nothing.
func runtimeLacks(s *snapshot) string {
	wanted := cmp.Or(s.wanted.DefaultRuntime, defaultRuntime)
	switch {
	case s.f.Host == nil || s.f.Host.Runtime == nil:
		return "the node agent has not told the default runtime"
	case s.f.Host.Runtime.Default != wanted:
		return fmt.Sprintf("the default runtime is %q, not %q", s.f.Host.Runtime.Default, wanted)
	}
	return ""
}

// StopsContainers reports whether setting the default runtime ("" means enflame) takes a
// restart that stops the node's containers. It is false for a nil engine, and true for one
// that does not report RestartStopsContainers.
func StopsContainers(engine *topsv1.RuntimeReport, wanted string) bool {
	if engine == nil || engine.Default == cmp.Or(wanted, defaultRuntime) {
		return false
	}
	return engine.RestartStopsContainers == nil || *engine.RestartStopsContainers
}
