package nodeupgrade

import (
	"testing"
	"time"
)

// A time with a reading of the monotonic clock would hide that the wall clock jumped, by which all recorded times are.
func TestWorkTimesAreByTheWallClock(t *testing.T) {
	times := workTimes{nodes: map[string]workTime{}}
	now := time.Now()
	if since := times.since("node", now); since != now.Round(0) || times.nodes["node"].last != now.Round(0) {
		t.Errorf("since %v, last %v: they have a reading of the monotonic clock", since, times.nodes["node"].last)
	}
	if since := times.since("node", now.Round(0).Add(time.Minute)); !since.Equal(now) {
		t.Errorf("since %v, want %v", since, now)
	}
	for _, by := range []time.Duration{3 * time.Hour, -3 * time.Hour} {
		now = now.Round(0).Add(by)
		if since := times.since("node", now); !since.Equal(now) {
			t.Errorf("since %v after a jump by %s, want %v", since, by, now)
		}
	}
}
