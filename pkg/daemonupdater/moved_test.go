package daemonupdater

import (
	"testing"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

func TestOnlyMovedIsWhatCanWaitToBeTold(t *testing.T) {
	tests := []struct {
		name   string
		change func(*topsv1.DaemonRolloutStatus)
		want   bool
	}{
		{"15 of 200 nodes are updated", func(s *topsv1.DaemonRolloutStatus) { s.Updated = 65 }, true},
		{"16 of 200 nodes are updated", func(s *topsv1.DaemonRolloutStatus) { s.Updated = 66 }, false},
		{"a node of 20 is updated", func(s *topsv1.DaemonRolloutStatus) { s.Total, s.Updated = 20, 51 }, false},
		{"another node is in flight", func(s *topsv1.DaemonRolloutStatus) { s.InFlightNodes++ }, true},
		{"a node is skipped", func(s *topsv1.DaemonRolloutStatus) { s.SkippedNodes++ }, false},
		{"a node is held", func(s *topsv1.DaemonRolloutStatus) { s.HeldNodes++ }, false},
		{"a node failed", func(s *topsv1.DaemonRolloutStatus) { s.FailedNodes++ }, false},
		{"the limit is another", func(s *topsv1.DaemonRolloutStatus) { s.MaxUnavailable++ }, false},
		{"the state is another", func(s *topsv1.DaemonRolloutStatus) { s.Conditions[1].Reason = "Paused" }, false},
		{"the sentence is another", func(s *topsv1.DaemonRolloutStatus) { s.Conditions[1].Message = "on we go" }, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before := rollingOut()
			before.Total, before.Updated = 200, 50
			after := before.DeepCopy()
			tt.change(after)
			before.Total = after.Total
			if got := onlyMoved(before, after); got != tt.want {
				t.Errorf("onlyMoved = %v, want %v", got, tt.want)
			}
		})
	}
}
