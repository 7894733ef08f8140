package display

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

func TestOutcome(t *testing.T) {
	condition := func(dro *topsv1.DaemonRollout, kind, status, reason string) {
		dro.Status.Conditions = slices.DeleteFunc(dro.Status.Conditions, func(c metav1.Condition) bool { return c.Type == kind })
		dro.Status.Conditions = append(dro.Status.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionStatus(status), Reason: reason})
	}
	degraded := func(gr *topsv1.GcuResource, reason string) {
		gr.Status.StandardConditions = []metav1.Condition{{Type: "Degraded", Status: metav1.ConditionTrue, Reason: reason}}
	}
	tests := []struct {
		name  string
		edit  func(gr *topsv1.GcuResource, dro *topsv1.DaemonRollout)
		state State
		why   string
	}{
		{"all nodes have it", func(*topsv1.GcuResource, *topsv1.DaemonRollout) {}, Done, ""},
		{"a spec that was not seen is not done", func(gr *topsv1.GcuResource, _ *topsv1.DaemonRollout) { gr.Generation++ }, Working, ReasonNotSeen},
		{"a rollout that was not decided yet is not done", func(_ *topsv1.GcuResource, dro *topsv1.DaemonRollout) { dro.Status.Conditions = nil }, Working, ReasonNotSeen},
		{"a gr that goes", func(gr *topsv1.GcuResource, _ *topsv1.DaemonRollout) { gr.DeletionTimestamp = &metav1.Time{Time: now} }, Working, "Deleting"},
		{"a node in flight that soaks", func(_ *topsv1.GcuResource, dro *topsv1.DaemonRollout) {
			condition(dro, "Complete", "False", "Incomplete")
			condition(dro, "Progressing", "True", "RollingOut")
		}, Working, "RollingOut"},
		{"a component that is not there", func(gr *topsv1.GcuResource, _ *topsv1.DaemonRollout) { gr.Status.Phase = topsv1.PhaseDeploying }, Working, "Deploying"},
		{"a wave for a person", func(_ *topsv1.GcuResource, dro *topsv1.DaemonRollout) {
			condition(dro, "Progressing", "False", "AwaitingApproval")
		}, Waiting, "AwaitingApproval"},
		{"OTA", func(_ *topsv1.GcuResource, dro *topsv1.DaemonRollout) {
			condition(dro, "Progressing", "False", "AwaitingRequests")
		}, Waiting, "AwaitingRequests"},
		{"settings that are wrong", func(_ *topsv1.GcuResource, dro *topsv1.DaemonRollout) {
			condition(dro, "Accepted", "False", "InvalidMaxUnavailable")
		}, Stopped, "InvalidMaxUnavailable"},
		{"a halt", func(_ *topsv1.GcuResource, dro *topsv1.DaemonRollout) { condition(dro, "Halted", "True", "Halted") }, Stopped, "Halted"},
		{"a halt of the spec before", func(gr *topsv1.GcuResource, dro *topsv1.DaemonRollout) {
			condition(dro, "Halted", "True", "Halted")
			gr.Status.Conditions = append(gr.Status.Conditions, topsv1.ActionCondition{Action: "upgrade", Status: "upgrading", Reason: "Upgrading"})
		}, Working, "Upgrading"},
		{"a halt that the policy answers", func(_ *topsv1.GcuResource, dro *topsv1.DaemonRollout) {
			condition(dro, "Halted", "True", "Halted")
			condition(dro, "Complete", "False", "Incomplete")
			condition(dro, "Progressing", "False", "Halted")
			dro.Status.Rollback = &topsv1.RolloutRollback{From: dro.Status.Revision, To: "good"}
		}, Working, "Halted"},
		{"failed nodes that use up the budget", func(_ *topsv1.GcuResource, dro *topsv1.DaemonRollout) {
			condition(dro, "Progressing", "False", "NodesFailed")
		}, Stopped, "Halted"},
		{"failed nodes of the spec before", func(gr *topsv1.GcuResource, dro *topsv1.DaemonRollout) {
			condition(dro, "Complete", "False", "Incomplete")
			condition(dro, "Progressing", "False", "NodesFailed")
			gr.Status.Conditions = append(gr.Status.Conditions, topsv1.ActionCondition{Action: "upgrade", Status: "upgrading", Reason: "Upgrading"})
		}, Working, "Upgrading"},
		{"a task before the nodes", func(_ *topsv1.GcuResource, dro *topsv1.DaemonRollout) {
			condition(dro, "Complete", "False", "Incomplete")
			condition(dro, "Progressing", "False", "AwaitingGlobalTask")
		}, Working, "AwaitingGlobalTask"},
		{"a task after the nodes that failed", func(_ *topsv1.GcuResource, dro *topsv1.DaemonRollout) {
			condition(dro, "Progressing", "False", "GlobalTaskFailed")
		}, Stopped, "GlobalTaskFailed"},
		{"an image cannot be pulled, for long", func(_ *topsv1.GcuResource, dro *topsv1.DaemonRollout) {
			condition(dro, "Progressing", "False", "PrepullFailed")
			condition(dro, "Stalled", "True", "PrepullFailed")
		}, Stopped, "PrepullFailed"},
		{"an image cannot be pulled, since a moment", func(_ *topsv1.GcuResource, dro *topsv1.DaemonRollout) {
			condition(dro, "Complete", "False", "Incomplete")
			condition(dro, "Progressing", "False", "PrepullFailed")
		}, Working, "PrepullFailed"},
		{"a failure", func(gr *topsv1.GcuResource, _ *topsv1.DaemonRollout) { degraded(gr, "ComponentConflict") }, Stopped, "ComponentConflict"},
		{"a node of the control plane that is left without components", func(gr *topsv1.GcuResource, _ *topsv1.DaemonRollout) { degraded(gr, "NodeNotAllowed") }, Done, ""},
		{"an API server that fails for a while", func(gr *topsv1.GcuResource, _ *topsv1.DaemonRollout) { degraded(gr, "ReconcileFailed") }, Done, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := load(t, "running")
			tt.edit(f.Resource, f.Rollout)
			o := OutcomeOf(f.Resource, f.Rollout)
			if o.State != tt.state || o.Reason != tt.why {
				t.Errorf("got %s (%s), want %s (%s)", o.State, o.Reason, tt.state, tt.why)
			}
			if (o.State == Waiting || o.State == Stopped) && o.Do == "" {
				t.Error("it does not say what to do")
			}
		})
	}
}

// Without its rollout it is not known that a gr is done; what is wrong with it is.
func TestOutcomeWithoutTheRollout(t *testing.T) {
	for phase, want := range map[string]string{topsv1.PhaseRunning: "Working NotSeen", topsv1.PhaseDeploying: "Working Deploying"} {
		f := load(t, "running")
		f.Resource.Status.Phase = phase
		s := StatusOf(f.Resource, nil, nil, nil, now)
		if done := s.Outcome.State == Done; done != (phase == topsv1.PhaseRunning) {
			t.Errorf("phase %s without a rollout to have is %s", phase, s.Outcome.State)
		}
		s.WithoutRollout("it is elsewhere")
		if got := string(s.Outcome.State) + " " + s.Outcome.Reason; got != want || s.Outcome.Do == "" && s.Outcome.Reason == ReasonNotSeen || !slices.Equal(s.NotShown, []string{"the rollout: it is elsewhere"}) {
			t.Errorf("phase %s: %+v, not shown %q; want %s", phase, s.Outcome, s.NotShown, want)
		}
	}
}
