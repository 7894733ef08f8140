package rollout

import (
	"math"
	"time"
)

// A deadline, like the soak of a wave, counts only the time in which a manager decided: not while no manager ran, the
// group was blocked, or the ledger could not be stored. Nor does it jump with a clock: if the last stored decision is
// longer ago than maxGap, by the clock of this manager, or is in the future, the deadlines of all slots move by that time.
const (
	// minGapLimit and maxGapLimit bound maxGap. A status write is never deferred for as long as minGapLimit.
	minGapLimit, maxGapLimit = 15 * time.Second, 2 * time.Minute
	// gapShare: maxGap is a deadline divided by it.
	gapShare = 5
	// ticks is how many decisions are stored within maxGap.
	ticks = 4
)

// maxGap returns the longest time between two stored decisions that still counts for deadlines: a part of the
// shorter deadline, so that an absence of managers does not use it up.
func (d Deadlines) maxGap() time.Duration {
	return min(maxGapLimit, max(minGapLimit, min(d.Progress, d.Lost)/gapShare))
}

// tick returns the interval at which decisions are stored while nodes are in flight or a wave soaks, even if
// nothing else changes.
func (d Deadlines) tick() time.Duration { return d.maxGap() / ticks }

// idleTime returns how long nothing was decided before this decision, negative if the clock was set
// back.
func idleTime(in *Input) time.Duration {
	gap := in.Now.Sub(in.Ledger.Decided)
	if in.Ledger.Decided.IsZero() || gap.Abs() <= in.Deadlines.maxGap() {
		return 0
	}
	return gap
}

// skipIdleTime moves the deadlines of a slot by the time in which nothing was decided. readySince is
// when its node last became Ready, or not Ready, zero if that is not known. If that was in this
// time, the deadline restarts now.
func (s *Slot) skipIdleTime(in *Input, readySince time.Time) {
	idle := idleTime(in)
	switch {
	case s.Progress.IsZero(): // a ledger of an earlier version
		s.Progress, s.Idle, s.Newest = in.Now, max(0, in.Now.Sub(s.Since)), s.Since
		return
	case idle > 0 && readySince.After(in.Ledger.Decided):
		s.Progress = in.Now
	case idle > 0:
		s.Progress = later(s.Progress, readySince).Add(idle)
	default:
		s.Progress = s.Progress.Add(idle)
	}
	s.Idle = max(0, s.Idle+idle)
}

// wait moves the deadlines of a slot whose node is available and only waits for the manager, or whose deletion is denied.
func (s *Slot) wait(in *Input) {
	if since := in.Now.Sub(s.Progress); since >= in.Deadlines.tick() {
		s.Progress, s.Idle = in.Now, s.Idle+since
	}
}

// restart restarts all deadlines of a slot, and records the newest pod of its node.
func (s *Slot) restart(now time.Time, pods []Pod) {
	s.Since, s.Progress, s.Idle = now, now, 0
	s.Newest = time.Time{}
	for i := range pods {
		if !pods[i].RivalRuns { // such a pod is not started yet
			s.Newest = later(s.Newest, pods[i].Created)
		}
	}
}

// isNew reports whether a pod was created after the slot was started: later than all pods that the node had
// then, by the clock of the API server.
func (s *Slot) isNew(pod *Pod) bool { return pod.Created.After(s.Newest) }

// maxTotal bounds how long a node with the given number of pods may be unavailable under one slot. The deadlines of a policy
// may be of decades.
func (d Deadlines) maxTotal(pods int) time.Duration {
	times := time.Duration(max(3, pods))
	if d.Progress > (math.MaxInt64-d.Lost)/times {
		return math.MaxInt64
	}
	return times*d.Progress + d.Lost
}
