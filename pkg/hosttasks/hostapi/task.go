// Package hostapi is the part of a NodeUpgrade that is about the host: which tasks it
// asks for, and the report in status.host.
package hostapi

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/hostagent/task"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

// defaultRuntime is that of a NodeOperation that names none.
const defaultRuntime = "enflame"

// Task is one task that an operation asks of the host.
type Task struct {
	upgradeplan.Task
	Attempt   int
	Operation *topsv1.NodeOperation
	// Since is when the operation began, by the operator's clock.
	Since time.Time
}

// Name of the task without the node, as target_action.
func (t Task) Name() string { return t.Target + "_" + t.Action }

// Key names the task on this node.
func (t Task) Key() string { return task.KeyOf(t.Operation.ID, t.Name()) }

// TasksOf returns what a NodeUpgrade asks of the agent of its node, in the order of
// the job.
func TasksOf(nodeUpgrade *topsv1.NodeUpgrade) []Task {
	var all []Task
	for _, recorded := range nodeUpgrade.AskedOfHost() {
		t, err := upgradeplan.ParseTask(recorded.Name)
		if err == nil && t.Host == nodeUpgrade.Name && ofHost(t) {
			all = append(all, Task{t, int(recorded.Attempts), nodeUpgrade.Spec.Operation, nodeUpgrade.Status.Operation.StartTime.Time})
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

// Component returns the component that a prepull is about, nil when the operation has
// none of that name.
func (t Task) Component() *topsv1.OperationTarget {
	i := slices.IndexFunc(t.Operation.Targets, func(o topsv1.OperationTarget) bool { return o.Component == t.Target })
	if t.Action != upgradeplan.ActionPrepull || i < 0 {
		return nil
	}
	return &t.Operation.Targets[i]
}

// Request is what a task means on the host, without the pull secrets. The error says
// what the operation lacks.
func (t Task) Request(engine task.Engine, restartAllowed bool) (task.Request, error) {
	deadlines := t.Operation.Deadlines
	o := task.Request{ID: t.Operation.ID, Task: t.Name(), Attempt: t.Attempt, Since: t.Since, Engine: engine}
	switch t.Action {
	case upgradeplan.ActionPrepull:
		target := t.Component()
		if target == nil {
			return o, fmt.Errorf("the operation has no target %s", t.Target)
		}
		o.Prepull = &task.Prepull{Images: target.Images, Timeout: seconds(deadlines.PrepullSeconds)}
	case upgradeplan.ActionRestartRuntime:
		o.RestartRuntime = &task.RestartRuntime{DefaultRuntime: cmp.Or(t.Operation.DefaultRuntime, defaultRuntime),
			Allowed: restartAllowed, Timeout: seconds(deadlines.RestartSeconds)}
	case upgradeplan.ActionVerify:
		o.Verify = true
	}
	return o, nil
}

func seconds(n int32) time.Duration { return time.Duration(n) * time.Second }

// clockSkew is how far the clocks of two operators may be apart.
const clockSkew = 5 * time.Minute

// Outdated reports whether the operation of a task is older than the last one of which this
// agent has ended a task: then it comes from a state of the API server before that one,
// such as a backup, and what it asks for was done, or given up, long ago.
func (t Task) Outdated(recorded []task.Result) bool {
	return !t.Since.IsZero() && slices.ContainsFunc(recorded, func(r task.Result) bool {
		return r.State.Final() && r.ID != t.Operation.ID && r.Since.Sub(t.Since) > clockSkew
	})
}

// Answered reports whether a result is of this attempt, or a later one, and final.
func (t Task) Answered(r task.Result) bool { return r.State.Final() && r.Attempt >= t.Attempt }

// Refused is the result of a task that the executor did not do: what may succeed when it is tried again is
// not final.
func (t Task) Refused(err error) task.Result {
	r := task.Result{ID: t.Operation.ID, Task: t.Name(), Attempt: t.Attempt, State: task.Failed, Message: err.Error()}
	switch {
	case errors.Is(err, task.ErrInvalid):
		r.Reason = "Invalid"
	case errors.Is(err, task.ErrConflict):
		r.Reason = "Conflict"
	case errors.Is(err, task.ErrLost):
		r.Reason = "RecordLost"
	case errors.Is(err, task.ErrBusy):
		r.State, r.Reason = task.Running, "Busy"
	case errors.Is(err, task.ErrNotRecorded):
		r.State, r.Reason = task.Running, "NotRecorded"
	default:
		r.State, r.Reason = task.Running, "Error"
	}
	return r
}
