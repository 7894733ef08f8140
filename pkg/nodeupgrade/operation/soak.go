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

func (k soak) done(f *Facts, t upgradeplan.Task) bool {
	_, text := k.lasting(f, t)
	return text == ""
}

func (k soak) attempt(c *changes, t upgradeplan.Task) verdict {
	at, text := k.lasting(c.Facts, t)
	if !at.IsZero() {
		c.at(at)
	}
	return waiting(ReasonInProgress, "%s", text)
}

func (soak) deadline(f *Facts, _ verdict) deadline {
	return deadline{f.limits.soak + f.limits.progress, f.blame(), ReasonSoakFailed}
}

// lasting returns when the soak ends if nothing happens, and what it waits for, "" when it is
// done.
func (soak) lasting(f *Facts, t upgradeplan.Task) (until time.Time, text string) {
	rec := f.recorded(t)
	if rec.StartTime == nil {
		return time.Time{}, "it has not started"
	}
	from := latest(f.recordedAt(rec.StartTime.Time), f.WorkedSince)
	for _, target := range f.Wanted.Targets {
		for _, of := range f.replaced(target.Component) {
			pod := of.pod()
			if of.leaves() && (pod == nil || pod.Placeholder) {
				continue
			}
			if pod == nil || pod.Terminating || !pod.Available {
				return time.Time{}, fmt.Sprintf("the pod of %s is not available", target.Component)
			}
			from = latest(from, f.recordedAt(pod.Since))
		}
	}
	until = from.Add(f.limits.soak)
	if f.Now.Before(until) {
		return until, fmt.Sprintf("all pods have to stay available for %s", f.limits.soak)
	}
	return until, ""
}
