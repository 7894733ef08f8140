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
	now := metav1.NewTime(c.f.Now)
	c.op = &topsv1.OperationStatus{ID: wanted.ID, Purpose: wanted.Purpose, Revision: wanted.Revision, Rollout: wanted.Rollout,
		Phase: topsv1.OperationRunning, Reason: ReasonInProgress, Since: now, StartTime: now, Granted: wanted.Granted, Override: c.f.Override}
	job, err := jobOf(wanted, c.f.Node.Name)
	if err == nil {
		_, err = eviction.PolicyOf(wanted.Drain)
	}
	if err == nil && slices.ContainsFunc(c.history, func(r topsv1.OperationRecord) bool { return r.ID == wanted.ID }) {
		err = fmt.Errorf("operation %s has ended before: another one needs another id", wanted.ID)
	}
	if err != nil {
		c.op.Phase, c.op.Outcome = topsv1.OperationReleasing, topsv1.OperationAborted
		c.op.Reason, c.op.Message = ReasonBadOperation, err.Error()
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
	case c.op.Phase == topsv1.OperationReleasing:
	case c.op.Held && takesOver(c.op, wanted):
		handOver(c, wanted)
		return
	case c.op.Held:
		giveBack(c, c.op.Phase)
	case wanted == nil:
		abort(c, ReasonWithdrawn, "the operation was removed from the spec")
	default:
		end(c, topsv1.OperationAborted, ReasonSuperseded, fmt.Sprintf("operation %s replaces it", wanted.ID))
		if c.op.Held {
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
		c.at(c.f.Now.Add(tick))
		return
	}
	mark, before := CordonMark(c.op), handedOn(c.snapshot)
	accept(c, wanted)
	c.op.Before = before
	c.op.CordonedBy, c.op.Held = mark, c.op.Phase.Final() // a bad operation is over at once
}

// proceed continues the wanted operation.
func proceed(c *changes) {
	if c.op.Phase == topsv1.OperationReleasing {
		release(c)
		return
	}
	if c.wanted.Abort {
		switch {
		case c.op.Held:
			giveBack(c, c.op.Phase)
		case !c.op.Granted && !c.wanted.Granted:
			abort(c, ReasonWithdrawn, "it was withdrawn before it was granted")
		default:
			abort(c, ReasonAborted, "the operation was aborted")
		}
		release(c)
		return
	}
	applyOverride(c)
	if c.op.Held {
		c.notReleasedFor("")
		fence(c) // a person may uncordon the node at any time
		return
	}
	if c.wanted.Granted && !c.op.Granted {
		grant(c)
		return
	}
	if phase, reason, text := cutShort(c.snapshot); phase != "" {
		end(c, phase, reason, text)
		return
	}
	if !c.f.Node.Ready {
		c.wait(ReasonNodeOffline, "the node is not Ready: nothing is done on it until it is back")
		c.at(lostAt(c.snapshot))
		if !awaits(c.snapshot) {
			c.at(endsAt(c.snapshot))
		}
		return
	}
	run(c)
}

// grant records that the node has its slot and restarts the operation's deadline. The node
// may have waited for long, so it is prechecked again. If the operation has had its slot before (an older CRD
// dropped that), what the node was before stays the measure.
func grant(c *changes) {
	if !c.op.Touched && !c.disturbed() && c.op.CordonedBy == "" {
		c.op.Before, c.op.StartTime = nil, metav1.NewTime(c.f.Now)
	}
	c.op.Granted = true
	c.soon()
}

// cutShort returns how the operation ends for a reason outside its tasks; an empty phase when
// it does not end.
func cutShort(s *snapshot) (phase topsv1.OperationPhase, reason, text string) {
	n := s.f.Node
	switch {
	case n.UID == "" || s.wanted.NodeUID != "" && n.UID != s.wanted.NodeUID: // an older CRD may have dropped the latter
		return topsv1.OperationAborted, ReasonNodeReplaced, "the Node object is not the one that the operation is about"
	case !n.Ready && !s.f.Now.Before(lostAt(s)):
		return s.blame(), ReasonNodeLost, fmt.Sprintf("the node was not Ready for %s", s.limits.lost)
	case !awaits(s) && !s.f.Now.Before(endsAt(s)):
		phase := s.blame()
		if s.f.Drained.Ending && !driverIsUnproven(s) { // a drain, which defers it
			phase = topsv1.OperationDeferred
		}
		return phase, ReasonOperationDeadline, fmt.Sprintf("the operation is not done after %s", s.f.Now.Sub(recordedAt(s.f, s.op.StartTime.Time)).Round(time.Second))
	}
	for t := range s.job.All() {
		if text := rowOf(t).superseded(s, t); text != "" {
			return topsv1.OperationAborted, ReasonTargetChanged, text
		}
	}
	return "", "", ""
}

// limitOfAll is how long the operation may take: by default two hours, and as much more as its policy allows its tasks more than the defaults.
func limitOfAll(s *snapshot) time.Duration {
	if s.limits.operation > 0 {
		return s.limits.operation
	}
	byDefault, more := *s, time.Duration(0)
	byDefault.limits = limitsOf(&topsv1.NodeOperation{})
	for t := range s.job.All() {
		more += rowOf(t).deadline(s, verdict{}).after - rowOf(t).deadline(&byDefault, verdict{}).after
	}
	return standardLimit + max(0, more)
}

// endsAt is the deadline of the operation. After a break there is time for one more pod. It does not end while the node may be back in
// time, and begins anew when it is back; that adds the time for which a node may be offline at most.
func endsAt(s *snapshot) time.Time {
	limit := limitOfAll(s)
	end := recordedAt(s.f, s.op.StartTime.Time).Add(limit)
	back := recordedAt(s.f, s.f.Node.Since).Add(limit)
	if !s.f.Node.Ready {
		back = lostAt(s)
	} else if last := end.Add(s.limits.lost); back.After(last) {
		back = last
	}
	return latest(end, back, s.f.WorkedSince.Add(s.limits.progress))
}

// lostAt is when a node that is not Ready counts as lost.
func lostAt(s *snapshot) time.Time {
	return latest(recordedAt(s.f, s.f.Node.Since), s.f.WorkedSince).Add(s.limits.lost)
}

// awaits reports whether the operation is prepared and waits for its slot, for which there is
// no deadline.
func awaits(s *snapshot) bool { return !s.op.Granted && s.op.PreparedTime != nil }
