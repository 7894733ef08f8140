package nodeupgrade

import (
	"testing"
	"time"
)

// A controller that starts with a clock that is ahead does not take a new state for an old one.
func TestTheControllerKnowsThatItsClockIsAhead(t *testing.T) {
	const off = 3 * time.Hour
	r := New(Options{Ahead: func(time.Time) time.Duration { return off }})
	now := time.Now()
	if since := r.observer.stateTimes.Since("x", now.Add(-off), now); !since.Equal(now) {
		t.Errorf("a state that began just now lasts since %s ago", now.Sub(since))
	}
}
