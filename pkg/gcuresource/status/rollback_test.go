package status

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcuresource/plan"
	"github.com/topsops/gcu-operator/pkg/gcuresource/revision"
	"github.com/topsops/gcu-operator/pkg/gcuresource/state"
	"github.com/topsops/gcu-operator/test/world"
)

func nameAt(t *testing.T, version string) string {
	t.Helper()
	name, err := revision.Name(world.NewGR(world.DriverAt(version)))
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// restored returns a gr whose driver runs on two nodes at an older template, after a spec was
// restored by annotation during its upgrade.
func restored(t *testing.T) *world.World {
	t.Helper()
	gr := world.NewGR(world.DriverAt("v1"))
	gr.Annotations[topsv1.AnnotationUpdateStrategy] = "AdvancedRollingUpdate"
	gr.Annotations[topsv1.AnnotationRolledBackTo] = nameAt(t, "v1")
	gr.Status.Conditions = []topsv1.ActionCondition{
		{Action: "deploy", Type: "deploy", Status: "success", Reason: "success", Message: "success", Progress: 100},
		{Action: "upgrade", Type: "upgrade", Status: "upgrading", Reason: ReasonUpgrading, Progress: 50},
	}
	obs := world.New(t, gr, 2)
	obs.Run("driver")
	obs.NewTemplate("driver", "node-1")
	return obs
}

func TestStatusOfARollback(t *testing.T) {
	obs := restored(t)
	gr := obs.Resource
	to := nameAt(t, "v1")
	got := next(obs)
	if got.Phase != "rollbacking" || got.ResourceStatuses[0].Status != "rollbacking" {
		t.Errorf("phase %s, driver %s, want rollbacking", got.Phase, got.ResourceStatuses[0].Status)
	}
	want := topsv1.ActionCondition{Action: "rollback", Type: "rollback", Status: "rollbacking", Reason: ReasonRollingBack, Progress: 50,
		Message: "back to " + to + ": 1 of 2 pods at the newest revision"}
	if diff := cmp.Diff(want, world.Action(got, "rollback")); diff != "" {
		t.Errorf("rollback (-want +got):\n%s", diff)
	}
	want = topsv1.ActionCondition{Action: "upgrade", Type: "upgrade", Status: "failed", Reason: ReasonRolledBack, Progress: 50, Message: "rolled back to " + to}
	if diff := cmp.Diff(want, world.Action(got, "upgrade")); diff != "" {
		t.Errorf("upgrade (-want +got):\n%s", diff)
	}
	if last := got.Conditions[len(got.Conditions)-1]; last.Action != "rollback" {
		t.Errorf("the newest condition is %+v", last)
	}
	if ready, progressing := world.Standard(got, ConditionReady), world.Standard(got, ConditionProgressing); ready != "False RollingBack: "+world.Action(got, "rollback").Message ||
		progressing != "True RollingBack: "+world.Action(got, "rollback").Message {
		t.Errorf("Ready %q, Progressing %q", ready, progressing)
	}
	gr.Status = got
	obs.Component("driver").Pods[1].Labels["controller-revision-hash"] = "new"
	got = next(obs)
	done := success("rollback")
	done.Type = "rollback"
	if diff := cmp.Diff(done, world.Action(got, "rollback")); diff != "" || got.Phase != "Running" {
		t.Errorf("phase %s, rollback when done (-want +got):\n%s", got.Phase, diff)
	}
}

func TestARollbackStaysOneAfterARestartAndAnotherSpecEndsIt(t *testing.T) {
	obs := restored(t)
	obs.Resource.Status = topsv1.GcuResourceStatus{} // as left by an operator killed before it wrote
	if got := next(obs); got.Phase != "rollbacking" {
		t.Errorf("phase %s after a restart, want rollbacking", got.Phase)
	}
	obs.Resource.Status = next(obs)
	obs.Resource.Spec = world.DriverAt("v3")
	got := next(obs)
	if got.Phase != "upgrading" || world.Action(got, "upgrade").Status != "upgrading" {
		t.Errorf("another spec: phase %s, upgrade %+v", got.Phase, world.Action(got, "upgrade"))
	}
	if c := world.Action(got, "rollback"); c.Status != "failed" || c.Reason != ReasonSuperseded {
		t.Errorf("another spec: rollback %+v", c)
	}
}

func TestARollbackThatChangesNoPodIsDoneAtOnce(t *testing.T) {
	obs := restored(t)
	obs.NewTemplate("driver", "node-1", "node-2")
	obs.Resource.Status.Conditions = nil
	got := next(obs)
	if c := world.Action(got, "rollback"); c.Status != "success" || got.Phase != "Running" {
		t.Errorf("phase %s, rollback %+v", got.Phase, c)
	}
}

func TestAnImpossibleRollbackIsReportedWhileRequested(t *testing.T) {
	for name, obs := range map[string]*world.World{
		"at rest": world.New(t, world.NewGR(topsv1.GcuResourceSpec{}), 1), "while one is under way": restored(t)} {
		t.Run(name, func(t *testing.T) {
			underWay := next(obs).Phase == "rollbacking"
			obs.Rollback = &state.Failure{Reason: revision.ReasonUnknownRevision, Message: "no such revision"}
			got := next(obs)
			if s := world.Standard(got, ConditionDegraded); s != "True UnknownRevision: no such revision" {
				t.Errorf("Degraded %q", s)
			}
			want := topsv1.ActionCondition{Action: "rollback", Type: "rollback", Status: "failed", Reason: revision.ReasonUnknownRevision, Message: "no such revision"}
			if diff := cmp.Diff(want, world.Action(got, "rollback")); (diff != "") != underWay {
				t.Errorf("rollback (-want +got):\n%s", diff)
			}
			if told := Events(&topsv1.GcuResourceStatus{Phase: got.Phase}, &got); len(told) != 1 || told[0].Reason != revision.ReasonUnknownRevision {
				t.Errorf("events %+v", told)
			}
			obs.Resource.Status = got
			later := world.Noon.Add(time.Hour)
			if diff := cmp.Diff(got, Describe(obs.Observation, plan.Decide(obs.Observation, later), later)); diff != "" {
				t.Errorf("the status changed without cause:\n%s", diff)
			}
			obs.Rollback = nil
			if c := world.Action(next(obs), "rollback"); c.Reason == revision.ReasonUnknownRevision {
				t.Errorf("nobody asks any more, but %+v", c)
			}
		})
	}
}
