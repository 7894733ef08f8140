package status

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
	"github.com/topsops/gcu-operator/pkg/gcuresource/plan"
	"github.com/topsops/gcu-operator/pkg/gcuresource/revision"
	"github.com/topsops/gcu-operator/pkg/gcuresource/state"
)

// ReasonHalted means that nodes failed, and that no other node starts until a person acts.
const ReasonHalted = topsv1.ReasonHalted

// RolloutOf returns what the status of a gr reports of its rollout; the zero value for one that does not belong to a gr. A
// halt that the policy answers with a rollback is not reported: no person has to act. Under OTA a rollout never counts as
// unfinished: every node was offered the newest revision, whether or not it has been requested there.
func RolloutOf(rollout *topsv1.DaemonRollout) state.Rollout {
	if rollout.Spec.TargetRef.Kind != topsv1.GcuResourceKind {
		return state.Rollout{}
	}
	conditions := rollout.Status.Conditions
	stalled := meta.FindStatusCondition(conditions, topsv1.ConditionStalled)
	awaited := stalled != nil && isAwaited(stalled.Reason)
	left := meta.IsStatusConditionTrue(conditions, topsv1.ConditionReconciling) ||
		awaited && rollout.Status.Pending+rollout.Status.HeldNodes+rollout.Status.InFlightNodes > 0
	shown := state.Rollout{InFlight: rollout.Status.InFlightNodes > 0, Unfinished: left && rollout.Status.Strategy != string(daemonset.OTA)}
	if rollout.Status.RollingBack() {
		return shown
	}
	if stalled != nil && stalled.Status == metav1.ConditionTrue && !awaited {
		shown.Stalled = &state.Failure{Reason: stalled.Reason, Message: stalled.Message}
	}
	shown.Halt = haltOf(conditions)
	return shown
}

// isAwaited reports whether a rollout waits for an object that is applied together with the gr, in any order.
func isAwaited(reason string) bool {
	return reason == daemonset.ReasonPolicyNotFound || reason == daemonset.ReasonPlanNotFound || reason == daemonset.ReasonPlanOutdated
}

// haltOf returns why a rollout is halted; nil if it is not. Fewer failed nodes than halt a rollout count as a halt too if
// they use up the budget or are the only nodes left.
func haltOf(conditions []metav1.Condition) *state.Failure {
	if c := meta.FindStatusCondition(conditions, topsv1.RolloutHalted); c != nil && c.Status == metav1.ConditionTrue {
		return &state.Failure{Reason: ReasonHalted, Message: c.Message}
	}
	if c := meta.FindStatusCondition(conditions, topsv1.RolloutProgressing); c != nil && c.Reason == topsv1.ReasonNodesFailed {
		return &state.Failure{Reason: ReasonHalted, Message: c.Message}
	}
	return nil
}

// RolloutOfNewestSpec returns what the status of an observed gr reports of its rollout. If the rollout is for another spec
// than the newest, that is only whether nodes are in flight; the newest spec then counts as unfinished if DaemonSets are
// leaving their nodes, which the status of no component shows.
func RolloutOfNewestSpec(rollout *topsv1.DaemonRollout, obs *state.Observation) state.Rollout {
	shown := RolloutOf(rollout)
	if isOfNewestSpec(rollout, obs) {
		return shown
	}
	settings, err := component.SettingsOf(obs.Resource)
	return state.Rollout{InFlight: shown.InFlight, Unfinished: len(leaving(obs)) > 0 && (err != nil || settings.Strategy != daemonset.OTA)}
}

// leaving returns the DaemonSets that the spec no longer requests and that are not being deleted.
func leaving(obs *state.Observation) []*state.Owned {
	var found []*state.Owned
	for _, i := range obs.Leftovers() {
		if o := &obs.Owned[i]; o.DaemonSet != nil && !o.Deleting {
			found = append(found, o)
		}
	}
	return found
}

// isOfNewestSpec reports whether a rollout is for the newest spec, including the DaemonSets that leave because of it once
// their successors exist: failures of an abandoned version say nothing about the next one.
func isOfNewestSpec(rollout *topsv1.DaemonRollout, obs *state.Observation) bool {
	spec, err := revision.Name(obs.Resource)
	if err != nil {
		return false
	}
	is := func(ds *appsv1.DaemonSet, revisions []*appsv1.ControllerRevision) bool {
		newest, err := daemonset.TargetRevision(ds, revisions)
		return err == nil && slices.Contains(rollout.Status.Targets, topsv1.RevisionTarget{DaemonSet: ds.Namespace + "/" + ds.Name, Hash: newest})
	}
	for i := range obs.Components {
		c := &obs.Components[i]
		if c.DaemonSet != nil && (c.DaemonSet.Annotations[topsv1.AnnotationRevision] != spec || !is(c.DaemonSet, c.Revisions)) {
			return false
		}
	}
	return !slices.ContainsFunc(leaving(obs), func(o *state.Owned) bool {
		return !is(o.DaemonSet, o.Revisions) || !daemonset.IsLeaving(o.DaemonSet) && plan.SuccessorsExist(obs, o)
	})
}
