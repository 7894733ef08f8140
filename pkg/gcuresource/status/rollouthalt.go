package status

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/gcuresource/revision"
	"github.com/topsops/gcu-operator/pkg/gcuresource/state"
)

// ReasonHalted means that nodes failed, and that no other node starts until a person acts.
const ReasonHalted = topsv1.ReasonHalted

// HaltOf returns why a rollout is halted, also by fewer failed nodes than halt one, which use up the
// budget or are all that is left; nil if it is not, if it does not belong to a gr, or if the policy
// answers the halt with a rollback.
func HaltOf(rollout *topsv1.DaemonRollout) *state.Failure {
	if rollout.Spec.TargetRef.Kind != topsv1.GcuResourceKind || rollout.Status.RollingBack() {
		return nil
	}
	if c := meta.FindStatusCondition(rollout.Status.Conditions, topsv1.RolloutHalted); c != nil && c.Status == metav1.ConditionTrue {
		return &state.Failure{Reason: ReasonHalted, Message: c.Message}
	}
	if c := meta.FindStatusCondition(rollout.Status.Conditions, topsv1.RolloutProgressing); c != nil && c.Reason == topsv1.ReasonNodesFailed {
		return &state.Failure{Reason: ReasonHalted, Message: c.Message}
	}
	return nil
}

// Halt returns why the rollout of an observed gr is halted; nil if it is not, or if that concerns
// another spec than the newest.
func Halt(obs *state.Observation, rollout *topsv1.DaemonRollout) *state.Failure {
	halt := HaltOf(rollout)
	if halt == nil || !isOfNewestSpec(rollout, obs) {
		return nil
	}
	return halt
}

// isOfNewestSpec reports whether a rollout is about the newest spec: failures of an abandoned
// version say nothing about the next one.
func isOfNewestSpec(rollout *topsv1.DaemonRollout, obs *state.Observation) bool {
	spec, err := revision.Name(obs.Resource)
	if err != nil {
		return false
	}
	for i := range obs.Components {
		c := &obs.Components[i]
		if c.DaemonSet == nil {
			continue
		}
		newest, err := daemonset.TargetRevision(c.DaemonSet, c.Revisions)
		target := topsv1.RevisionTarget{DaemonSet: c.DaemonSet.Namespace + "/" + c.DaemonSet.Name, Hash: newest}
		if err != nil || c.DaemonSet.Annotations[topsv1.AnnotationRevision] != spec || !slices.Contains(rollout.Status.Targets, target) {
			return false
		}
	}
	return true
}
