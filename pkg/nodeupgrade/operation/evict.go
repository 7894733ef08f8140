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

func (evict) done(s *snapshot, _ upgradeplan.Task) bool {
	return s.cordoned() && s.f.Drained.Empty && !mayNotTouch(s) && !leavesTooMany(s)
}

func (evict) attempt(c *changes, _ upgradeplan.Task) verdict {
	if mayNotTouch(c.snapshot) {
		return inUse(c.snapshot)
	}
	if leavesTooMany(c.snapshot) {
		c.op.DrainAll = true
		c.soon()
		return waiting(ReasonInProgress, "the restart of the container runtime would stop all pods by now: those that do not use the accelerator are evicted too")
	}
	return drainPass(c)
}

func (evict) deadline(s *snapshot, _ verdict) deadline {
	phase := topsv1.OperationDeferred
	if driverIsUnproven(s) {
		phase = s.blame()
	}
	return whileEnding(s, deadline{s.limits.drain, phase, ReasonDrainTimeout})
}

// whileEnding returns the deadline of a drain. While all that is left are pods that go on their own within their grace
// periods, it has as long as an operation by default: if it ended, their successors would be back on the node for the next drain.
func whileEnding(s *snapshot, d deadline) deadline {
	if s.f.Drained.Ending {
		d.after += standardLimit
	}
	return d
}

// lasts once every task that needs the node empty has begun: until then a node with new pods
// is drained again.
func (evict) lasts(s *snapshot, _ upgradeplan.Task) bool { return s.begun(s.disturbs, true) }

// leavesTooMany reports whether the drain spares pods that a restart of the runtime, which has not begun, would stop: what the
// precheck found out about the engine has changed.
func leavesTooMany(s *snapshot) bool {
	if s.op.DrainAll || s.f.Host == nil || !StopsContainers(s.f.Host.Runtime, s.wanted.DefaultRuntime) {
		return false
	}
	for t := range s.job.All() {
		if t.Action == upgradeplan.ActionRestartRuntime && s.recorded(t).State == topsv1.OperationTaskPending {
			return true
		}
	}
	return false
}

// drainPass makes one pass of the drain.
func drainPass(c *changes) verdict {
	c.effects = append(c.effects, Effect{Kind: Evict, Operation: c.op.ID, All: c.op.DrainAll})
	c.at(c.f.Now.Add(eviction.RetryInterval))
	if c.f.Drained.Stuck {
		return waiting(ReasonDrainBlocked, "%s", c.f.Drained.Message)
	}
	return waiting(ReasonInProgress, "%s", c.f.Drained.Message)
}

// driverIsUnproven reports whether the operation has replaced the driver, or begun to, and has not verified it. A person
// may have skipped that once it was replaced.
func driverIsUnproven(s *snapshot) bool {
	for t := range s.job.All() {
		if rec := s.recorded(t); t.Target == upgradeplan.TargetDriver && t.Action == upgradeplan.ActionReplace {
			return HasUnprovenDriver(s.op) && (rec.State == topsv1.OperationTaskDone || s.atTarget(t) || !mayNotLeave(s, rec.Pod))
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
func mayNotLeave(s *snapshot, named *topsv1.NamedPod) bool {
	return slices.ContainsFunc(s.f.Members, func(m Member) bool { return m.Pod != nil && m.Pod.UID == named.UID && s.denied(m.Pod) != "" })
}
