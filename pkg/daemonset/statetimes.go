package daemonset

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// MaxSkew bounds how far the clock that wrote a time may be behind the reader's, when the reader
// did not see the time change: three minutes for each of the two.
const MaxSkew = 6 * time.Minute

// foreignClock is how far ahead a recorded time may be by chance: managers whose clocks are kept hand over within it.
const foreignClock = time.Minute

// IsAhead reports whether a time that a manager recorded is of a clock ahead of the reader's: another manager's, or its own
// before that was set back. What waits for such a time would wait for as long as the clocks are apart.
func IsAhead(recorded, now time.Time) bool { return recorded.After(now.Add(foreignClock)) }

// StateTimes converts the start of states, which other clocks wrote, to the reader's own clock. A
// changed time is a new state, which starts when it is first seen. The zero value has seen nothing; a nil
// one trusts every clock.
//
// In two cases a state that was not seen to start is taken for too old: the clock that wrote it is hours behind that of the
// API server, or the reader's clock is hours ahead and a proxy sets the Date of responses. Then minReadySeconds,
// returnedSeconds, and the time for which a node is unavailable, or has worked since it failed, are not waited for.
type StateTimes struct {
	// Ahead, if set, returns how far the reader's clock, which is at now, is ahead of the API server's. That clock, which
	// kubelets share more or less, gives the age of a state that was not seen to start.
	Ahead func(now time.Time) time.Duration

	mu   sync.Mutex
	seen map[string]*stateTime
	// forgotten is when unused states were last forgotten.
	forgotten time.Time
}

// stateTime is a time as written, and when it was first and last seen. begun: the state was seen to start.
// opposite: this is the opposite state, which another clock may have written with the same second.
type stateTime struct {
	written, first, last time.Time
	begun, opposite      bool
}

// stateTimeTTL is how long a state is remembered after its last use. It exceeds MaxSkew, so
// that what is forgotten does not become new.
const stateTimeTTL = time.Hour

// Since returns when the state named by key started, given the start that was written: when it was first seen, but,
// unless it was seen to start, at most MaxSkew later than written, and not later than now. A reader whose
// clock is Ahead allows for that.
func (s *StateTimes) Since(key string, written, now time.Time) time.Time {
	return s.since(key, stateTime{written: written}, now)
}

func (s *StateTimes) since(key string, state stateTime, now time.Time) time.Time {
	written := state.written
	if s == nil {
		return written
	}
	known := s.look(key, state, now)
	since := known.first
	if bound := written.Add(MaxSkew + s.ahead(now)); bound.Before(since) && !known.begun {
		since = now.Add(bound.Sub(now)) // with a reading of the monotonic clock, by which nothing jumps
	}
	if now.Before(since) {
		since = now
	}
	return since
}

// ahead returns how far the reader's clock is ahead of that of the API server, 0 if it is behind or nothing is known.
func (s *StateTimes) ahead(now time.Time) time.Duration {
	if s == nil || s.Ahead == nil {
		return 0
	}
	return max(0, s.Ahead(now))
}

// look returns what is known of a state that is seen now.
func (s *StateTimes) look(key string, state stateTime, now time.Time) stateTime {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(now)
	known := s.seen[key]
	if known == nil || !known.written.Equal(state.written) || known.opposite != state.opposite {
		known = &stateTime{written: state.written, opposite: state.opposite, first: now, begun: known != nil}
		s.seen[key] = known
	}
	known.last = now
	return *known
}

// lacks notes that a state does not last now, unless it is known: so it will be seen to begin, whatever is written then.
func (s *StateTimes) lacks(key string, now time.Time) {
	if s != nil && s.known(key) == nil {
		s.look(key, stateTime{}, now)
	}
}

// known returns what is known of a state, nil for nothing.
func (s *StateTimes) known(key string) *stateTime {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen[key] == nil {
		return nil
	}
	known := *s.seen[key]
	return &known
}

// forget drops, from time to time, states that have not been used for stateTimeTTL.
func (s *StateTimes) forget(now time.Time) {
	if s.seen == nil {
		s.seen = map[string]*stateTime{}
	}
	if now.Sub(s.forgotten).Abs() < stateTimeTTL {
		return
	}
	s.forgotten = now
	for key, known := range s.seen {
		if now.Sub(known.last).Abs() > stateTimeTTL {
			delete(s.seen, key)
		}
	}
}

// Availability reports whether a pod is available: Ready for minReadySeconds and not being
// deleted. If only time is missing, wait is how long, otherwise 0.
func (s *StateTimes) Availability(pod *corev1.Pod, minReadySeconds int32, now time.Time) (available bool, wait time.Duration) {
	if pod.DeletionTimestamp != nil || !IsReady(pod) {
		if minReadySeconds > 0 {
			s.lacks("ready "+string(pod.UID), now)
		}
		return false, 0
	}
	ready := condition(pod, corev1.PodReady)
	if minReadySeconds == 0 {
		return true, 0
	}
	if ready.LastTransitionTime.IsZero() {
		return false, 0
	}
	since := s.Since("ready "+string(pod.UID), ready.LastTransitionTime.Time, now)
	left := since.Add(time.Duration(minReadySeconds) * time.Second).Sub(now)
	return left <= 0, max(0, left)
}

// usualStart bounds how long after its creation a pod is usually available.
const usualStart = 10 * time.Minute

// AvailableSince returns when a pod first became available, by the clock of the reader, and when it last
// became available, by the clock of the kubelet. Both are zero for a pod
// that is not Ready, or that is at least an hour old and was not seen to become Ready.
func (s *StateTimes) AvailableSince(pod *corev1.Pod, minReadySeconds int32, now time.Time) (since, written time.Time) {
	created, key := pod.CreationTimestamp.Time, "new "+string(pod.UID)
	if pod.DeletionTimestamp != nil || !IsReady(pod) {
		s.lacks(key, now)
		return time.Time{}, time.Time{}
	}
	if now.Sub(created)-s.ahead(now) >= stateTimeTTL && !s.isNew(key, now) {
		return time.Time{}, time.Time{}
	}
	ready := time.Duration(minReadySeconds) * time.Second
	written = condition(pod, corev1.PodReady).LastTransitionTime.Add(ready)
	if s == nil {
		return written, written
	}
	return s.Since(key, created.Add(usualStart), now).Add(ready), written
}

// ReadySince returns since when a pod has been Ready without a break, however old it is; zero if it is not Ready. If that was at least
// an hour ago, it is by the clock of the kubelet.
func (s *StateTimes) ReadySince(pod *corev1.Pod, now time.Time) time.Time {
	key := "again " + string(pod.UID)
	if !IsReady(pod) {
		s.lacks(key, now)
		return time.Time{}
	}
	written := condition(pod, corev1.PodReady).LastTransitionTime.Time
	if now.Sub(written)-s.ahead(now) >= stateTimeTTL && !s.isNew(key, now) {
		return written
	}
	return s.Since(key, written, now)
}

// isNew reports whether a state was seen to start less than an hour ago, or is seen to start now.
func (s *StateTimes) isNew(key string, now time.Time) bool {
	if s == nil {
		return false
	}
	known := s.known(key)
	return known != nil && (known.written.IsZero() || known.begun && now.Sub(known.first) < stateTimeTTL)
}

// NodeReady reports whether a node is Ready, when that last changed, and when it may have changed at the earliest.
func (s *StateTimes) NodeReady(node *corev1.Node, now time.Time) (ready bool, since, earliest time.Time) {
	ready, written := NodeReady(node)
	key := "node " + string(node.UID)
	since = s.since(key, stateTime{written: written.Time, opposite: !ready}, now)
	return ready, since, s.earliest(key, since, written.Time)
}

// NotReadySince returns when a pod became not Ready, and when at the earliest; zero if it is Ready. That it becomes so is seen if it
// was seen to be Ready within an hour of its creation, or to wait at the gate: there it cannot be Ready, and its time begins when it is released.
func (s *StateTimes) NotReadySince(pod *corev1.Pod, now time.Time) (since, earliest time.Time) {
	key, written := "unready "+string(pod.UID), NotReadySince(pod)
	switch gated := AwaitsUpgrade(pod); {
	case gated && s != nil:
		s.look(key, stateTime{}, now) // each time, so that it is not forgotten
		return time.Time{}, time.Time{}
	case gated || written.IsZero():
		if now.Sub(pod.CreationTimestamp.Time)-s.ahead(now) < stateTimeTTL {
			s.lacks(key, now)
		}
		return time.Time{}, time.Time{}
	}
	since = s.Since(key, written.Time, now)
	return since, s.earliest(key, since, written.Time)
}

// earliest returns when a state that lasts since a time may have started at the earliest: then if it was seen to start, otherwise
// not later than written.
func (s *StateTimes) earliest(key string, since, written time.Time) time.Time {
	if s != nil && s.known(key).begun || since.Before(written) {
		return since
	}
	return written
}

// GraceEnd returns when the grace period of a pod ends; zero if it is not being deleted.
func (s *StateTimes) GraceEnd(pod *corev1.Pod, now time.Time) time.Time {
	key := "deleted " + string(pod.UID)
	if pod.DeletionTimestamp == nil {
		s.lacks(key, now)
		return time.Time{}
	}
	began := DeletedAt(pod)
	return s.Since(key, began, now).Add(pod.DeletionTimestamp.Sub(began))
}

// MissingSince returns when something was first seen to be missing, because nothing records when it
// went; zero if it is there, or if s is nil.
func (s *StateTimes) MissingSince(key string, missing bool, now time.Time) time.Time {
	key = "missing " + key
	switch {
	case s == nil:
		return time.Time{}
	case missing:
		return s.look(key, stateTime{}, now).first
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.seen, key)
	return time.Time{}
}

// Availability is that of StateTimes, by the clocks of the reader and of the kubelet.
func Availability(pod *corev1.Pod, minReadySeconds int32, now time.Time) (available bool, wait time.Duration) {
	return (*StateTimes)(nil).Availability(pod, minReadySeconds, now)
}
