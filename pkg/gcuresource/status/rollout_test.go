package status

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
	"github.com/topsops/gcu-operator/pkg/gcuresource/plan"
	"github.com/topsops/gcu-operator/pkg/gcuresource/revision"
	"github.com/topsops/gcu-operator/pkg/gcuresource/state"
	"github.com/topsops/gcu-operator/test/world"
)

func TestHaltsThatWaitForAPerson(t *testing.T) {
	now := metav1.Now()
	tests := []struct {
		name    string
		rollout *topsv1.DaemonRollout
		want    bool
	}{
		{"a rollout that is halted", world.Halted(), true},
		{"one whose failed nodes use up the budget, or are all that is left", world.Halted(world.GoesOn, nodesFailed), true},
		{"one that goes on", world.Halted(world.GoesOn), false},
		{"one that the policy takes back", world.Halted(world.RollsBack), false},
		{"one that was taken back before, from another revision", world.Halted(world.RollsBack, func(r *topsv1.DaemonRollout) { r.Status.Rollback.From = "worse" }), true},
		{"one to which it was taken back", world.Halted(world.RollsBack, func(r *topsv1.DaemonRollout) { r.Status.Rollback.CompletedTime = &now }), true},
		{"that of a DaemonSet of no gr", world.Halted(func(r *topsv1.DaemonRollout) { r.Spec.TargetRef.Kind = "DaemonSet" }), false},
		{"none", &topsv1.DaemonRollout{}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if f := RolloutOf(tt.rollout).Halt; (f != nil) != tt.want || f != nil && f.Message != world.WhyHalted {
				t.Errorf("it says %+v, want one: %t", f, tt.want)
			}
		})
	}
}

// What GitOps tools see of a gr is what they see of its rollout.
func TestAGrShowsWhatItsRolloutWaitsFor(t *testing.T) {
	const stalled, reconciling = topsv1.ConditionStalled, topsv1.ConditionReconciling
	for name, tt := range map[string]struct {
		kind, reason string
		change       func(*topsv1.DaemonRollout)
		want         state.Rollout
	}{
		"pinned nodes":                         {stalled, topsv1.ReasonNodesPinned, nil, state.Rollout{Stalled: why(topsv1.ReasonNodesPinned)}},
		"an image that cannot be pulled":       {stalled, topsv1.ReasonPrepullFailed, nil, state.Rollout{Stalled: why(topsv1.ReasonPrepullFailed)}},
		"a rollback by the policy":             {stalled, topsv1.ReasonHalted, world.RollsBack, state.Rollout{}},
		"a policy that may be applied next":    {stalled, daemonset.ReasonPolicyNotFound, nil, state.Rollout{}},
		"a plan that is applied before its gr": {stalled, daemonset.ReasonPlanOutdated, nil, state.Rollout{}},
		"with nodes to be done":                {stalled, daemonset.ReasonPlanOutdated, func(r *topsv1.DaemonRollout) { r.Status.HeldNodes = 1 }, state.Rollout{Unfinished: true}},
		"a node whose operation goes on":       {reconciling, "RollingOut", inFlight, state.Rollout{Unfinished: true, InFlight: true}},
		"a task after the nodes":               {reconciling, topsv1.ReasonAwaitingGlobalTask, nil, state.Rollout{Unfinished: true}},
		"under OTA a person at work on a node": {reconciling, "RollingOut", func(r *topsv1.DaemonRollout) { inFlight(r); r.Status.Strategy = "OTA" }, state.Rollout{InFlight: true}},
	} {
		t.Run(name, func(t *testing.T) {
			rollout := world.Halted(func(r *topsv1.DaemonRollout) {
				r.Status.Conditions = []metav1.Condition{{Type: tt.kind, Status: metav1.ConditionTrue, Reason: tt.reason, Message: world.WhyHalted}}
			})
			if tt.change != nil {
				tt.change(rollout)
			}
			if diff := cmp.Diff(tt.want, RolloutOf(rollout)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func why(reason string) *state.Failure {
	return &state.Failure{Reason: reason, Message: world.WhyHalted}
}

func inFlight(rollout *topsv1.DaemonRollout) { rollout.Status.InFlightNodes = 1 }

// A tool that applies the spec that mends it must not see what stalled the one before.
func TestARolloutOfAnotherSpecStallsNothing(t *testing.T) {
	obs := world.New(t, world.NewGR(world.DriverAt("v2")), 1)
	obs.Run("driver")
	rollout := world.Halted(inFlight, func(r *topsv1.DaemonRollout) {
		r.Status.Conditions = append(r.Status.Conditions, metav1.Condition{Type: topsv1.ConditionStalled, Status: metav1.ConditionTrue, Reason: topsv1.ReasonGlobalTaskFailed, Message: world.WhyHalted},
			metav1.Condition{Type: topsv1.RolloutAccepted, Status: metav1.ConditionFalse})
	})
	if diff := cmp.Diff(state.Rollout{InFlight: true}, RolloutOfNewestSpec(rollout, obs.Observation)); diff != "" {
		t.Error(diff)
	}
}

func nodesFailed(rollout *topsv1.DaemonRollout) {
	rollout.Status.Conditions = append(rollout.Status.Conditions,
		metav1.Condition{Type: topsv1.RolloutProgressing, Status: metav1.ConditionFalse, Reason: topsv1.ReasonNodesFailed, Message: world.WhyHalted})
}

func TestAHaltIsAboutOneSpec(t *testing.T) {
	tests := []struct {
		name   string
		change func(obs *world.World, ds *appsv1.DaemonSet)
		want   bool
	}{
		{"the newest", func(*world.World, *appsv1.DaemonSet) {}, true},
		{"not one that the DaemonSet does not have yet", func(obs *world.World, _ *appsv1.DaemonSet) { obs.Resource.Spec = world.DriverAt("v2") }, false},
		{"not one whose template has no revision yet", func(_ *world.World, ds *appsv1.DaemonSet) { ds.Generation++ }, false},
		{"not one that the rollout has not seen", func(obs *world.World, _ *appsv1.DaemonSet) { obs.NewTemplate("driver") }, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			obs := world.New(t, world.NewGR(world.DriverAt("v1")), 1)
			obs.Run("driver")
			ds := obs.Component("driver").DaemonSet
			ds.Annotations = map[string]string{topsv1.AnnotationRevision: nameAt(t, "v1")}
			rollout := world.Halted(func(r *topsv1.DaemonRollout) {
				r.Status.Targets = []topsv1.RevisionTarget{{DaemonSet: ds.Namespace + "/" + ds.Name, Hash: "old"}}
			})
			tt.change(obs, ds)
			if got := isOfNewestSpec(rollout, obs.Observation); got != tt.want {
				t.Errorf("it is about the newest spec: %t", got)
			}
		})
	}
}

// TestAGrReportsItsHalt: a gr with a halted rollout shows that, and what to do, until the rollout
// resumes.
func TestAGrReportsItsHalt(t *testing.T) {
	obs := restored(t)
	obs.Rollout = RolloutOf(world.Halted())
	got := next(obs)
	if c := world.Action(got, "rollback"); c.Status != "rollbacking" || c.Reason != ReasonHalted {
		t.Errorf("rollback %+v", c)
	}
	for kind, want := range map[string]string{
		ConditionDegraded:    "True Halted: " + world.WhyHalted,
		ConditionProgressing: "False Halted: back to " + nameAt(t, "v1") + ": 1 of 2 pods at the newest revision; halted: " + world.WhyHalted,
	} {
		if s := world.Standard(got, kind); s != want {
			t.Errorf("%s %q, want %q", kind, s, want)
		}
	}
	if told := Events(&topsv1.GcuResourceStatus{Phase: got.Phase}, &got); len(told) != 0 {
		t.Errorf("events %+v, which the rollout sends", told)
	}
	obs.Resource.Status, obs.Rollout = got, state.Rollout{}
	if s := world.Standard(next(obs), ConditionDegraded); s != "False AsExpected: nothing is wrong" {
		t.Errorf("when it goes on: Degraded %q", s)
	}
}

// What the spec no longer includes leaves after its successor is there, which may take long: a halt is shown meanwhile.
func TestAHaltIsShownWhileASuccessorIsAwaited(t *testing.T) {
	spec := world.DriverAt("v1")
	spec.Exporter = &topsv1.BaseFields{Name: "metrics"}
	gr := world.NewGR(spec)
	gr.Annotations[topsv1.AnnotationUpdateStrategy] = "AdvancedRollingUpdate"
	obs := world.New(t, gr, 1)
	obs.Run("driver")
	ds := obs.Component("driver").DaemonSet
	name, err := revision.Name(gr)
	if err != nil {
		t.Fatal(err)
	}
	ds.Annotations = map[string]string{topsv1.AnnotationRevision: name}
	old := ds.DeepCopy()
	old.Name = "enflame-gcu-exporter"
	obs.Owned = append(obs.Owned, state.Owned{Ref: component.RefOf(old), Component: "exporter", DaemonSet: old, Revisions: obs.Component("driver").Revisions})
	rollout := world.Halted(func(r *topsv1.DaemonRollout) {
		r.Status.Targets = []topsv1.RevisionTarget{{DaemonSet: ds.Namespace + "/" + ds.Name, Hash: "old"}, {DaemonSet: old.Namespace + "/" + old.Name, Hash: "old"}}
	})
	if got := RolloutOfNewestSpec(rollout, obs.Observation); got.Halt == nil {
		t.Errorf("without its successor: %+v", got)
	}
	obs.Run("exporter")
	obs.Component("exporter").DaemonSet.Annotations = ds.Annotations
	rollout.Status.Targets = append(rollout.Status.Targets, topsv1.RevisionTarget{DaemonSet: ds.Namespace + "/metrics", Hash: "old"})
	if diff := cmp.Diff(state.Rollout{Unfinished: true}, RolloutOfNewestSpec(rollout, obs.Observation)); diff != "" {
		t.Errorf("with it, before the other one leaves:\n%s", diff)
	}
	delete(gr.Annotations, topsv1.AnnotationUpdateStrategy)
	obs.Rollout = RolloutOfNewestSpec(rollout, obs.Observation)
	if reason, _ := unfinished(obs.Observation, plan.Decide(obs.Observation, world.Noon).Steps); reason != ReasonNoStrategy {
		t.Errorf("without a strategy it waits for %s", reason)
	}
}
