package operation

import (
	"slices"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/drain/cordon"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

// snapshot is what a decision reads: the facts, and the record as far as this decision
// has changed it. Nothing is changed through it.
type snapshot struct {
	f *Facts
	// op is the record; wanted the operation it is about, nil when that is no longer
	// known; job its tasks.
	op     *topsv1.OperationStatus
	wanted *topsv1.NodeOperation
	job    job
	limits limits
	book   upgradeplan.Book
	// users are the components that hold the device open.
	users []string
}

// job is the job of an operation, with what tasks have to know of each other.
type job struct {
	upgradeplan.Job
	traits map[upgradeplan.Task]traits
}

// traits are what a task says of itself to the others.
type traits struct {
	// prepares: it touches nothing, and so needs no grant.
	prepares bool
	// disturbs: it needs the node empty; an eviction is for it.
	disturbs bool
}

// recorded returns the record of a task; pending when it has none.
func (s *snapshot) recorded(t upgradeplan.Task) topsv1.OperationTask {
	name := t.String()
	i := slices.IndexFunc(s.op.Tasks, func(r topsv1.OperationTask) bool { return r.Name == name })
	if i < 0 {
		return topsv1.OperationTask{Name: name, State: topsv1.OperationTaskPending}
	}
	return s.op.Tasks[i]
}

// has reports whether the job has a task of an action on a target.
func (s *snapshot) has(action, target string) bool {
	for t := range s.job.All() {
		if t.Action == action && t.Target == target {
			return true
		}
	}
	return false
}

// stageOf returns the index of the stage of a task, -1 when the job does not have it.
func (s *snapshot) stageOf(t upgradeplan.Task) int {
	return slices.IndexFunc(s.job.Job, func(stage upgradeplan.Stage) bool { return slices.Contains(stage, t) })
}

// begun reports whether one, or every, task of a kind was begun, or needs no begin.
func (s *snapshot) begun(kind func(upgradeplan.Task) bool, every bool) bool {
	for t := range s.job.All() {
		if !kind(t) {
			continue
		}
		rec := s.recorded(t)
		begun := rec.StartTime != nil || every && rec.State != topsv1.OperationTaskPending
		if begun != every {
			return begun
		}
	}
	return every
}

// prepares reports whether a task touches nothing, and so needs no grant.
func (s *snapshot) prepares(t upgradeplan.Task) bool { return s.job.traits[t].prepares }

// disturbs reports whether a task needs the node empty.
func (s *snapshot) disturbs(t upgradeplan.Task) bool { return s.job.traits[t].disturbs }

// disturbed reports whether more was begun than to prepare the node.
func (s *snapshot) disturbed() bool {
	return s.begun(func(t upgradeplan.Task) bool { return !s.prepares(t) }, false)
}

// target returns the target of a component, nil when the operation has none.
func (s *snapshot) target(component string) *topsv1.OperationTarget {
	i := slices.IndexFunc(s.wanted.Targets, func(t topsv1.OperationTarget) bool { return t.Component == component })
	if i < 0 {
		return nil
	}
	return &s.wanted.Targets[i]
}

// member returns the member of a target, nil when its DaemonSet is not there.
func (s *snapshot) member(component string) *Member {
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

// atTarget reports whether the pod of a task's component already has its wanted revision.
func (s *snapshot) atTarget(t upgradeplan.Task) bool {
	m := s.member(t.Target)
	return m != nil && m.Pod != nil && m.Pod.Revision == s.target(t.Target).Revision
}

// uses reports whether a component holds the device open.
func (s *snapshot) uses(component string) bool { return slices.Contains(s.users, component) }

// silent reports whether the agent has not been heard of lately.
func (s *snapshot) silent() bool {
	return s.f.Host == nil || !s.f.Now.Before(s.f.Host.Time.Add(s.limits.silence))
}

// hostResult returns the agent's result of the present attempt of a task, nil when it has none.
func (s *snapshot) hostResult(t upgradeplan.Task) *topsv1.HostTaskResult {
	rec, result := s.recorded(t), s.f.Host.Result(s.op.ID, t.String())
	if result == nil || rec.Attempts == 0 || result.Attempt < rec.Attempts {
		return nil
	}
	return result
}

// succeeded reports whether the agent did what a result is about.
func succeeded(result *topsv1.HostTaskResult) bool {
	return result != nil && result.State == topsv1.HostTaskDone
}

// cordoned reports whether the node takes no new pods, cordoned by us or by somebody else.
func (s *snapshot) cordoned() bool {
	change := cordon.DecideCordon(s.f.Node.Cordon, s.op.ID)
	return change.Cordoned && !change.Needed() && change.Reason != cordon.ReasonHeldByOther
}

// blame is Failed, which counts against the version, only when something of it was put
// on the node; otherwise Deferred.
func (s *snapshot) blame() topsv1.OperationPhase {
	if s.op.Touched {
		return topsv1.OperationFailed
	}
	return topsv1.OperationDeferred
}
