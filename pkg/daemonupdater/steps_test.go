package daemonupdater

import (
	"testing"
	"time"
)

func TestSoonest(t *testing.T) {
	for _, tt := range []struct{ a, b, want time.Duration }{{0, 0, 0}, {0, 2, 2}, {1, 0, 1}, {1, 2, 1}, {2, 1, 1}} {
		if got := soonest(tt.a, tt.b); got != tt.want {
			t.Errorf("soonest(%d, %d) = %d, want %d: 0 is never", tt.a, tt.b, got, tt.want)
		}
	}
}
