package world

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// WhyHalted is the message of a rollout that is halted.
const WhyHalted = "1 of 1 started nodes failed (node-1): repair it"

// Halted is a rollout of the gr "gpu" that is halted, with this done to it.
func Halted(changes ...func(*topsv1.DaemonRollout)) *topsv1.DaemonRollout {
	rollout := &topsv1.DaemonRollout{Spec: topsv1.DaemonRolloutSpec{TargetRef: topsv1.TargetRef{Kind: topsv1.GcuResourceKind, Name: "gpu"}}}
	rollout.Status.Revision = "bad"
	rollout.Status.Conditions = []metav1.Condition{{Type: topsv1.RolloutHalted, Status: metav1.ConditionTrue, Reason: "Halted", Message: WhyHalted}}
	for _, change := range changes {
		change(rollout)
	}
	return rollout
}

// GoesOn ends the halt of a rollout.
func GoesOn(rollout *topsv1.DaemonRollout) {
	rollout.Status.Conditions[0].Status = metav1.ConditionFalse
}

// RollsBack lets the policy take a rollout back.
func RollsBack(rollout *topsv1.DaemonRollout) {
	rollout.Status.Rollback = &topsv1.RolloutRollback{From: "bad", To: "good"}
}
