package operation

import (
	"slices"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/drain/cordon"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

// view is what a decision looks at: the facts, and the record as far as this decision
// has changed it. Nothing is changed through it.
type view struct {
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
func (v *view) recorded(t upgradeplan.Task) topsv1.OperationTask {
	name := t.String()
	i := slices.IndexFunc(v.op.Tasks, func(r topsv1.OperationTask) bool { return r.Name == name })
	if i < 0 {
		return topsv1.OperationTask{Name: name, State: topsv1.OperationTaskPending}
	}
	return v.op.Tasks[i]
}

// has reports whether the job has a task of an action on a target.
func (v *view) has(action, target string) bool {
	for t := range v.job.All() {
		if t.Action == action && t.Target == target {
			return true
		}
	}
	return false
}

// stageOf returns the index of the stage of a task, -1 when the job does not have it.
func (v *view) stageOf(t upgradeplan.Task) int {
	return slices.IndexFunc(v.job.Job, func(stage upgradeplan.Stage) bool { return slices.Contains(stage, t) })
}

// begun reports whether one, or every, task of a kind was begun, or needs no begin.
func (v *view) begun(kind func(upgradeplan.Task) bool, every bool) bool {
	for t := range v.job.All() {
		if !kind(t) {
			continue
		}
		rec := v.recorded(t)
		begun := rec.StartTime != nil || every && rec.State != topsv1.OperationTaskPending
		if begun != every {
			return begun
		}
	}
	return every
}

// prepares reports whether a task touches nothing, and so needs no grant.
func (v *view) prepares(t upgradeplan.Task) bool { return v.job.traits[t].prepares }

// disturbs reports whether a task needs the node empty.
func (v *view) disturbs(t upgradeplan.Task) bool { return v.job.traits[t].disturbs }

// disturbed reports whether more was begun than to prepare the node.
func (v *view) disturbed() bool {
	return v.begun(func(t upgradeplan.Task) bool { return !v.prepares(t) }, false)
}

// target returns the target of a component, nil when the operation has none.
func (v *view) target(component string) *topsv1.OperationTarget {
	i := slices.IndexFunc(v.wanted.Targets, func(t topsv1.OperationTarget) bool { return t.Component == component })
	if i < 0 {
		return nil
	}
	return &v.wanted.Targets[i]
}

// member returns the member of a target, nil when its DaemonSet is not there.
func (v *view) member(component string) *Member {
	target := v.target(component)
	if target == nil {
		return nil
	}
	i := slices.IndexFunc(v.f.Members, func(m Member) bool { return m.Component == component && m.UID == target.DaemonSet.UID })
	if i < 0 {
		return nil
	}
	return &v.f.Members[i]
}

// atTarget reports whether the pod of a task's component already has its wanted revision.
func (v *view) atTarget(t upgradeplan.Task) bool {
	m := v.member(t.Target)
	return m != nil && m.Pod != nil && m.Pod.Revision == v.target(t.Target).Revision
}

// uses reports whether a component holds the device open.
func (v *view) uses(component string) bool { return slices.Contains(v.users, component) }

// silent reports whether the agent has not been heard of lately.
func (v *view) silent() bool {
	return v.f.Host == nil || !v.f.Now.Before(v.f.Host.Time.Add(v.limits.silence))
}

// answered returns the agent's result of the present attempt of a task, nil when it has none.
func (v *view) answered(t upgradeplan.Task) *topsv1.HostTaskResult {
	rec, result := v.recorded(t), v.f.Host.Result(v.op.ID, t.String())
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
func (v *view) cordoned() bool {
	change := cordon.DecideCordon(v.f.Node.Cordon, v.op.ID)
	return change.Cordoned && !change.Needed() && change.Reason != cordon.ReasonHeldByOther
}

// blame is Failed, which counts against the version, only when something of it was put
// on the node; otherwise Deferred.
func (v *view) blame() topsv1.OperationPhase {
	if v.op.Touched {
		return topsv1.OperationFailed
	}
	return topsv1.OperationDeferred
}
