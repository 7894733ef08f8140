package hosttasks

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/hostagent"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

// defaultRuntime is that of a NodeOperation that names none.
const defaultRuntime = "enflame"

// key names a task on this node as the executor does.
type key struct{ operation, task string }

// asked is one task that an operation asks of the host.
type asked struct {
	task      upgradeplan.Task
	attempt   int
	operation *topsv1.NodeOperation
	// since is when the operation began, by the operator's clock.
	since time.Time
}

func (a asked) key() key {
	return key{operation: a.operation.ID, task: a.task.Target + "_" + a.task.Action}
}

// askedOf returns what a NodeUpgrade asks of the agent of its node, in the order of
// the job.
func askedOf(nodeUpgrade *topsv1.NodeUpgrade) []asked {
	var all []asked
	for _, t := range nodeUpgrade.AskedOfHost() {
		task, err := upgradeplan.ParseTask(t.Name)
		if err == nil && task.Host == nodeUpgrade.Name && ofHost(task) {
			all = append(all, asked{task: task, attempt: int(t.Attempts), operation: nodeUpgrade.Spec.Operation, since: nodeUpgrade.Status.Operation.StartTime.Time})
		}
	}
	return all
}

// ofHost reports whether the agent does a task; all others are the operator's.
func ofHost(t upgradeplan.Task) bool {
	switch t.Action {
	case upgradeplan.ActionPrepull:
		return true
	case upgradeplan.ActionRestartRuntime:
		return t.Target == upgradeplan.TargetNode
	case upgradeplan.ActionVerify:
		return t.Target == upgradeplan.TargetDriver || t.Target == upgradeplan.TargetRuntime
	}
	return false
}

// target returns the component that a prepull is about, nil when the operation has
// none of that name.
func (a asked) target() *topsv1.OperationTarget {
	i := slices.IndexFunc(a.operation.Targets, func(t topsv1.OperationTarget) bool { return t.Component == a.task.Target })
	if a.task.Action != upgradeplan.ActionPrepull || i < 0 {
		return nil
	}
	return &a.operation.Targets[i]
}

// credentials are the pull secrets that could be read, and what is wrong with the others.
type credentials struct {
	secrets []corev1.Secret
	note    string
}

// forExecutor says what a task means on the host. The error says what the operation
// lacks.
func (a asked) forExecutor(engine hostagent.Engine, restartAllowed bool, with credentials) (hostagent.Operation, error) {
	deadlines := a.operation.Deadlines
	o := hostagent.Operation{ID: a.key().operation, Task: a.key().task, Attempt: a.attempt, Since: a.since}
	switch a.task.Action {
	case upgradeplan.ActionPrepull:
		target := a.target()
		if target == nil {
			return o, fmt.Errorf("the operation has no target %s", a.task.Target)
		}
		o.Prepull = &hostagent.Prepull{Images: target.Images, Secrets: with.secrets, Note: with.note,
			Engine: engine, Timeout: seconds(deadlines.PrepullSeconds)}
	case upgradeplan.ActionRestartRuntime:
		o.RestartRuntime = &hostagent.RestartRuntime{DefaultRuntime: cmp.Or(a.operation.DefaultRuntime, defaultRuntime),
			Allowed: restartAllowed, Engine: engine, Timeout: seconds(deadlines.RestartSeconds)}
	case upgradeplan.ActionVerify:
		o.Verify = &hostagent.Verify{Engine: engine}
	}
	return o, nil
}

func seconds(n int32) time.Duration { return time.Duration(n) * time.Second }

// clockSkew is how far the clocks of two operators may be apart.
const clockSkew = 5 * time.Minute

// outdated reports whether the operation of a task is older than the last one of which this
// agent has ended a task: then it comes from a state of the API server before that one,
// such as a backup, and what it asks for was done, or given up, long ago.
func (a asked) outdated(recorded []hostagent.Result) bool {
	return !a.since.IsZero() && slices.ContainsFunc(recorded, func(r hostagent.Result) bool {
		ended := r.State == hostagent.Done || r.State == hostagent.Failed
		return ended && r.ID != a.operation.ID && r.Since.Sub(a.since) > clockSkew
	})
}

// answered reports whether a result is of this attempt, or a later one, and final.
func (a asked) answered(state hostagent.State, attempt int) bool {
	return (state == hostagent.Done || state == hostagent.Failed) && attempt >= a.attempt
}
