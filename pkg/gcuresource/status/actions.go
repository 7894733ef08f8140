package status

import (
	"slices"
	"time"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcuresource/revision"
	"github.com/topsops/gcu-operator/pkg/gcuresource/state"
)

// actions returns the conditions of actions (contract statements 37 to 41): deploy is over when
// every component runs or is being upgraded.
func actions(obs *state.Observation, status *topsv1.GcuResourceStatus, u *upgrade, now time.Time) []topsv1.ActionCondition {
	words := phaseWords(status)
	there := occurrences(words, topsv1.PhaseRunning, topsv1.PhaseUpgrading, topsv1.PhaseRollbacking)
	deploy := success(topsv1.ActionDeploy)
	if there < len(words) {
		deploy = topsv1.ActionCondition{Action: topsv1.ActionDeploy, Status: topsv1.PhaseDeploying, Reason: ReasonDeploying,
			Message: deployMessage(status), Progress: int32(there * 100 / len(words))}
	}
	if status.Phase == topsv1.PhaseFailed {
		deploy.Status, deploy.Reason, deploy.Message = topsv1.PhaseFailed, ReasonFailed, failureMessage(status)
	}
	list := setAction(obs.Resource.Status.Conditions, deploy, now)
	return upgradeActions(obs, list, u, now)
}

// upgradeActions sets the conditions of upgrade and rollback. At most one of the two is in
// progress: the other one ended when the spec changed.
func upgradeActions(obs *state.Observation, list []topsv1.ActionCondition, u *upgrade, now time.Time) []topsv1.ActionCondition {
	other, reason, message := topsv1.ActionRollback, ReasonSuperseded, "the spec changed before every node was back"
	if u.action == topsv1.ActionRollback {
		other, reason = topsv1.ActionUpgrade, ReasonRolledBack
		message = "rolled back to " + u.backTo
	}
	ended := isOpen(list, other)
	if ended {
		i := slices.IndexFunc(list, func(c topsv1.ActionCondition) bool { return c.Action == other })
		list = setAction(list, topsv1.ActionCondition{Action: other, Status: topsv1.PhaseFailed,
			Reason: reason, Message: message, Progress: list[i].Progress}, now)
	}
	switch {
	case u.open:
		list = setAction(list, topsv1.ActionCondition{Action: u.action, Status: u.phase(),
			Reason: u.reason, Message: u.message, Progress: u.progress()}, now)
	case ended || isOpen(list, u.action) || unreported(obs, list, u) || u.passed:
		list = setAction(list, success(u.action), now)
	}
	return refusedRollback(obs, list, now)
}

// unreported reports whether a restored spec changed no pod, so that its rollback was never in
// progress.
func unreported(obs *state.Observation, list []topsv1.ActionCondition, u *upgrade) bool {
	return u.action == topsv1.ActionRollback && obs.Rollback == nil &&
		!slices.ContainsFunc(list, func(c topsv1.ActionCondition) bool {
			return c.Action == topsv1.ActionRollback && c.Status == topsv1.ConditionSuccess
		})
}

// refusedRollback sets in the rollback condition that the requested spec cannot be restored, and
// removes that once it is no longer requested.
func refusedRollback(obs *state.Observation, list []topsv1.ActionCondition, now time.Time) []topsv1.ActionCondition {
	if f := obs.Rollback; f != nil {
		if isOpen(list, topsv1.ActionRollback) {
			return list // Degraded shows it
		}
		return setAction(list, topsv1.ActionCondition{Action: topsv1.ActionRollback, Status: topsv1.PhaseFailed,
			Reason: f.Reason, Message: f.Message}, now)
	}
	return slices.DeleteFunc(slices.Clone(list), func(c topsv1.ActionCondition) bool {
		return c.Action == topsv1.ActionRollback && slices.Contains(refusals, c.Reason)
	})
}

// refusals are the reasons why nothing was restored.
var refusals = []string{revision.ReasonUnknownRevision, revision.ReasonNoPreviousRevision, revision.ReasonUnreadableRevision, revision.ReasonRefusedRevision}
