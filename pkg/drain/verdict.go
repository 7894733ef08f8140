package drain

import "time"

// Phase is how the drain of a node stands.
type Phase string

const (
	// PhaseDone has nothing left to evict.
	PhaseDone Phase = "Done"
	// PhaseGoOn needs another pass.
	PhaseGoOn Phase = "GoOn"
	// PhaseTimedOut took too long: the node is uncordoned and tried again later.
	// That says nothing about the version that was to come (design section 4).
	PhaseTimedOut Phase = "TimedOut"
)

// Verdict says what to do after a pass.
type Verdict struct {
	Phase Phase
	// After is when the next pass is due, at the latest. Zero unless PhaseGoOn.
	After time.Duration
	// Message says what holds the drain, "" when it is done.
	Message string
}

// Judge says after a pass how the drain of a node stands that began at since. A
// node that is empty in time and one that is seen empty late are the same.
func Judge(r Result, p Policy, since, now time.Time) Verdict {
	if r.Done() {
		return Verdict{Phase: PhaseDone}
	}
	left := since.Add(p.timeout).Sub(now)
	if left <= 0 {
		return Verdict{Phase: PhaseTimedOut, Message: r.Message()}
	}
	return Verdict{Phase: PhaseGoOn, After: min(left, RetryInterval), Message: r.Message()}
}
