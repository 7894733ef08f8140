package operation

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

// restart waits until the agent has restarted the container runtime with the wanted default runtime, and
// then replaces the pods that use the device and started before: they have no cards. It is done when
// the running engine has that runtime, or the agent reports the restart, and no such pod is left. A
// missed deadline fails the operation, or defers it when the restart is left to an administrator or such a pod may
// not be deleted.
type restart struct{ base }

func (restart) done(f *Facts, t upgradeplan.Task) bool {
	return restarted(f, t) && len(startedBefore(f, t)) == 0
}

// attempt waits for the agent, which acts on the state of the task, and deletes the pods that
// started before the restart.
func (restart) attempt(c *changes, t upgradeplan.Task) verdict {
	c.Operation.Touched = true
	result := c.hostResult(t) // a person may retry a restart that failed
	switch {
	case restarted(c.Facts, t):
		return replacePods(c, t, startedBefore(c.Facts, t))
	case result != nil && result.State == topsv1.HostTaskFailed:
		return verdict{phase: topsv1.OperationFailed, reason: ReasonRestartFailed, text: result.Message}
	}
	return awaitHost(c.Facts, result)
}

// restarted reports whether the engine has the wanted runtime, or the agent reports success. The
// result of a task that the agent has begun comes first.
func restarted(f *Facts, t upgradeplan.Task) bool {
	result := f.Host.Result(f.Operation.ID, t.String())
	answered := result != nil && result.State.Final()
	return succeeded(result) || runtimeLacks(f) == "" && !goesOn(result) && (answered || f.recorded(t).State != topsv1.OperationTaskRunning)
}

// startedBefore returns the members whose pods use the device and started before the restart of the
// operation, both by the clock of the node; none if there was no restart. It depends on no job:
// their DaemonSets may have been created after the operation, or belong to another gr.
func startedBefore(f *Facts, t upgradeplan.Task) []*Member {
	result := f.Host.Result(f.Operation.ID, t.String())
	if !reportsRestart(result) || result.EndTime == nil {
		return nil
	}
	var found []*Member
	for i := range f.Members {
		m := &f.Members[i]
		if m.Pod != nil && f.uses(m.Component) && !m.Uncontrolled && m.NoSuccessor == "" &&
			!m.Pod.Started.IsZero() && !m.Pod.Started.After(result.EndTime.Time) && !follows(m.Pod, f.recorded(t).Users) {
			found = append(found, m)
		}
	}
	return found
}

// follows reports whether a pod is the successor of one that a task replaced, by their generated names: times may be
// of different clocks, or of a clock that was set back since.
func follows(pod *Pod, replaced []topsv1.NamedPod) bool {
	base := strings.LastIndex(pod.Name, "-") + 1
	return base > 0 && slices.ContainsFunc(replaced, func(r topsv1.NamedPod) bool {
		return r.UID != pod.UID && r.Namespace == pod.Namespace && strings.LastIndex(r.Name, "-")+1 == base && r.Name[:base] == pod.Name[:base]
	})
}

// reportsRestart reports whether the agent restarted the engine.
func reportsRestart(result *topsv1.HostTaskResult) bool {
	return succeeded(result) && result.Reason == topsv1.ReasonRestarted
}

// restartedEngine is reportsRestart for any task of the operation.
func restartedEngine(f *Facts) bool {
	return slices.ContainsFunc(f.Operation.Tasks, func(rec topsv1.OperationTask) bool { return reportsRestart(f.Host.Result(f.Operation.ID, rec.Name)) })
}

// replacePods records and deletes pods that have no cards.
func replacePods(c *changes, t upgradeplan.Task, members []*Member) verdict {
	var left []string
	reason := ReasonInProgress
	for _, m := range members {
		denial := denialOf(c.Facts, m.Pod)
		if denial != "" {
			reason = ReasonDeletionDenied
		}
		left = append(left, m.Pod.Namespace+"/"+m.Pod.Name+denial)
		if !m.Pod.Terminating && c.nameUser(c.task(t), m.Pod.NamedPod) {
			c.onPod(DeletePod, m.Pod.NamedPod)
		}
	}
	slices.Sort(left)
	return waiting(reason, "pods that started before the runtime was restarted, and so have no cards, are being replaced: %s", strings.Join(left, ", "))
}

func (restart) deadline(f *Facts, why verdict) deadline {
	if why.reason == ReasonLeftToAdministrator || why.reason == ReasonDeletionDenied {
		return deadline{f.limits.restart, topsv1.OperationDeferred, why.reason}
	}
	return deadline{f.limits.restart, f.blame(), ReasonRestartFailed}
}

// runtimeLacks describes what is wrong with the default runtime, "" when nothing.
func runtimeLacks(f *Facts) string {
	wanted := cmp.Or(f.Wanted.DefaultRuntime, topsv1.DefaultRuntime)
	switch {
	case f.Host == nil || f.Host.Runtime == nil:
		return "the node agent has not reported the default runtime"
	case f.Host.Runtime.Default != wanted:
		return fmt.Sprintf("the default runtime is %q, not %q", f.Host.Runtime.Default, wanted)
	}
	return ""
}

// StopsContainers reports whether setting the default runtime ("" means enflame) takes a
// restart that stops the node's containers. It is false for a nil engine, and true for one
// that does not report RestartStopsContainers.
func StopsContainers(engine *topsv1.RuntimeReport, wanted string) bool {
	if engine == nil || engine.Default == cmp.Or(wanted, topsv1.DefaultRuntime) {
		return false
	}
	return engine.RestartStopsContainers == nil || *engine.RestartStopsContainers
}
