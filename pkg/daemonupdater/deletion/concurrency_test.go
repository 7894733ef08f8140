package deletion

import (
	"testing"
	"time"
)

func TestFewerPodsAreDeletedAtOnceWhenTheAPIServerIsSlow(t *testing.T) {
	var p Concurrency
	for _, step := range []struct {
		requests int
		took     time.Duration
		want     int
	}{
		{16, 900 * time.Millisecond, 16},
		{16, 3 * time.Second, 8},
		{16, 3 * time.Second, 4}, // two rounds of 1.5 s
		{1, 2 * time.Second, 2},
		{2, 2 * time.Second, 1},
		{1, 2 * time.Second, 1},
		{0, time.Minute, 1},
		{1, time.Millisecond, 2},
		{1, time.Millisecond, 3},
	} {
		if p.Observe(step.requests, step.took); p.Limit() != step.want {
			t.Errorf("after %d requests in %s %d at once, want %d", step.requests, step.took, p.Limit(), step.want)
		}
	}
}
