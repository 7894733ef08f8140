package gcuresource

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

const whyHalted = "1 of 1 started nodes failed (node-1): repair it"

// halted is a rollout of the gr "gpu" that is halted, with this done to it.
func halted(changes ...func(*topsv1.DaemonRollout)) *topsv1.DaemonRollout {
	rollout := &topsv1.DaemonRollout{Spec: topsv1.DaemonRolloutSpec{TargetRef: topsv1.TargetRef{Kind: topsv1.GcuResourceKind, Name: "gpu"}}}
	rollout.Status.Revision = "bad"
	rollout.Status.Conditions = []metav1.Condition{{Type: topsv1.RolloutHalted, Status: metav1.ConditionTrue, Reason: "Halted", Message: whyHalted}}
	for _, change := range changes {
		change(rollout)
	}
	return rollout
}

func goesOn(rollout *topsv1.DaemonRollout) {
	rollout.Status.Conditions[0].Status = metav1.ConditionFalse
}

func rollsBack(rollout *topsv1.DaemonRollout) {
	rollout.Status.Rollback = &topsv1.RolloutRollback{From: "bad", To: "good"}
}

func TestHaltsThatWaitForAPerson(t *testing.T) {
	now := metav1.Now()
	tests := []struct {
		name    string
		rollout *topsv1.DaemonRollout
		want    bool
	}{
		{"a rollout that is halted", halted(), true},
		{"one that goes on", halted(goesOn), false},
		{"one that the policy takes back", halted(rollsBack), false},
		{"one that was taken back before, from another revision", halted(rollsBack, func(r *topsv1.DaemonRollout) { r.Status.Rollback.From = "worse" }), true},
		{"one to which it was taken back", halted(rollsBack, func(r *topsv1.DaemonRollout) { r.Status.Rollback.CompletedTime = &now }), true},
		{"that of a DaemonSet of no gr", halted(func(r *topsv1.DaemonRollout) { r.Spec.TargetRef.Kind = "DaemonSet" }), false},
		{"none", &topsv1.DaemonRollout{}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if f := haltOf(tt.rollout); (f != nil) != tt.want || f != nil && f.Message != whyHalted {
				t.Errorf("it says %+v, want one: %t", f, tt.want)
			}
		})
	}
}

func TestAHaltWakesTheGr(t *testing.T) {
	tests := []struct {
		name          string
		before, after *topsv1.DaemonRollout
		want          bool
	}{
		{"it is halted", halted(goesOn), halted(), true},
		{"it goes on", halted(), halted(goesOn), true},
		{"for another reason", halted(), halted(func(r *topsv1.DaemonRollout) { r.Status.Conditions[0].Message = "2 of 2" }), true},
		{"of another spec", halted(), halted(func(r *topsv1.DaemonRollout) { r.Status.Targets = []topsv1.RevisionTarget{{Hash: "next"}} }), true},
		{"a node moved on", halted(), halted(func(r *topsv1.DaemonRollout) { r.Status.Updated++ }), false},
		{"it is taken back", halted(), halted(rollsBack), true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := haltChanged(event.UpdateEvent{ObjectOld: tt.before, ObjectNew: tt.after}); got != tt.want {
				t.Errorf("it wakes the gr: %t", got)
			}
		})
	}
	if got := ofRollout(t.Context(), halted()); len(got) != 1 || got[0].Name != "gpu" {
		t.Errorf("it wakes %v", got)
	}
}

func TestAHaltIsAboutOneSpec(t *testing.T) {
	tests := []struct {
		name   string
		change func(obs *Observation, ds *appsv1.DaemonSet)
		want   bool
	}{
		{"the newest", func(*Observation, *appsv1.DaemonSet) {}, true},
		{"not one that the DaemonSet does not have yet", func(obs *Observation, _ *appsv1.DaemonSet) { obs.Resource.Spec = driverAt("v2") }, false},
		{"not one whose template has no revision yet", func(_ *Observation, ds *appsv1.DaemonSet) { ds.Generation++ }, false},
		{"not one that the rollout has not seen", func(obs *Observation, _ *appsv1.DaemonSet) { obs.newTemplate("driver") }, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			obs := newWorld(t, newGR(driverAt("v1")), 1)
			obs.run("driver")
			ds := obs.component("driver").DaemonSet
			ds.Annotations = map[string]string{topsv1.AnnotationRevision: nameAt(t, "v1")}
			rollout := halted(func(r *topsv1.DaemonRollout) {
				r.Status.Targets = []topsv1.RevisionTarget{{DaemonSet: ds.Namespace + "/" + ds.Name, Hash: "old"}}
			})
			tt.change(obs, ds)
			if got := isAbout(rollout, obs); got != tt.want {
				t.Errorf("it is about the newest spec: %t", got)
			}
		})
	}
}

// A gr whose rollout is halted says so, and what to do, until it goes on.
func TestAGrTellsOfItsHalt(t *testing.T) {
	obs := restored(t)
	obs.Halt = haltOf(halted())
	got := obs.next()
	if c := action(got, "rollback"); c.Status != "rollbacking" || c.Reason != ReasonHalted {
		t.Errorf("rollback %+v", c)
	}
	for kind, want := range map[string]string{
		ConditionDegraded:    "True Halted: " + whyHalted,
		ConditionProgressing: "False Halted: back to " + nameAt(t, "v1") + ": 1 of 2 pods at the newest revision; halted: " + whyHalted,
	} {
		if s := standard(got, kind); s != want {
			t.Errorf("%s %q, want %q", kind, s, want)
		}
	}
	if told := notes(&topsv1.GcuResourceStatus{Phase: got.Phase}, &got); len(told) != 0 {
		t.Errorf("events %+v, which the rollout sends", told)
	}
	obs.Resource.Status, obs.Halt = got, nil
	if s := standard(obs.next(), ConditionDegraded); s != "False AsExpected: nothing is wrong" {
		t.Errorf("when it goes on: Degraded %q", s)
	}
}
