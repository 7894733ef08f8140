package rollout

import "time"

// A deadline, like the soak of a wave, counts the time in which a manager decided. It does not run while no manager ran,
// the group was blocked, or the ledger could not be stored, and it does not jump with a clock:
// when the last stored decision is longer ago than maxGap, by the clock of this manager, or is in
// the future, the deadlines of all slots move by that time.
const (
	// leastGap and mostGap bound maxGap. The least is longer than a status write may be put off.
	leastGap, mostGap = 15 * time.Second, 2 * time.Minute
	// gapShare is the share of a deadline that maxGap is.
	gapShare = 5
	// ticks is how often a decision is stored within maxGap.
	ticks = 4
)

// maxGap returns the longest time between two stored decisions that counts as time worked: a part
// of the shorter deadline, which an absence must not use up.
func (d Deadlines) maxGap() time.Duration {
	return min(mostGap, max(leastGap, min(d.Progress, d.Lost)/gapShare))
}

// tick returns how often a decision is stored while nodes are in flight or a wave soaks, though
// nothing else changed.
func (d Deadlines) tick() time.Duration { return d.maxGap() / ticks }

// idleTime returns for how long nothing was decided before this decision, negative if the clock
// went back.
func idleTime(in *Input) time.Duration {
	gap := in.Now.Sub(in.Ledger.Decided)
	if in.Ledger.Decided.IsZero() || gap.Abs() <= in.Deadlines.maxGap() {
		return 0
	}
	return gap
}

// skipIdleTime moves the deadlines of a slot by the time in which nothing was decided. Its node
// has been Ready, or not, since readySince, zero if it is not known: a change in that time counts
// from now.
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

// wait moves the deadlines of a slot whose node is available: it waits for the manager.
func (s *Slot) wait(in *Input) {
	if since := in.Now.Sub(s.Progress); since >= in.Deadlines.tick() {
		s.Progress, s.Idle = in.Now, s.Idle+since
	}
}

// restart restarts all deadlines of a slot, and notes which pods its node has.
func (s *Slot) restart(now time.Time, pods []Pod) {
	s.Since, s.Progress, s.Idle = now, now, 0
	s.Newest = time.Time{}
	for i := range pods {
		if !pods[i].RivalRuns { // that is not started yet
			s.Newest = later(s.Newest, pods[i].Created)
		}
	}
}

// isNew reports whether a pod was created since the slot was started: after all pods that the
// node had then, by the clock that creates pods.
func (s *Slot) isNew(pod *Pod) bool { return pod.Created.After(s.Newest) }

// most bounds the time in which a node with so many pods is unavailable under one slot.
func (d Deadlines) most(pods int) time.Duration {
	return time.Duration(max(3, pods))*d.Progress + d.Lost
}
