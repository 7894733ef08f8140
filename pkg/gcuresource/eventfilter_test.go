package gcuresource

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/event"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/test/world"
)

func TestAHaltWakesTheGr(t *testing.T) {
	tests := []struct {
		name          string
		before, after *topsv1.DaemonRollout
		want          bool
	}{
		{"it is halted", world.Halted(world.GoesOn), world.Halted(), true},
		{"it goes on", world.Halted(), world.Halted(world.GoesOn), true},
		{"for another reason", world.Halted(), world.Halted(func(r *topsv1.DaemonRollout) { r.Status.Conditions[0].Message = "2 of 2" }), true},
		{"of another spec", world.Halted(), world.Halted(func(r *topsv1.DaemonRollout) { r.Status.Targets = []topsv1.RevisionTarget{{Hash: "next"}} }), true},
		{"a node moved on", world.Halted(), world.Halted(func(r *topsv1.DaemonRollout) { r.Status.Updated++ }), false},
		{"it is taken back", world.Halted(), world.Halted(world.RollsBack), true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := haltChanged(event.UpdateEvent{ObjectOld: tt.before, ObjectNew: tt.after}); got != tt.want {
				t.Errorf("it wakes the gr: %t", got)
			}
		})
	}
	if got := ofRollout(t.Context(), world.Halted()); len(got) != 1 || got[0].Name != "gpu" {
		t.Errorf("it wakes %v", got)
	}
}
