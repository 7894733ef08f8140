package status

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcuresource/plan"
	"github.com/topsops/gcu-operator/pkg/gcuresource/state"
)

// summarize returns the conditions of a gr, with the condition for kstatus first if there is one. The list of a
// finished gr has only the elements of the guide (contract statement 37).
func summarize(obs *state.Observation, decided plan.Plan, status *topsv1.GcuResourceStatus, u *upgrade, now time.Time) []topsv1.ActionCondition {
	if f := stalledBy(obs, decided); f != nil {
		return withSummary(status.Conditions, topsv1.ConditionStalled, f.Reason, f.Message, now)
	}
	if c := progressing(obs, decided, status, u); c.Status == metav1.ConditionTrue || obs.Rollout.Unfinished || left(decided, status, u) {
		return withSummary(status.Conditions, topsv1.ConditionReconciling, c.Reason, c.Message, now)
	}
	return withoutSummary(status.Conditions)
}

// left reports whether work is left on which this operator makes no progress.
func left(decided plan.Plan, status *topsv1.GcuResourceStatus, u *upgrade) bool {
	return status.Phase != topsv1.PhaseRunning || u.open && u.reason != ReasonWaitingForNodes ||
		slices.ContainsFunc(decided.Steps, func(s plan.Step) bool { return len(s.Apply) > 0 })
}

// stalledBy returns the first failure that a person has to resolve, nil if there is none.
func stalledBy(obs *state.Observation, decided plan.Plan) *state.Failure {
	for i := range decided.Steps {
		if f := decided.Steps[i].Failure; f != nil && !f.Retry {
			return f
		}
	}
	_, err := settingsOf(obs, decided.Steps)
	for _, f := range []*state.Failure{settingsFailure(err), obs.Rollout.Stalled, obs.Rejected, obs.Rollback} {
		if f != nil {
			return f
		}
	}
	return nil
}

// withSummary returns a list with one condition for kstatus, which comes first. If it is unchanged, it keeps its time.
func withSummary(list []topsv1.ActionCondition, name, reason, message string, now time.Time) []topsv1.ActionCondition {
	c := topsv1.ActionCondition{Action: name, Type: name, Status: string(metav1.ConditionTrue), Reason: reason, Message: message, LastUpdateTime: seconds(now)}
	for _, have := range list {
		before := have
		before.LastUpdateTime = c.LastUpdateTime
		if before == c {
			c = have
		}
	}
	return slices.Insert(withoutSummary(list), 0, c)
}

func withoutSummary(list []topsv1.ActionCondition) []topsv1.ActionCondition {
	return slices.DeleteFunc(slices.Clone(list), func(c topsv1.ActionCondition) bool {
		return c.Action == topsv1.ConditionReconciling || c.Action == topsv1.ConditionStalled
	})
}
