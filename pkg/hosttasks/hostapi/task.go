// Package hostapi converts the host's part of a NodeUpgrade: the tasks it requests, and the
// report in status.host.
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

// Task is one task on the host that an operation requests.
type Task struct {
	upgradeplan.Task
	Attempt   int
	Operation *topsv1.NodeOperation
	// Since is the start of the operation, by the operator's clock.
	Since time.Time
}

// Name returns the name of the task without the node, as target_action.
func (t Task) Name() string { return t.Target + "_" + t.Action }

// Key identifies the task on this node.
func (t Task) Key() string { return task.KeyOf(t.Operation.ID, t.Name()) }

// TasksOf returns the tasks that a NodeUpgrade requests of the agent of its node, in the
// order of the job.
func TasksOf(nodeUpgrade *topsv1.NodeUpgrade) []Task {
	var all []Task
	for _, recorded := range nodeUpgrade.RequestedTasks() {
		t, err := upgradeplan.ParseTask(recorded.Name)
		if err == nil && t.Host == nodeUpgrade.Name && t.Capability() != "" {
			all = append(all, Task{t, int(recorded.Attempts), nodeUpgrade.Spec.Operation, nodeUpgrade.Status.Operation.StartTime.Time})
		}
	}
	return all
}

// ReplacesDriver reports whether the driver of the node of a NodeUpgrade is being replaced.
func ReplacesDriver(nodeUpgrade *topsv1.NodeUpgrade) bool {
	replace := upgradeplan.Task{Host: nodeUpgrade.Name, Target: upgradeplan.TargetDriver, Action: upgradeplan.ActionReplace}
	return slices.ContainsFunc(nodeUpgrade.RequestedTasks(), func(begun topsv1.OperationTask) bool { return begun.Name == replace.String() })
}

// prepullExpiry is the age at which an agent no longer begins a prepull: by then the operator has gone on without it, and an
// agent with a new journal, on a machine that was installed again, would pull images that were needed months ago.
const prepullExpiry = time.Hour

// PrepullsOf returns the pulls that a NodeUpgrade requests of the agent of its node outside any operation. now is by the clock of
// the API server: that of the node may be days off. The operator gives up a pull after 17 minutes by its own clock, so that this may be 43
// minutes ahead.
func PrepullsOf(nodeUpgrade *topsv1.NodeUpgrade, now time.Time) []Task {
	var all []Task
	for i := range nodeUpgrade.Spec.Prepulls {
		p := &nodeUpgrade.Spec.Prepulls[i]
		if now.Sub(p.Time.Time) > prepullExpiry {
			continue
		}
		all = append(all, PullOf(nodeUpgrade.Name, p.ID, int(p.Attempt),
			topsv1.OperationTarget{DaemonSet: p.DaemonSet, Revision: p.Revision, Images: p.Images, PullSecrets: p.PullSecrets}))
	}
	return all
}

// PullOf returns the task of a pull of a target's images outside any operation, recorded under an id.
func PullOf(node, id string, attempt int, target topsv1.OperationTarget) Task {
	t := upgradeplan.PullTask(node)
	target.Component = t.Target
	return Task{Task: t, Attempt: attempt, Operation: &topsv1.NodeOperation{ID: id, Targets: []topsv1.OperationTarget{target}}}
}

// IsPrepull reports whether a task is a pull outside any operation.
func (t Task) IsPrepull() bool { return t.Task == upgradeplan.PullTask(t.Host) }

// Component returns the component of a prepull, nil when the operation has no such target.
func (t Task) Component() *topsv1.OperationTarget {
	i := slices.IndexFunc(t.Operation.Targets, func(o topsv1.OperationTarget) bool { return o.Component == t.Target })
	if t.Action != upgradeplan.ActionPrepull || i < 0 {
		return nil
	}
	return &t.Operation.Targets[i]
}

// Request returns the request to the executor for a task, without the pull secrets. The error
// says what the operation lacks.
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
		o.RestartRuntime = &task.RestartRuntime{DefaultRuntime: cmp.Or(t.Operation.DefaultRuntime, topsv1.DefaultRuntime),
			Allowed: restartAllowed, Timeout: seconds(deadlines.RestartSeconds)}
	case upgradeplan.ActionVerify:
		o.Verify = true
	}
	return o, nil
}

func seconds(n int32) time.Duration { return time.Duration(n) * time.Second }

// clockSkew is the tolerated difference between the clocks of two operators. If that of an operator was set back by more, and
// the history of the NodeUpgrade is lost, the agent ignores operations until the clock has caught up.
const clockSkew = 5 * time.Minute

// Outdated reports whether the operation of a task is older than the newest one of which this
// agent has ended a task: it then comes from an older state of the API server, such as a
// restored backup, and its tasks were done or given up long ago. One of those that have ended, by the history
// of the NodeUpgrade, came before it whatever their times say: the clock of the operator was set back.
func (t Task) Outdated(recorded []task.Result, history []topsv1.OperationRecord) bool {
	return !t.Since.IsZero() && slices.ContainsFunc(recorded, func(r task.Result) bool {
		return r.State.Final() && r.ID != t.Operation.ID && r.Since.Sub(t.Since) > clockSkew &&
			!slices.ContainsFunc(history, func(ended topsv1.OperationRecord) bool { return ended.ID == r.ID })
	})
}

// Answered reports whether a result is final and for this attempt or a later one.
func (t Task) Answered(r task.Result) bool { return r.State.Final() && r.Attempt >= t.Attempt }

// Refused returns the result of a task that the executor refused. It is not final when a
// retry may succeed.
func (t Task) Refused(err error) task.Result {
	r := task.Result{ID: t.Operation.ID, Task: t.Name(), Attempt: t.Attempt, State: topsv1.HostTaskFailed, Message: err.Error()}
	switch {
	case errors.Is(err, task.ErrInvalid):
		r.Reason = "Invalid"
	case errors.Is(err, task.ErrConflict):
		r.Reason = "Conflict"
	case errors.Is(err, task.ErrLost):
		r.Reason = "RecordLost"
	case errors.Is(err, task.ErrBusy):
		r.State, r.Reason = topsv1.HostTaskRunning, "Busy"
	case errors.Is(err, task.ErrNotRecorded):
		r.State, r.Reason = topsv1.HostTaskRunning, "NotRecorded"
	default:
		r.State, r.Reason = topsv1.HostTaskRunning, "Error"
	}
	return r
}
