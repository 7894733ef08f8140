package retry

import (
	"testing"
	"time"
)

func TestSooner(t *testing.T) {
	for _, tt := range []struct{ a, b, want time.Duration }{{0, 0, 0}, {0, 2, 2}, {1, 0, 1}, {1, 2, 1}, {2, 1, 1}} {
		if got := Sooner(tt.a, tt.b); got != tt.want {
			t.Errorf("Sooner(%d, %d) = %d, want %d: 0 is never", tt.a, tt.b, got, tt.want)
		}
	}
}
