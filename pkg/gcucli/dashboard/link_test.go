package dashboard

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestALinkAsksRarelyAndAtOnceWhenItIsLost(t *testing.T) {
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	refused := errors.New("connection refused")
	for _, tt := range []struct {
		name  string
		last  error
		after time.Duration
		asks  bool
	}{
		{"soon after an answer", nil, time.Second, false},
		{"long after an answer", nil, reachEvery, true},
		{"soon after it was lost", refused, time.Second, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			answer, asked := tt.last, 0
			l := NewLink(func(ctx context.Context) error {
				if _, bounded := ctx.Deadline(); !bounded {
					t.Error("a request may take for ever")
				}
				asked++
				return answer
			})
			if err := l.Look(t.Context(), noon); !errors.Is(err, tt.last) || asked != 1 {
				t.Fatalf("at first it asks %d times: %v", asked, err)
			}
			answer = errors.New("another answer")
			err := l.Look(t.Context(), noon.Add(tt.after))
			if again := asked == 2; again != tt.asks || again != errors.Is(err, answer) {
				t.Errorf("it asks %d times: %v", asked, err)
			}
		})
	}
}
