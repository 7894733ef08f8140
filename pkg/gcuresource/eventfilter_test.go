package gcuresource

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/event"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/test/world"
)

func TestOnlyWhatConcernsCardsWakesTheGr(t *testing.T) {
	const refused = "run on the node: systemctl restart docker"
	later := func(u *topsv1.NodeUpgrade) {
		u.Status.Host.Time = metav1.NewTime(world.Noon.Add(time.Minute))
		u.Status.Host.FreeDiskBytes = ptr.To[int64](7)
	}
	for _, tt := range []struct {
		name          string
		before, after *topsv1.NodeUpgrade
		want          bool
	}{
		{"an agent reports for the first time", &topsv1.NodeUpgrade{}, world.Reported("n"), true},
		{"an agent reports the same again", world.Reported("n"), world.Reported("n", later), false},
		{"a driver is loaded", world.Reported("n", world.NoDriver), world.Reported("n"), true},
		{"cards are lost", world.Reported("n"), world.Reported("n", func(u *topsv1.NodeUpgrade) { u.Status.Host.Devices = nil }), true},
		{"the engine is restarted", world.Reported("n", world.Runc), world.Reported("n"), true},
		{"the restart is ordered", world.Reported("n", world.Runc), world.Reported("n", world.Runc, world.Operates("Running", "InProgress", "")), true},
		{"the restart is left to a person", world.Reported("n", world.Runc, world.Operates("Running", "InProgress", "")),
			world.Reported("n", world.Runc, world.Operates("Running", "LeftToAdministrator", refused)), true},
		{"an operation goes on before its restart", world.Reported("n", world.Runc, world.Operates("Running", "InProgress", "a")),
			world.Reported("n", world.Runc, world.Operates("Running", "DrainBlocked", "b")), false},
		{"an operation goes on without a restart", world.Reported("n", world.Operates("Running", "InProgress", "")),
			world.Reported("n", world.Operates("Failed", "VerifyFailed", "")), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := hostChanged(event.UpdateEvent{ObjectOld: tt.before, ObjectNew: tt.after}); got != tt.want {
				t.Errorf("it wakes the gr: %t", got)
			}
		})
	}
	offers := func(name corev1.ResourceName, n string) *corev1.Node {
		node := world.GCUNode("n")
		node.Status.Allocatable = corev1.ResourceList{name: resource.MustParse(n)}
		return node
	}
	for name, tt := range map[string]struct {
		before, after *corev1.Node
		want          bool
	}{
		"the first card":     {offers("enflame.com/gcu", "0"), offers("enflame.com/gcu", "8"), true},
		"the last card":      {offers("enflame.com/gcu", "1"), offers("enflame.com/gcu", "0"), true},
		"one card fewer":     {offers("enflame.com/gcu", "8"), offers("enflame.com/gcu", "7"), false},
		"one byte of memory": {offers("memory", "8"), offers("memory", "0"), false},
	} {
		if got := nodeChanged(event.UpdateEvent{ObjectOld: tt.before, ObjectNew: tt.after}); got != tt.want {
			t.Errorf("%s wakes the gr: %t", name, got)
		}
	}
}

func unfinished(r *topsv1.DaemonRollout) {
	r.Status.Conditions = append(r.Status.Conditions, metav1.Condition{Type: topsv1.ConditionReconciling, Status: metav1.ConditionTrue})
}

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
		{"of another spec, with nothing to do", &topsv1.DaemonRollout{}, &topsv1.DaemonRollout{Status: topsv1.DaemonRolloutStatus{Targets: []topsv1.RevisionTarget{{Hash: "next"}}}}, true},
		{"a node moved on", world.Halted(), world.Halted(func(r *topsv1.DaemonRollout) { r.Status.Updated++ }), false},
		{"a spec is rejected", world.Halted(world.GoesOn), world.Halted(world.GoesOn, func(r *topsv1.DaemonRollout) {
			r.Status.Rollback = &topsv1.RolloutRollback{RejectedRevision: "b"}
		}), true},
		{"the last node is finished", world.Halted(world.GoesOn, unfinished), world.Halted(world.GoesOn), true},
		{"a node is finished and others are not", world.Halted(world.GoesOn, unfinished), world.Halted(world.GoesOn, unfinished, func(r *topsv1.DaemonRollout) { r.Status.Updated++ }), false},
		{"it is taken back", world.Halted(), world.Halted(world.RollsBack), true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := rolloutChanged(event.UpdateEvent{ObjectOld: tt.before, ObjectNew: tt.after}); got != tt.want {
				t.Errorf("it wakes the gr: %t", got)
			}
		})
	}
	if got := ofRollout(t.Context(), world.Halted()); len(got) != 1 || got[0].Name != "gpu" {
		t.Errorf("it wakes %v", got)
	}
}
