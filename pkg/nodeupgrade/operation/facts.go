package operation

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/drain/cordon"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

// Facts is the input of a decision, and what its steps read. Everything may be stale, except where it says live;
// effects have preconditions for that reason.
type Facts struct {
	// Now is the time of the decision.
	Now time.Time
	// Wanted is spec.operation; nil when there is none.
	Wanted *topsv1.NodeOperation
	// Record is the stored part of the status. Next works on a copy of it: while it decides, this is the record
	// with its changes so far.
	Record
	// Override is the annotation AnnotationTaskOverride of the NodeUpgrade.
	Override string
	// Node is the Node object.
	Node Node
	// Members are, in any order: the targets of the wanted operation, all other components
	// that use the device of this node, whichever gr deploys them, and the owners of all pods
	// named in the record.
	Members []Member
	// Drained reports whether the node is empty, read live.
	Drained Drained
	// CardUsers are the pods on the node that use its cards, except those of the operator's own
	// components, read live if NeedsCardUsers.
	CardUsers []string
	// StayingPods are the pods on the node in which a process has a device open by the last report, and
	// which its drain leaves there, as namespace/name by UID, "" for a pod that the API server does not
	// have; not those of the operator's own components. Read live if NeedsStayingPods.
	StayingPods map[string]string
	// Host is status.host; nil: the agent has never reported.
	Host *topsv1.HostReport
	// HostSince is when this manager first saw the report: its time is by the node's clock.
	HostSince time.Time
	// Denied are the pods whose deletion was denied, and the Node if a change of it was, by UID.
	Denied map[types.UID]Denial
	// WorkedSince is since when passes over the node were made with no break longer than
	// LongestBreak: deadlines do not run while no manager works. Zero for always.
	WorkedSince time.Time

	// Next sets the others. job has the tasks of the operation, and limits are its deadlines: none, and
	// the defaults, when it is no longer wanted.
	job    job
	limits limits
	// users are the components that hold the device open.
	users []string
}

// Denial is a deletion, or a fence, of a pod that was denied, or a change of the Node object.
type Denial struct {
	// Retry is the time of the next attempt.
	Retry   time.Time
	Message string
	// OfFence: the fence was denied.
	OfFence bool
}

// Record is the part of the status that the operator keeps of operations.
type Record struct {
	// Operation is status.operation.
	Operation *topsv1.OperationStatus
	// History is status.history.
	History []topsv1.OperationRecord
}

// Over reports whether no operation is left: there is none, or it has ended and does not keep
// the node cordoned.
func Over(op *topsv1.OperationStatus) bool { return op == nil || op.Phase.Final() && !op.Held }

// Node is the observed state of the Node object.
type Node struct {
	// Name and UID; without a UID the Node does not exist.
	Name string
	UID  types.UID
	// Cordon has the facts about cordons, read live.
	Cordon cordon.NodeFacts
	// Taint is the value of TaintDriverUpgrade, "" without it.
	Taint string
	// Ready is the Ready condition; Since is its last transition, by the clock of Facts.Now.
	Ready bool
	Since time.Time
	// Allocatable are the resources of the accelerator.
	Allocatable map[string]int64
	// OtherUpgrader names another upgrader that works on the node, "" when there is none.
	OtherUpgrader string
}

// Member is one DaemonSet and its pod on the node.
type Member struct {
	// Component is its key, and DaemonSet its namespace/name.
	Component, DaemonSet string
	// Group is the gr that controls the DaemonSet.
	Group string
	// UID of the DaemonSet. A target matches the member with its component and UID.
	UID types.UID
	// Uncontrolled: its updateStrategy is not OnDelete, so the operator must not delete its
	// pods (invariant S9).
	Uncontrolled bool
	// Newest is the hash of the newest revision; "" when it is not known yet, and for a component that is
	// neither a target nor a device plugin.
	Newest string
	// Leaving: its pods leave the node (daemonset.IsLeaving). An operation that replaces a component
	// under a new name has two targets for it, one of which leaves.
	Leaving bool
	// Shares are how many the device plugin makes of each card in its newest revision, 0 if that is not known.
	Shares int64
	// NoSuccessor says why no pod is created on the node (daemonset.ShouldRun), "" if one is.
	NoSuccessor string
	// Pod on the node; nil when there is none. A terminating pod counts.
	Pod *Pod
}

// Pod is a pod of a member.
type Pod struct {
	topsv1.NamedPod
	// Revision is its controller-revision-hash.
	Revision string
	// Created is its creationTimestamp.
	Created time.Time
	// Started is when its kubelet began to start it, by the clock of the node; zero before.
	Started time.Time
	// NoCards: it uses the device, and cannot have cards (HasNoCards).
	NoCards bool
	// Available honors minReadySeconds. Since is the last change of readiness or the last
	// start of a container, whichever is later, by the clock of Facts.Now.
	Available bool
	Since     time.Time
	// Placeholder: nothing runs in it, nor ever will (daemonset.IsPlaceholder). It is available.
	Placeholder bool
	// Gated: it waits at the gate of config/gate.
	Gated bool
	// Terminating: it has a deletion timestamp. CrashLooping: a container restarts
	// repeatedly. Restarted: one has restarted at any time.
	Terminating, CrashLooping, Restarted bool
	// TerminationMessage are the last output of a crash-looping container, "" when not known.
	TerminationMessage string
}

// Drained is the result of a live look at the drain under the operation's policy, see NeedsDrained;
// for all pods when the record says so (DrainAll). For the precheck, it is a dry run of all evictions.
type Drained struct {
	// Empty: the node is Ready and nothing is left to evict.
	Empty bool
	// Stuck: the drain cannot finish without action by a person.
	Stuck bool
	// Ending: all that is left are pods that terminate, and can be expected to go.
	Ending bool
	// Message describes what blocks the drain.
	Message string
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
func (f *Facts) recorded(t upgradeplan.Task) topsv1.OperationTask {
	name := t.String()
	i := slices.IndexFunc(f.Operation.Tasks, func(r topsv1.OperationTask) bool { return r.Name == name })
	if i < 0 {
		return topsv1.OperationTask{Name: name, State: topsv1.OperationTaskPending}
	}
	return f.Operation.Tasks[i]
}

// has reports whether the job has a task with this action and target.
func (f *Facts) has(action, target string) bool {
	for t := range f.job.All() {
		if t.Action == action && t.Target == target {
			return true
		}
	}
	return false
}

// stageOf returns the index of the stage of a task, -1 when the job does not have it.
func (f *Facts) stageOf(t upgradeplan.Task) int {
	return slices.IndexFunc(f.job.Job, func(stage upgradeplan.Stage) bool { return slices.Contains(stage, t) })
}

// begun reports whether any task of a kind has ever begun; with every, whether none is pending, also not again.
func (f *Facts) begun(kind func(upgradeplan.Task) bool, every bool) bool {
	for t := range f.job.All() {
		if !kind(t) {
			continue
		}
		rec := f.recorded(t)
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
func (f *Facts) prepares(t upgradeplan.Task) bool { return f.job.taskProperties[t].prepares }

// disturbs reports whether a task needs the node empty.
func (f *Facts) disturbs(t upgradeplan.Task) bool { return f.job.taskProperties[t].disturbs }

// disturbed reports whether a task beyond preparation has begun.
func (f *Facts) disturbed() bool {
	return f.begun(func(t upgradeplan.Task) bool { return !f.prepares(t) }, false)
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
func (f *Facts) replaced(component string) (list []replaced) {
	i := slices.IndexFunc(f.Wanted.Targets, func(t topsv1.OperationTarget) bool { return t.Component == component })
	if i < 0 {
		return nil
	}
	target := &f.Wanted.Targets[i]
	newest := target.AllNewest()
	for i, of := range target.All() {
		r := replaced{revision: of.Revision, newest: newest[i].Revision, before: i < len(target.Leaving)}
		if i := slices.IndexFunc(f.Members, func(m Member) bool { return m.Component == component && m.UID == of.DaemonSet.UID }); i >= 0 {
			r.Member = &f.Members[i]
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
func (f *Facts) atTarget(t upgradeplan.Task) bool {
	list := f.replaced(t.Target)
	return len(list) > 0 && !slices.ContainsFunc(list, func(r replaced) bool { return !r.atTarget() })
}

// uses reports whether a component holds the device open.
func (f *Facts) uses(component string) bool { return slices.Contains(f.users, component) }

// exists reports whether a recorded pod is on the node.
func (f *Facts) exists(named topsv1.NamedPod) bool {
	return slices.ContainsFunc(f.Members, func(m Member) bool { return m.Pod != nil && m.Pod.UID == named.UID })
}

// denied returns why the API server refuses to delete a pod, "" if it does not: a pod that ends was deleted.
func (f *Facts) denied(pod *Pod) string {
	if denial := f.Denied[pod.UID]; !denial.OfFence && !pod.Terminating {
		return denial.Message
	}
	return ""
}

// denialOf says that the API server refuses to delete a pod, "" if it does not.
func denialOf(f *Facts, pod *Pod) string {
	if cause := f.denied(pod); cause != "" {
		return " (deletion denied: " + cause + ")"
	}
	return ""
}

// nodeDenied returns why the API server refuses to change the Node object, "" if it does not.
func (f *Facts) nodeDenied() string { return f.Denied[f.Node.UID].Message }

// silent reports whether the agent has missed its reports for too long.
func (f *Facts) silent() bool {
	return f.Host == nil || !f.Now.Before(f.HostSince.Add(f.limits.silence))
}

// hostResult returns the agent's result for the current attempt of a task, nil when there is
// none.
func (f *Facts) hostResult(t upgradeplan.Task) *topsv1.HostTaskResult {
	rec, result := f.recorded(t), f.Host.Result(f.Operation.ID, t.String())
	if result == nil || rec.Attempts == 0 || result.Attempt < rec.Attempts {
		return nil
	}
	return result
}

func succeeded(result *topsv1.HostTaskResult) bool {
	return result != nil && result.State == topsv1.HostTaskDone
}

// goesOn reports whether the agent says that what it has begun is in progress.
func goesOn(result *topsv1.HostTaskResult) bool {
	return result != nil && result.State == topsv1.HostTaskRunning && result.Reason == ReasonInProgress
}

// recordedAt returns a recorded time; if it is in the future because the clock was set back, the time at which the manager noticed.
func (f *Facts) recordedAt(at time.Time) time.Time {
	if at.After(f.Now) {
		return f.WorkedSince
	}
	return at
}

// countsFrom returns since when the time of a task counts that was recorded to begin at a time: time offline, or without a manager, does not.
func (f *Facts) countsFrom(recorded time.Time) time.Time {
	return latest(f.recordedAt(recorded), f.recordedAt(f.Node.Since), f.WorkedSince)
}

// CordonMark returns the id that the mark of an operation's cordon names: its own, or that of the failed
// operation whose cordon it took over.
func CordonMark(op *topsv1.OperationStatus) string { return cmp.Or(op.CordonedBy, op.ID) }

// cordoned reports whether the node is unschedulable, and not because of another operation.
func (f *Facts) cordoned() bool {
	change := cordon.DecideCordon(f.Node.Cordon, CordonMark(f.Operation))
	return change.Cordoned && !change.Needed() && change.Reason != cordon.ReasonCordonedByOther
}

// blame returns Failed, which counts against the version, if something of the version was put
// on the node, otherwise Deferred.
func (f *Facts) blame() topsv1.OperationPhase {
	if f.Operation.Touched {
		return topsv1.OperationFailed
	}
	return topsv1.OperationDeferred
}

// isEvidence reports whether an operation shows what is on the node.
func isEvidence(r topsv1.OperationRecord) bool { return r.Touched || r.Phase == topsv1.OperationDone }

// tasksOf returns the names of the tasks of an ended operation.
func tasksOf(r *topsv1.OperationRecord) []string {
	return slices.Concat(r.Result.Done, r.Result.Fail, r.Result.Undo)
}
