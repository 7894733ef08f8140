package nodeupgrade

import (
	"testing"
	"time"
)

// A time with a reading of the monotonic clock would hide that the wall clock jumped, by which all recorded times are.
func TestAttendanceIsByTheWallClock(t *testing.T) {
	a := attendance{nodes: map[string]attended{}}
	now := time.Now()
	if since := a.since("node", now); since != now.Round(0) || a.nodes["node"].last != now.Round(0) {
		t.Errorf("since %v, last %v: they have a reading of the monotonic clock", since, a.nodes["node"].last)
	}
	if since := a.since("node", now.Round(0).Add(time.Minute)); !since.Equal(now) {
		t.Errorf("since %v, want %v", since, now)
	}
	for _, by := range []time.Duration{3 * time.Hour, -3 * time.Hour} {
		now = now.Round(0).Add(by)
		if since := a.since("node", now); !since.Equal(now) {
			t.Errorf("since %v after a jump by %s, want %v", since, by, now)
		}
	}
}
