package operation

import (
	"slices"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/drain/eviction"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

// evict empties the node. It is done when the node is cordoned and empty, of all pods if a restart of the runtime would
// stop them. A missed deadline (the drain timeout, unless all that is left are pods that end) defers the operation, or fails it
// once it has replaced the driver and not verified it: then the node stays cordoned.
type evict struct{ base }

func (evict) done(f *Facts, _ upgradeplan.Task) bool {
	return f.cordoned() && f.Drained.Empty && !mayNotTouch(f) && !leavesTooMany(f)
}

func (evict) attempt(c *changes, _ upgradeplan.Task) verdict {
	if mayNotTouch(c.Facts) {
		return inUse(c.Facts)
	}
	if leavesTooMany(c.Facts) {
		c.Operation.DrainAll = true
		c.soon()
		return waiting(ReasonInProgress, "the restart of the container runtime would stop all pods by now: those that do not use the accelerator are evicted too")
	}
	return drainPass(c)
}

func (evict) deadline(f *Facts, _ verdict) deadline {
	phase := topsv1.OperationDeferred
	if driverIsUnproven(f) {
		phase = f.blame()
	}
	return whileEnding(f, deadline{f.limits.drain, phase, ReasonDrainTimeout})
}

// whileEnding returns the deadline of a drain. While all that is left are pods that go on their own within their grace
// periods, it has as long as an operation by default: if it ended, their successors would be back on the node for the next drain.
func whileEnding(f *Facts, d deadline) deadline {
	if f.Drained.Ending {
		d.after += standardLimit
	}
	return d
}

// lasts once every task that needs the node empty has begun: until then a node with new pods
// is drained again.
func (evict) lasts(f *Facts, _ upgradeplan.Task) bool { return f.begun(f.disturbs, true) }

// leavesTooMany reports whether the drain spares pods that a restart of the runtime, which has not begun, would stop: what the
// precheck found out about the engine has changed.
func leavesTooMany(f *Facts) bool {
	if f.Operation.DrainAll || f.Host == nil || !StopsContainers(f.Host.Runtime, f.Wanted.DefaultRuntime) {
		return false
	}
	for t := range f.job.All() {
		if t.Action == upgradeplan.ActionRestartRuntime && f.recorded(t).State == topsv1.OperationTaskPending {
			return true
		}
	}
	return false
}

// drainPass makes one pass of the drain.
func drainPass(c *changes) verdict {
	c.effects = append(c.effects, Effect{Kind: Evict, Operation: c.Operation.ID, All: c.Operation.DrainAll})
	c.at(c.Now.Add(eviction.RetryInterval))
	if c.Drained.Stuck {
		return waiting(ReasonDrainBlocked, "%s", c.Drained.Message)
	}
	return waiting(ReasonInProgress, "%s", c.Drained.Message)
}

// driverIsUnproven reports whether the operation has replaced the driver, or begun to, and has not verified it. A person
// may have skipped that once it was replaced.
func driverIsUnproven(f *Facts) bool {
	for t := range f.job.All() {
		if rec := f.recorded(t); t.Target == upgradeplan.TargetDriver && t.Action == upgradeplan.ActionReplace {
			return HasUnprovenDriver(f.Operation) && (rec.State == topsv1.OperationTaskDone || f.atTarget(t) || !mayNotLeave(f, rec.Pod))
		}
	}
	return false
}

// HasUnprovenDriver reports whether an operation may have begun to replace the driver, by its record, and has not verified it.
func HasUnprovenDriver(op *topsv1.OperationStatus) bool {
	begun, ended, settled := false, false, false
	for i := range op.Tasks {
		rec := &op.Tasks[i]
		over := rec.State == topsv1.OperationTaskDone || rec.State == topsv1.OperationTaskSkipped
		switch t, _ := upgradeplan.ParseTask(rec.Name); {
		case t.Target != upgradeplan.TargetDriver:
		case t.Action == upgradeplan.ActionReplace:
			begun, ended = rec.State == topsv1.OperationTaskDone || rec.Pod != nil, over
		case t.Action == upgradeplan.ActionVerify:
			settled = over && ended
		}
	}
	return begun && !settled
}

// mayNotLeave reports whether a pod was to be deleted, and the API server refuses that.
func mayNotLeave(f *Facts, named *topsv1.NamedPod) bool {
	return slices.ContainsFunc(f.Members, func(m Member) bool { return m.Pod != nil && m.Pod.UID == named.UID && f.denied(m.Pod) != "" })
}
