package daemonset

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// MaxSkew bounds how far the clock that wrote a time may be behind the reader's, when the reader
// did not see the time change: three minutes for each of the two.
const MaxSkew = 6 * time.Minute

// StateTimes say since when, by the reader's own clock, a state lasts whose begin another clock
// wrote. A changed time is a new state, which begins when it is first seen. The zero value has
// seen nothing; a nil one trusts every clock.
type StateTimes struct {
	mu   sync.Mutex
	seen map[string]*stateTime
	// forgotten is when it last forgot what is not asked for any more.
	forgotten time.Time
}

// stateTime is a time as written, and when it was first and last seen.
type stateTime struct{ written, first, last time.Time }

// stateTimeTTL is how long a state is remembered after its last use. It exceeds MaxSkew, so
// that what is forgotten does not become new.
const stateTimeTTL = time.Hour

// Since returns since when the state named by key lasts, whose begin is written down: since it was
// first seen, but at most MaxSkew later than written, and not later than now.
func (s *StateTimes) Since(key string, written, now time.Time) time.Time {
	if s == nil {
		return written
	}
	since := s.first(key, written, now)
	for _, bound := range []time.Time{written.Add(MaxSkew), now} {
		if bound.Before(since) {
			since = bound
		}
	}
	return since
}

// first returns when a state was first seen.
func (s *StateTimes) first(key string, written, now time.Time) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(now)
	known := s.seen[key]
	if known == nil || !known.written.Equal(written) {
		known = &stateTime{written: written, first: now}
		s.seen[key] = known
	}
	known.last = now
	return known.first
}

// forget forgets from time to time what is not asked for any more.
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

// AvailableSince returns since when a pod is available, by the clock of the reader and counted from
// the first time, and when it last became so by the clock of the kubelet. Both are zero for a pod
// that is not Ready, or was created an hour ago or more.
func (s *StateTimes) AvailableSince(pod *corev1.Pod, minReadySeconds int32, now time.Time) (since, written time.Time) {
	created := pod.CreationTimestamp.Time
	if pod.DeletionTimestamp != nil || !IsReady(pod) || now.Sub(created) >= stateTimeTTL {
		return time.Time{}, time.Time{}
	}
	ready := time.Duration(minReadySeconds) * time.Second
	written = condition(pod, corev1.PodReady).LastTransitionTime.Add(ready)
	if s == nil {
		return written, written
	}
	return s.Since("new "+string(pod.UID), created.Add(usualStart), now).Add(ready), written
}

// NodeReady returns whether a node is Ready, and since when.
func (s *StateTimes) NodeReady(node *corev1.Node, now time.Time) (ready bool, since time.Time) {
	ready, written := NodeReady(node)
	return ready, s.Since("node "+string(node.UID), written.Time, now)
}

// NotReadySince returns since when a pod is not Ready, zero if it is Ready.
func (s *StateTimes) NotReadySince(pod *corev1.Pod, now time.Time) time.Time {
	written := NotReadySince(pod)
	if written.IsZero() {
		return time.Time{}
	}
	return s.Since("unready "+string(pod.UID), written.Time, now)
}

// MissingSince returns since when something is missing: since it was first seen to be, because nothing
// records when it went; zero if it is there, or for nil.
func (s *StateTimes) MissingSince(key string, missing bool, now time.Time) time.Time {
	key = "missing " + key
	switch {
	case s == nil:
		return time.Time{}
	case missing:
		return s.first(key, time.Time{}, now)
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
