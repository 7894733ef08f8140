package operation

import (
	"fmt"
	"time"

	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

// soak gives faults time to show. It is done when the pods of all targets have stayed
// available for the soak time; a restart of one starts it anew, and so does a time without a
// manager, or a clock that jumps. A missed deadline (the soak
// time plus the progress deadline) fails the operation.
type soak struct{ base }

func (k soak) done(s *snapshot, t upgradeplan.Task) bool {
	_, text := k.lasting(s, t)
	return text == ""
}

func (k soak) attempt(c *changes, t upgradeplan.Task) verdict {
	at, text := k.lasting(c.snapshot, t)
	if !at.IsZero() {
		c.at(at)
	}
	return waiting(ReasonInProgress, "%s", text)
}

func (soak) deadline(s *snapshot, _ verdict) deadline {
	return deadline{s.limits.soak + s.limits.progress, s.blame(), ReasonSoakFailed}
}

// lasting returns when the soak ends if nothing happens, and what it waits for, "" when it is
// done.
func (soak) lasting(s *snapshot, t upgradeplan.Task) (until time.Time, text string) {
	rec := s.recorded(t)
	if rec.StartTime == nil {
		return time.Time{}, "it has not started"
	}
	from := latest(recordedAt(s.f, rec.StartTime.Time), s.f.WorkedSince)
	for _, target := range s.wanted.Targets {
		for _, of := range s.replaced(target.Component) {
			pod := of.pod()
			if of.leaves() && (pod == nil || pod.Placeholder) {
				continue
			}
			if pod == nil || pod.Terminating || !pod.Available {
				return time.Time{}, fmt.Sprintf("the pod of %s is not available", target.Component)
			}
			from = latest(from, recordedAt(s.f, pod.Since))
		}
	}
	until = from.Add(s.limits.soak)
	if s.f.Now.Before(until) {
		return until, fmt.Sprintf("all pods have to stay available for %s", s.limits.soak)
	}
	return until, ""
}
