package nodeupgrade

import (
	"testing"
	"time"

	"github.com/topsops/gcu-operator/pkg/nodeupgrade/operation"
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

// A pass may take long, such as one whose evictions are not answered: then the manager works, and its deadlines count.
func TestAPassIsNoBreak(t *testing.T) {
	times := workTimes{nodes: map[string]workTime{}}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	first := times.since("node", now)
	for range 3 {
		const pass = 2 * operation.LongestBreak
		times.worked("node", pass)
		now = now.Add(pass + time.Second)
		if since := times.since("node", now); since != first {
			t.Errorf("since %v, want %v", since, first)
		}
	}
	times.worked("node", -3*time.Hour) // by a clock without a monotonic reading that was set back
	now = now.Add(-3 * time.Hour)
	if since := times.since("node", now); since.After(now) {
		t.Errorf("since %v, which is after %v", since, now)
	}
	times.end("node")
	times.worked("node", time.Second)
	if len(times.nodes) != 0 {
		t.Error("a node without an operation is remembered")
	}
}
