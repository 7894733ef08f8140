package operation

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/drain/eviction"
)

// accept records a new operation; its first tasks begin with the next decision.
func accept(c *changes, wanted *topsv1.NodeOperation) {
	now := metav1.NewTime(c.Now)
	c.Operation = &topsv1.OperationStatus{ID: wanted.ID, Purpose: wanted.Purpose, Revision: wanted.Revision, Rollout: wanted.Rollout,
		Phase: topsv1.OperationRunning, Reason: ReasonInProgress, Since: now, StartTime: now, Granted: wanted.Granted, Override: c.Override}
	job, err := jobOf(wanted, c.Node.Name)
	if err == nil {
		_, err = eviction.PolicyOf(wanted.Drain)
	}
	if err == nil && slices.ContainsFunc(c.History, func(r topsv1.OperationRecord) bool { return r.ID == wanted.ID }) {
		err = fmt.Errorf("operation %s has ended before: another one needs another id", wanted.ID)
	}
	if err != nil {
		c.Operation.Phase, c.Operation.Outcome = topsv1.OperationReleasing, topsv1.OperationAborted
		c.Operation.Reason, c.Operation.Message = ReasonBadOperation, err.Error()
		finish(c)
		return
	}
	for t := range job.All() {
		c.task(t)
	}
	c.soon()
}

// abandon ends an operation that is no longer wanted. wanted is the operation that replaces
// it, nil when there is none.
func abandon(c *changes, wanted *topsv1.NodeOperation) {
	switch {
	case c.Operation.Phase == topsv1.OperationReleasing:
	case c.Operation.Held && takesOver(c.Operation, wanted):
		handOver(c, wanted)
		return
	case c.Operation.Held:
		giveBack(c, c.Operation.Phase)
	case wanted == nil:
		abort(c, ReasonWithdrawn, "the operation was removed from the spec")
	default:
		end(c, topsv1.OperationAborted, ReasonSuperseded, fmt.Sprintf("operation %s replaces it", wanted.ID))
		if c.Operation.Held {
			return
		}
	}
	release(c)
}

// abort ends an operation whose node goes back into service whatever is on it.
func abort(c *changes, reason, text string) {
	c.wait(reason, text)
	giveBack(c, topsv1.OperationAborted)
}

// takesOver reports whether the wanted operation, nil for none, takes over the cordon of one that keeps its node cordoned:
// the node is out of service until another operation of the rollout has shown that it works (docs/adr/0010).
func takesOver(op *topsv1.OperationStatus, wanted *topsv1.NodeOperation) bool {
	return wanted != nil && wanted.Rollout == op.Rollout
}

// handOver begins the wanted operation in the place of one that keeps its node cordoned, once it is granted: before, its
// node would count as available. The driver-upgrade taint is removed, so that the device plugin can return before the
// prechecks; the cordon stays, with its mark.
func handOver(c *changes, wanted *topsv1.NodeOperation) {
	if !wanted.Granted && !wanted.Abort {
		return
	}
	if busy(c) {
		c.at(c.Now.Add(tick))
		return
	}
	mark, before := CordonMark(c.Operation), handedOn(c.Facts)
	accept(c, wanted)
	c.Operation.Before = before
	c.Operation.CordonedBy, c.Operation.Held = mark, c.Operation.Phase.Final() // a bad operation is over at once
}

// proceed continues the wanted operation.
func proceed(c *changes) {
	if c.Operation.Phase == topsv1.OperationReleasing {
		release(c)
		return
	}
	if c.Wanted.Abort {
		switch {
		case c.Operation.Held:
			giveBack(c, c.Operation.Phase)
		case !c.Operation.Granted && !c.Wanted.Granted:
			abort(c, ReasonWithdrawn, "it was withdrawn before it was granted")
		default:
			abort(c, ReasonAborted, "the operation was aborted")
		}
		release(c)
		return
	}
	applyOverride(c)
	if c.Operation.Held {
		c.notReleasedFor("")
		fence(c) // a person may uncordon the node at any time
		return
	}
	if c.Wanted.Granted && !c.Operation.Granted {
		grant(c)
		return
	}
	if phase, reason, text := cutShort(c.Facts); phase != "" {
		end(c, phase, reason, text)
		return
	}
	if !c.Node.Ready {
		c.wait(ReasonNodeOffline, "the node is not Ready: nothing is done on it until it is back")
		c.at(lostAt(c.Facts))
		if !awaits(c.Facts) {
			c.at(endsAt(c.Facts))
		}
		return
	}
	run(c)
}

// grant records that the node has its slot and restarts the operation's deadline. The node
// may have waited for long, so it is prechecked again. If the operation has had its slot before (an older CRD
// dropped that), what the node was before stays the measure.
func grant(c *changes) {
	if !c.Operation.Touched && !c.disturbed() && c.Operation.CordonedBy == "" {
		c.Operation.Before, c.Operation.StartTime = nil, metav1.NewTime(c.Now)
	}
	c.Operation.Granted = true
	c.soon()
}

// cutShort returns how the operation ends for a reason outside its tasks; an empty phase when
// it does not end.
func cutShort(f *Facts) (phase topsv1.OperationPhase, reason, text string) {
	n := f.Node
	switch {
	case n.UID == "" || f.Wanted.NodeUID != "" && n.UID != f.Wanted.NodeUID: // an older CRD may have dropped the latter
		return topsv1.OperationAborted, ReasonNodeReplaced, "the Node object is not the one that the operation is about"
	case !n.Ready && !f.Now.Before(lostAt(f)):
		return f.blame(), ReasonNodeLost, fmt.Sprintf("the node was not Ready for %s", f.limits.lost)
	case !awaits(f) && !f.Now.Before(endsAt(f)):
		phase := f.blame()
		if f.Drained.Ending && !driverIsUnproven(f) { // a drain, which defers it
			phase = topsv1.OperationDeferred
		}
		return phase, ReasonOperationDeadline, fmt.Sprintf("the operation is not done after %s", f.Now.Sub(f.recordedAt(f.Operation.StartTime.Time)).Round(time.Second))
	}
	for t := range f.job.All() {
		if text := rowOf(t).superseded(f, t); text != "" {
			return topsv1.OperationAborted, ReasonTargetChanged, text
		}
	}
	return "", "", ""
}

// limitOfAll is how long the operation may take: by default two hours, and as much more as its policy allows its tasks more than the defaults.
func limitOfAll(f *Facts) time.Duration {
	if f.limits.operation > 0 {
		return f.limits.operation
	}
	byDefault, more := *f, time.Duration(0)
	byDefault.limits = limitsOf(&topsv1.NodeOperation{})
	for t := range f.job.All() {
		more += rowOf(t).deadline(f, verdict{}).after - rowOf(t).deadline(&byDefault, verdict{}).after
	}
	return standardLimit + max(0, more)
}

// endsAt is the deadline of the operation. After a break there is time for one more pod. It does not end while the node may be back in
// time, and begins anew when it is back; that adds the time for which a node may be offline at most.
func endsAt(f *Facts) time.Time {
	limit := limitOfAll(f)
	end := f.recordedAt(f.Operation.StartTime.Time).Add(limit)
	back := f.recordedAt(f.Node.Since).Add(limit)
	if !f.Node.Ready {
		back = lostAt(f)
	} else if last := end.Add(f.limits.lost); back.After(last) {
		back = last
	}
	return latest(end, back, f.WorkedSince.Add(f.limits.progress))
}

// lostAt is when a node that is not Ready counts as lost.
func lostAt(f *Facts) time.Time {
	return latest(f.recordedAt(f.Node.Since), f.WorkedSince).Add(f.limits.lost)
}

// awaits reports whether the operation is prepared and waits for its slot, for which there is
// no deadline.
func awaits(f *Facts) bool { return !f.Operation.Granted && f.Operation.PreparedTime != nil }
