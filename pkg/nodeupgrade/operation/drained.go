package operation

import (
	"slices"
	"time"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/drain/eviction"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

// NeedsDrained reports whether Next reads Drained: for the precheck, and once the node is cordoned
// for the operation while a task that needs it empty is unfinished. Otherwise Drained may stay zero,
// which means not known to be empty.
func NeedsDrained(f Facts) bool {
	op := f.Operation
	wanted := op != nil && f.Wanted != nil && f.Wanted.ID == op.ID && !f.Wanted.Abort
	return wanted && op.Phase == topsv1.OperationRunning && f.Node.Ready && needsEmpty(op) &&
		(!Prechecked(op) || op.Granted && f.Node.Cordon.Unschedulable)
}

// DrainStart returns when the drain of an operation began, now if it has not. Its time counts like the deadline of its task.
func DrainStart(f Facts) eviction.Start {
	for _, rec := range f.Operation.Tasks {
		t, err := upgradeplan.ParseTask(rec.Name)
		if err != nil || t.Action != upgradeplan.ActionEvict || rec.StartTime == nil {
			continue
		}
		start := eviction.Start{Recorded: rec.StartTime.Time, Counted: f.countsFrom(rec.StartTime.Time)}
		if f.WorkedSince.After(start.Recorded) {
			start.Recorded = start.Recorded.Add(-daemonset.MaxSkew) // another process may have evicted pods since, and written it by a clock that was ahead
		}
		if start.Recorded.After(f.Now) {
			start.Recorded = time.Time{} // by another clock, or this one was set back
		}
		return start
	}
	return eviction.StartAt(f.Now)
}

// NeedsCardUsers reports whether Next reads CardUsers: for an operation that is only for an idle node,
// until it is granted, and then until it has emptied the node.
func NeedsCardUsers(f Facts) bool {
	op := f.Operation
	wanted := op != nil && f.Wanted != nil && f.Wanted.ID == op.ID && f.Wanted.OnlyIdle
	return wanted && (NeedsDrained(f) || !op.Granted && op.Phase == topsv1.OperationRunning && f.Node.Ready)
}

// NeedsStayingPods reports whether Next reads StayingPods: until the driver is replaced, while a process
// of a pod has a device open by the last report.
func NeedsStayingPods(f Facts) bool {
	op := f.Operation
	wanted := op != nil && f.Wanted != nil && f.Wanted.ID == op.ID && op.Phase == topsv1.OperationRunning
	return wanted && ReplacesDriver(op) && f.Host != nil &&
		slices.ContainsFunc(f.Host.DeviceHolders, func(h topsv1.DeviceHolder) bool { return h.PodUID != "" })
}

// ReplacesDriver reports whether an operation is yet to replace the driver of its node.
func ReplacesDriver(op *topsv1.OperationStatus) bool {
	return slices.ContainsFunc(op.Tasks, func(rec topsv1.OperationTask) bool {
		t, err := upgradeplan.ParseTask(rec.Name)
		return err == nil && t.Action == upgradeplan.ActionReplace && t.Target == upgradeplan.TargetDriver &&
			(rec.State == topsv1.OperationTaskPending || rec.State == topsv1.OperationTaskRunning)
	})
}

// needsEmpty reports whether an unfinished task needs the node empty.
func needsEmpty(op *topsv1.OperationStatus) bool {
	needs := false
	for i := range op.Tasks {
		t, err := upgradeplan.ParseTask(op.Tasks[i].Name)
		row := rowOf(t)
		evicts := t.Action == upgradeplan.ActionEvict
		if err != nil || row == nil || !evicts && !row.disturbs {
			continue
		}
		switch op.Tasks[i].State {
		case topsv1.OperationTaskSkipped:
			if evicts {
				return false
			}
		case topsv1.OperationTaskDone, topsv1.OperationTaskUndone:
		default:
			needs = true
		}
	}
	return needs
}
