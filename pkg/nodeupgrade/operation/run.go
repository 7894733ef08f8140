package operation

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

// verdict is how a current task stands: why it waits, or, with a phase, that the
// operation ends.
type verdict struct {
	reason, text string
	phase        topsv1.OperationPhase
}

func waiting(reason, format string, args ...any) verdict {
	return verdict{reason: reason, text: fmt.Sprintf(format, args...)}
}

// run finds the current tasks from the facts and works on them.
func (s *step) run() {
	p := s.job.Progress(s.outcome(false))
	if p.Complete() {
		p = s.job.Progress(s.outcome(true)) // done means done now (invariant S10)
	}
	if p.Complete() {
		s.end(topsv1.OperationDone, ReasonSucceeded, "")
		return
	}
	wait := s.prepare(&p)
	s.mark(p)
	if wait {
		s.awaitSlot()
		return
	}
	s.openDevice()
	for _, t := range p.Failed {
		rec := s.task(t)
		s.end(s.blame(), rec.Reason, rec.Message)
		return
	}
	for i, t := range p.Next {
		rec := s.task(t)
		v := s.attempt(t, rec)
		if v.phase == "" {
			v = s.inTime(t, rec, v)
		}
		rec.Reason, rec.Message = v.reason, v.text
		if v.phase != "" {
			now := metav1.NewTime(s.f.Now)
			rec.State, rec.EndTime = topsv1.OperationTaskFailed, &now
			s.effects = nil
			s.current(t, v.reason, v.text)
			s.end(v.phase, v.reason, v.text)
			return
		}
		if i == 0 {
			s.current(t, v.reason, v.text)
		}
	}
}

// prepares are the tasks that touch nothing, and so need no grant.
func prepares(t upgradeplan.Task) bool {
	return t.Action == upgradeplan.ActionPrecheck || t.Action == upgradeplan.ActionPrepull
}

// prepare notes when nothing is left but what needs a grant. It takes that out of
// what is next as long as there is none, and then reports whether to wait for it.
func (s *step) prepare(p *upgradeplan.Progress) (wait bool) {
	free := slices.DeleteFunc(slices.Clone(p.Next), func(t upgradeplan.Task) bool { return !prepares(t) })
	prepared := len(free) == 0 && len(p.Failed) == 0
	if prepared && s.op.PreparedTime == nil {
		now := metav1.NewTime(s.f.Now)
		s.op.PreparedTime = &now
	}
	if s.op.Granted {
		return false
	}
	p.Next = free
	return prepared
}

// awaitSlot waits for the grant, with no task. An agent that falls silent
// meanwhile is noticed by the time that passes.
func (s *step) awaitSlot() {
	if s.op.Task != "" {
		s.op.Task, s.op.Since = "", metav1.NewTime(s.f.Now)
	}
	s.wait(ReasonAwaitingSlot, "prepared; waits for its slot")
	if s.op.Before != nil && s.f.Host != nil {
		s.at(s.f.Host.Time.Add(s.limits.silence))
	}
}

// outcome is what the facts say of a task. A task that was seen done stays done
// while later ones run, unless something contradicts it; strict looks again at all
// that can be seen.
func (s *step) outcome(strict bool) func(upgradeplan.Task) upgradeplan.Outcome {
	return func(t upgradeplan.Task) upgradeplan.Outcome {
		rec := s.task(t)
		switch rec.State {
		case topsv1.OperationTaskSkipped, topsv1.OperationTaskUndone:
			return upgradeplan.Skipped
		case topsv1.OperationTaskFailed:
			return upgradeplan.Failed
		case topsv1.OperationTaskUndoing:
			return upgradeplan.NotDone
		}
		lasting := t.Action == upgradeplan.ActionReplace || t.Action == upgradeplan.ActionVerify
		if s.holds(t, rec) || (!strict || !lasting) && s.passed(t, rec) {
			return upgradeplan.Done
		}
		return upgradeplan.NotDone
	}
}

// passed reports whether a task was seen done, later ones were begun since, and
// nothing contradicts it.
func (s *step) passed(t upgradeplan.Task, rec *topsv1.OperationTask) bool {
	if rec.State != topsv1.OperationTaskDone {
		return false
	}
	switch t.Action {
	case upgradeplan.ActionPrecheck, upgradeplan.ActionCordon:
		return false // the node lacks something again; somebody uncordoned it: it is cordoned again
	case upgradeplan.ActionEvict:
		return s.begun(disturbs, true)
	case upgradeplan.ActionReplace:
		if m := s.member(t.Target); m != nil && m.Pod != nil && m.Pod.Revision != s.target(t.Target).Revision {
			return false
		}
	}
	stage := s.stageOf(t)
	return s.begun(func(later upgradeplan.Task) bool { return s.stageOf(later) > stage }, false)
}

// disturbs are the tasks that an eviction is for.
func disturbs(t upgradeplan.Task) bool {
	return t.Action == upgradeplan.ActionRestartRuntime || t.Action == upgradeplan.ActionReplace && t.Target == upgradeplan.TargetDriver
}

// begun reports whether one, or every, task of a kind was begun, or needs no begin.
func (s *step) begun(kind func(upgradeplan.Task) bool, every bool) bool {
	for t := range s.job.All() {
		if !kind(t) {
			continue
		}
		begun := s.task(t).StartTime != nil || every && s.task(t).State != topsv1.OperationTaskPending
		if begun != every {
			return begun
		}
	}
	return every
}

// mark writes down what the facts say of each task.
func (s *step) mark(p upgradeplan.Progress) {
	now := metav1.NewTime(s.f.Now)
	outcome := s.outcome(false)
	for t := range s.job.All() {
		rec := s.task(t)
		switch {
		case rec.State == topsv1.OperationTaskSkipped || rec.State == topsv1.OperationTaskUndone ||
			rec.State == topsv1.OperationTaskFailed || t.Action == upgradeplan.ActionUncordon: // which finish marks
		case slices.Contains(p.Next, t):
			s.begin(rec, now)
		case outcome(t) == upgradeplan.Done:
			if rec.State != topsv1.OperationTaskDone {
				rec.State, rec.Reason, rec.Message, rec.EndTime = topsv1.OperationTaskDone, "", "", &now
			}
		case rec.State != topsv1.OperationTaskUndoing:
			rec.State, rec.Reason, rec.Message, rec.EndTime = topsv1.OperationTaskPending, "", "", nil
		}
	}
}

func (s *step) begin(rec *topsv1.OperationTask, now metav1.Time) {
	if rec.State == topsv1.OperationTaskRunning || rec.State == topsv1.OperationTaskUndoing && rec.StartTime != nil {
		return
	}
	if rec.State != topsv1.OperationTaskUndoing {
		rec.State = topsv1.OperationTaskRunning
	}
	rec.StartTime, rec.EndTime = &now, nil
	rec.Attempts++
}

// inTime ends the operation when a task has no time left.
func (s *step) inTime(t upgradeplan.Task, rec *topsv1.OperationTask, v verdict) verdict {
	from := rec.StartTime.Time
	if s.f.Node.Since.After(from) {
		from = s.f.Node.Since // the time the node was away is not the task's
	}
	deadline := from.Add(s.limits.of(t.Action))
	if s.f.Now.Before(deadline) {
		s.at(deadline)
		return v
	}
	phase, reason := s.expired(t, v)
	return verdict{phase: phase, reason: reason, text: fmt.Sprintf("%s took more than %s: %s", t, s.limits.of(t.Action), v.text)}
}

// expired says what a missed deadline means. Deferred is no fault of the version.
func (s *step) expired(t upgradeplan.Task, v verdict) (phase topsv1.OperationPhase, reason string) {
	switch t.Action {
	case upgradeplan.ActionPrecheck:
		return topsv1.OperationDeferred, ReasonPrecheckFailed
	case upgradeplan.ActionPrepull:
		return topsv1.OperationDeferred, ReasonPrepullFailed
	case upgradeplan.ActionCordon:
		return topsv1.OperationDeferred, ReasonCordonHeld
	case upgradeplan.ActionEvict:
		return topsv1.OperationDeferred, ReasonDrainTimeout
	case upgradeplan.ActionRestartRuntime:
		if v.reason == ReasonLeftToAdministrator {
			return topsv1.OperationDeferred, ReasonLeftToAdministrator
		}
		return s.blame(), ReasonRestartFailed
	case upgradeplan.ActionVerify:
		return s.blame(), ReasonVerifyFailed
	case upgradeplan.ActionSoak:
		return s.blame(), ReasonSoakFailed
	}
	if v.reason == ReasonDeviceInUse || v.reason == ReasonDrainTimeout {
		return s.blame(), v.reason
	}
	return s.blame(), ReasonProgressDeadline
}

// at asks to be woken at a time.
func (s *step) at(t time.Time) {
	in := max(t.Sub(s.f.Now), time.Second)
	if s.after == 0 || in < s.after {
		s.after = in
	}
}

// soon asks to be woken as soon as what was recorded is stored.
func (s *step) soon() { s.at(s.f.Now) }

// wait says why nothing is done, with no task at fault.
func (s *step) wait(reason, text string) { s.op.Reason, s.op.Message = reason, s.say(text) }

// current shows a task.
func (s *step) current(t upgradeplan.Task, reason, text string) {
	if s.op.Task != t.String() {
		s.op.Task, s.op.Since = t.String(), metav1.NewTime(s.f.Now)
	}
	s.wait(reason, text)
}

func (s *step) phase(phase topsv1.OperationPhase) {
	if s.op.Phase != phase {
		s.op.Phase, s.op.Since = phase, metav1.NewTime(s.f.Now)
	}
}

// task is the record of a task; one that a record from elsewhere lacks is added.
func (s *step) task(t upgradeplan.Task) *topsv1.OperationTask {
	name := t.String()
	i := slices.IndexFunc(s.op.Tasks, func(r topsv1.OperationTask) bool { return r.Name == name })
	if i < 0 {
		s.op.Tasks = append(s.op.Tasks, topsv1.OperationTask{Name: name, State: topsv1.OperationTaskPending})
		i = len(s.op.Tasks) - 1
	}
	return &s.op.Tasks[i]
}

func (s *step) stageOf(t upgradeplan.Task) int {
	return slices.IndexFunc(s.job, func(stage upgradeplan.Stage) bool { return slices.Contains(stage, t) })
}

// member is that of a target, nil when its DaemonSet is not there.
func (s *step) member(component string) *Member {
	target := s.target(component)
	if target == nil {
		return nil
	}
	i := slices.IndexFunc(s.f.Members, func(m Member) bool { return m.Component == component && m.UID == target.DaemonSet.UID })
	if i < 0 {
		return nil
	}
	return &s.f.Members[i]
}

func (s *step) target(component string) *topsv1.OperationTarget {
	i := slices.IndexFunc(s.wanted.Targets, func(t topsv1.OperationTarget) bool { return t.Component == component })
	if i < 0 {
		return nil
	}
	return &s.wanted.Targets[i]
}

func (s *step) has(action, target string) bool {
	for t := range s.job.All() {
		if t.Action == action && t.Target == target {
			return true
		}
	}
	return false
}
