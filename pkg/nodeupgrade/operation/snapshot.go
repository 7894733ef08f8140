package operation

import (
	"cmp"
	"slices"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/drain/cordon"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

// snapshot is what a decision reads: the facts, and the record with this decision's changes
// so far. It is read-only.
type snapshot struct {
	f *Facts
	// op is the record; wanted the operation it belongs to, nil when no longer known; job its
	// tasks.
	op     *topsv1.OperationStatus
	wanted *topsv1.NodeOperation
	job    job
	limits limits
	// users are the components that hold the device open.
	users []string
}

// job is the job of an operation, with what its tasks need to know about each other.
type job struct {
	upgradeplan.Job
	taskProperties map[upgradeplan.Task]taskProperties
}

// taskProperties are the properties of a task that matter to other tasks.
type taskProperties struct {
	// prepares: it does not touch the node, and so needs no grant.
	prepares bool
	// disturbs: it needs the node empty.
	disturbs bool
}

// recorded returns the record of a task; pending when there is none.
func (s *snapshot) recorded(t upgradeplan.Task) topsv1.OperationTask {
	name := t.String()
	i := slices.IndexFunc(s.op.Tasks, func(r topsv1.OperationTask) bool { return r.Name == name })
	if i < 0 {
		return topsv1.OperationTask{Name: name, State: topsv1.OperationTaskPending}
	}
	return s.op.Tasks[i]
}

// has reports whether the job has a task with this action and target.
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

// begun reports whether any task of a kind has ever begun; with every, whether none is pending, also not again.
func (s *snapshot) begun(kind func(upgradeplan.Task) bool, every bool) bool {
	for t := range s.job.All() {
		if !kind(t) {
			continue
		}
		rec := s.recorded(t)
		begun := rec.StartTime != nil
		if every {
			begun = rec.State != topsv1.OperationTaskPending // which keeps its start time
		}
		if begun != every {
			return begun
		}
	}
	return every
}

// prepares reports whether a task does not touch the node, and so needs no grant.
func (s *snapshot) prepares(t upgradeplan.Task) bool { return s.job.taskProperties[t].prepares }

// disturbs reports whether a task needs the node empty.
func (s *snapshot) disturbs(t upgradeplan.Task) bool { return s.job.taskProperties[t].disturbs }

// disturbed reports whether a task beyond preparation has begun.
func (s *snapshot) disturbed() bool {
	return s.begun(func(t upgradeplan.Task) bool { return !s.prepares(t) }, false)
}

// replaced is one DaemonSet of a component that an operation replaces: the wanted revision of its pod, the
// newest one that it must have, and the member, nil when the DaemonSet does not exist.
type replaced struct {
	revision, newest string
	// before: it leaves before another one comes.
	before bool
	*Member
}

// replaced returns the DaemonSets of a component, first the ones that leave before its own; nil when the
// operation does not replace it.
func (s *snapshot) replaced(component string) (list []replaced) {
	i := slices.IndexFunc(s.wanted.Targets, func(t topsv1.OperationTarget) bool { return t.Component == component })
	if i < 0 {
		return nil
	}
	target := &s.wanted.Targets[i]
	newest := target.AllNewest()
	for i, of := range target.All() {
		r := replaced{revision: of.Revision, newest: newest[i].Revision, before: i < len(target.Leaving)}
		if i := slices.IndexFunc(s.f.Members, func(m Member) bool { return m.Component == component && m.UID == of.DaemonSet.UID }); i >= 0 {
			r.Member = &s.f.Members[i]
		}
		list = append(list, r)
	}
	return list
}

// leaves reports whether the DaemonSet is to leave the node. One that is gone has left.
func (r replaced) leaves() bool { return r.before || r.Member != nil && r.Leaving }

// pod returns the pod on the node, nil when there is none.
func (r replaced) pod() *Pod {
	if r.Member == nil {
		return nil
	}
	return r.Pod
}

// atTarget reports whether the pod already has its wanted revision.
func (r replaced) atTarget() bool { return r.pod() != nil && r.pod().Revision == r.revision }

// atTarget reports whether the pods of a task's component already have their wanted revisions.
func (s *snapshot) atTarget(t upgradeplan.Task) bool {
	list := s.replaced(t.Target)
	return len(list) > 0 && !slices.ContainsFunc(list, func(r replaced) bool { return !r.atTarget() })
}

// uses reports whether a component holds the device open.
func (s *snapshot) uses(component string) bool { return slices.Contains(s.users, component) }

// exists reports whether a recorded pod is on the node.
func (s *snapshot) exists(named topsv1.NamedPod) bool {
	return slices.ContainsFunc(s.f.Members, func(m Member) bool { return m.Pod != nil && m.Pod.UID == named.UID })
}

// denied returns why the API server refuses to delete a pod, "" if it does not: a pod that ends was deleted.
func (s *snapshot) denied(pod *Pod) string {
	if denial := s.f.Denied[pod.UID]; !denial.OfFence && !pod.Terminating {
		return denial.Message
	}
	return ""
}

// denialOf says that the API server refuses to delete a pod, "" if it does not.
func denialOf(s *snapshot, pod *Pod) string {
	if cause := s.denied(pod); cause != "" {
		return " (deletion denied: " + cause + ")"
	}
	return ""
}

// nodeDenied returns why the API server refuses to change the Node object, "" if it does not.
func (s *snapshot) nodeDenied() string { return s.f.Denied[s.f.Node.UID].Message }

// silent reports whether the agent has missed its reports for too long.
func (s *snapshot) silent() bool {
	return s.f.Host == nil || !s.f.Now.Before(s.f.HostSince.Add(s.limits.silence))
}

// hostResult returns the agent's result for the current attempt of a task, nil when there is
// none.
func (s *snapshot) hostResult(t upgradeplan.Task) *topsv1.HostTaskResult {
	rec, result := s.recorded(t), s.f.Host.Result(s.op.ID, t.String())
	if result == nil || rec.Attempts == 0 || result.Attempt < rec.Attempts {
		return nil
	}
	return result
}

func succeeded(result *topsv1.HostTaskResult) bool {
	return result != nil && result.State == topsv1.HostTaskDone
}

// CordonMark returns the id that the mark of an operation's cordon names: its own, or that of the failed
// operation whose cordon it took over.
func CordonMark(op *topsv1.OperationStatus) string { return cmp.Or(op.CordonedBy, op.ID) }

// cordoned reports whether the node is unschedulable, and not because of another operation.
func (s *snapshot) cordoned() bool {
	change := cordon.DecideCordon(s.f.Node.Cordon, CordonMark(s.op))
	return change.Cordoned && !change.Needed() && change.Reason != cordon.ReasonCordonedByOther
}

// blame returns Failed, which counts against the version, if something of the version was put
// on the node, otherwise Deferred.
func (s *snapshot) blame() topsv1.OperationPhase {
	if s.op.Touched {
		return topsv1.OperationFailed
	}
	return topsv1.OperationDeferred
}
