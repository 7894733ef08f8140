package operation

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

// run derives the current tasks from the facts and attempts them.
func run(c *changes) {
	p := c.job.Progress(outcome(c.Facts, false))
	if p.Complete() {
		p = c.job.Progress(outcome(c.Facts, true)) // everything observable must hold now (invariant S10)
	}
	if p.Complete() {
		end(c, topsv1.OperationDone, ReasonSucceeded, "")
		return
	}
	wait := prepare(c, &p)
	mark(c, p)
	if wait {
		awaitSlot(c)
		return
	}
	denied := removeDriverTaint(c)
	for _, t := range p.Failed {
		rec := c.task(t)
		end(c, c.blame(), rec.Reason, rec.Message)
		return
	}
	for i, t := range p.Next {
		v := rowOf(t).attempt(c, t)
		v.text += denied
		if v.phase == "" && !rowOf(t).done(c.Facts, t) {
			v = inTime(c, t, v)
		}
		if v.phase != "" {
			v.text += v.atEnd
		}
		rec := c.task(t)
		rec.Reason, rec.Message = v.reason, v.text
		if v.phase != "" {
			now := metav1.NewTime(c.Now)
			rec.State, rec.EndTime = topsv1.OperationTaskFailed, &now
			c.effects = nil
			c.current(t, v.reason, v.text)
			end(c, v.phase, v.reason, v.text)
			return
		}
		if i == 0 {
			c.current(t, v.reason, v.text)
		}
	}
}

// prepare records the time at which only tasks that need a grant are left. Without a grant it
// removes those from p.Next, and reports whether the operation now waits for one.
func prepare(c *changes, p *upgradeplan.Progress) (wait bool) {
	free := slices.DeleteFunc(slices.Clone(p.Next), func(t upgradeplan.Task) bool { return !c.prepares(t) })
	prepared := len(free) == 0 && len(p.Failed) == 0
	if prepared && c.Operation.PreparedTime == nil {
		now := metav1.NewTime(c.Now)
		c.Operation.PreparedTime = &now
	}
	if c.Operation.Granted {
		return false
	}
	p.Next = free
	return prepared
}

// awaitSlot waits for the grant, without a current task. It requeues at the time at which the
// agent would count as silent.
func awaitSlot(c *changes) {
	if c.Operation.Task != "" {
		c.Operation.Task, c.Operation.Since = "", metav1.NewTime(c.Now)
	}
	c.wait(ReasonAwaitingSlot, "prepared; waits for its slot"+unseenBefore(c.Facts))
	if lookAtUsers(c); awaitsRequest(c.Facts) {
		c.wait(ReasonCardsInUse, "prepared; waits for a request on the node, or until nothing uses its cards: "+userNames(c.Facts))
	}
	if c.Operation.Before != nil && c.Host != nil {
		c.at(c.HostSince.Add(c.limits.silence))
	}
}

// outcome returns the state of a task by the facts. A task once done stays done while later
// ones run, unless the facts contradict it; with strict, everything observable must hold now.
func outcome(f *Facts, strict bool) func(upgradeplan.Task) upgradeplan.Outcome {
	return func(t upgradeplan.Task) upgradeplan.Outcome {
		row, state := rowOf(t), f.recorded(t).State
		switch state {
		case topsv1.OperationTaskSkipped, topsv1.OperationTaskUndone:
			return upgradeplan.Skipped
		case topsv1.OperationTaskFailed:
			return upgradeplan.Failed
		}
		passed := state == topsv1.OperationTaskDone && (!strict || !row.rechecked)
		if row.done(f, t) || passed && row.lasts(f, t) {
			return upgradeplan.Done
		}
		return upgradeplan.NotDone
	}
}

// mark records the state of each task.
func mark(c *changes, p upgradeplan.Progress) {
	now := metav1.NewTime(c.Now)
	outcomeOf := outcome(c.Facts, false)
	for t := range c.job.All() {
		rec := c.task(t)
		switch {
		case rec.State == topsv1.OperationTaskSkipped || rec.State == topsv1.OperationTaskUndone ||
			rec.State == topsv1.OperationTaskFailed || rowOf(t).last: // recorded by finish
		case slices.Contains(p.Next, t):
			begin(c, t, now)
		case outcomeOf(t) == upgradeplan.Done:
			if rec.State != topsv1.OperationTaskDone {
				rec.State, rec.Reason, rec.Message, rec.EndTime = topsv1.OperationTaskDone, "", "", &now
			}
		default:
			rec.State, rec.Reason, rec.Message, rec.EndTime = topsv1.OperationTaskPending, "", "", nil
		}
	}
}

// begin starts an attempt of a task, without the record of the pods that the previous attempt replaced. A restart of the runtime that
// had to wait for an earlier task again goes on with its attempt.
func begin(c *changes, t upgradeplan.Task, now metav1.Time) {
	rec := c.task(t)
	if rec.State == topsv1.OperationTaskRunning {
		return
	}
	if !goesOnWithRestart(c.Facts, t) {
		rec.Attempts++
		rec.Users = slices.DeleteFunc(slices.Clone(rec.Users), func(named topsv1.NamedPod) bool { return !c.exists(named) })
	}
	rec.State, rec.StartTime, rec.EndTime = topsv1.OperationTaskRunning, &now, nil
}

// goesOnWithRestart reports whether a task is a restart of the runtime that was set back (it has a start) after it was requested, and that
// has not failed: the agent goes on meanwhile, and the facts that set it back may be older than the record (invariant S11).
func goesOnWithRestart(f *Facts, t upgradeplan.Task) bool {
	result := f.hostResult(t)
	return t.Action == upgradeplan.ActionRestartRuntime && f.recorded(t).StartTime != nil && (result == nil || result.State != topsv1.HostTaskFailed)
}

// removeDriverTaint removes the driver-upgrade taint once no task needs it. It returns the end of a message that says why it cannot,
// "" if it can: the components that do not tolerate it cannot come back.
func removeDriverTaint(c *changes) string {
	if c.Node.Taint != c.Operation.ID {
		return ""
	}
	for t := range c.job.All() {
		if state := c.recorded(t).State; rowOf(t).tainted && state != topsv1.OperationTaskDone &&
			state != topsv1.OperationTaskSkipped && state != topsv1.OperationTaskUndone {
			return ""
		}
	}
	c.onNode(Effect{Kind: UntaintDevice})
	if cause := c.nodeDenied(); cause != "" {
		return "; the driver-upgrade taint cannot be removed: " + cause
	}
	return ""
}

// inTime ends the operation when the task has missed its deadline.
func inTime(c *changes, t upgradeplan.Task, v verdict) verdict {
	from := c.countsFrom(c.recorded(t).StartTime.Time)
	limit := rowOf(t).deadline(c.Facts, v)
	if until := from.Add(limit.after); c.Now.Before(until) {
		c.at(until)
		return v
	}
	return verdict{phase: limit.phase, reason: limit.reason, text: fmt.Sprintf("%s took more than %s: %s", t, limit.after, v.text), atEnd: v.atEnd}
}
