package report

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/test/fixture"
)

func TestOnlyMovedMayBeReportedLater(t *testing.T) {
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
			if got := OnlyMoved(before, after); got != tt.want {
				t.Errorf("onlyMoved = %v, want %v", got, tt.want)
			}
		})
	}
}

func TestARollbackIsStoredBeforeAnythingElse(t *testing.T) {
	for name, change := range map[string]func(*topsv1.DaemonRolloutStatus){
		"a rollback":                 func(s *topsv1.DaemonRolloutStatus) { s.Rollback = &topsv1.RolloutRollback{To: "r1"} },
		"a last known good revision": func(s *topsv1.DaemonRolloutStatus) { s.LastKnownGood = fixture.GoodAt("r1", fixture.OldHash) },
	} {
		var before, after topsv1.DaemonRolloutStatus
		change(&after)
		if !MustPrecede(&before, &after) || MustPrecede(&after, after.DeepCopy()) {
			t.Errorf("%s: stored before %v, again %v", name, MustPrecede(&before, &after), MustPrecede(&after, after.DeepCopy()))
		}
	}
}

func TestMustPrecede(t *testing.T) {
	stored := func() *topsv1.DaemonRolloutStatus {
		return &topsv1.DaemonRolloutStatus{Revision: "r2", Touched: 2, Total: 3, Failed: []topsv1.NodeNote{{Node: "f"}}, InFlight: []topsv1.NodeSlot{
			{Node: "a", UID: "ua", Revision: "r2", PodUID: "pa"}, {Node: "b", UID: "ub", Revision: "r2", PodUID: "pb"}}}
	}
	tests := []struct {
		name   string
		change func(*topsv1.DaemonRolloutStatus)
		want   bool
	}{
		{"not a status that is the same", func(*topsv1.DaemonRolloutStatus) {}, false},
		{"not counts and conditions", func(s *topsv1.DaemonRolloutStatus) {
			s.Updated, s.Pending, s.Conditions = 9, 9, []metav1.Condition{{Type: "Progressing"}}
		}, false},
		{"not the usual pace nor how far the waves are", func(s *topsv1.DaemonRolloutStatus) {
			s.UsualSeconds, s.ETASeconds, s.Waves = 9, 9, []topsv1.WaveStatus{{Name: "first", Updated: 1}, {Name: "rest"}}
		}, false},
		{"not a finished slot that is only dropped", func(s *topsv1.DaemonRolloutStatus) { s.InFlight = s.InFlight[1:] }, false},
		{"not the last slot that is dropped", func(s *topsv1.DaemonRolloutStatus) { s.InFlight = nil }, false},
		{"a new slot", func(s *topsv1.DaemonRolloutStatus) {
			s.InFlight = append(s.InFlight, topsv1.NodeSlot{Node: "c", UID: "uc", Revision: "r2"})
		}, true},
		{"a new slot in the place of a finished one", func(s *topsv1.DaemonRolloutStatus) {
			s.InFlight[0] = topsv1.NodeSlot{Node: "c", UID: "uc", Revision: "r2", PodUID: "pc"}
		}, true},
		{"the intent to delete the next pod", func(s *topsv1.DaemonRolloutStatus) { s.InFlight[1].PodUID = "pb2" }, true},
		{"a slot that now is another node object's", func(s *topsv1.DaemonRolloutStatus) { s.InFlight[0].UID = "ua2" }, true},
		{"a slot brought to another revision", func(s *topsv1.DaemonRolloutStatus) { s.InFlight[0].Revision = "r3" }, true},
		{"another revision", func(s *topsv1.DaemonRolloutStatus) { s.Revision = "r3" }, true},
		{"not another number of touched nodes", func(s *topsv1.DaemonRolloutStatus) { s.Touched = 3 }, false},
		{"another turn", func(s *topsv1.DaemonRolloutStatus) { s.InFlight[0].Turn = 7 }, true},
		{"another version of the pod", func(s *topsv1.DaemonRolloutStatus) { s.InFlight[0].PodVersion = "7" }, true},
		{"a node that is put back into the queue", func(s *topsv1.DaemonRolloutStatus) { s.Queued, s.InFlight = s.InFlight[:1], s.InFlight[1:] }, true},
		{"a word with which a person resumed", func(s *topsv1.DaemonRolloutStatus) { s.Resumed = "monday" }, true},
		{"a failure", func(s *topsv1.DaemonRolloutStatus) { s.Failed = append(s.Failed, topsv1.NodeNote{Node: "g"}) }, true},
		{"a failure that is forgotten", func(s *topsv1.DaemonRolloutStatus) { s.Failed = nil }, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			next := stored()
			tt.change(next)
			if got := MustPrecede(stored(), next); got != tt.want {
				t.Errorf("mustPrecede = %v, want %v", got, tt.want)
			}
		})
	}
}
