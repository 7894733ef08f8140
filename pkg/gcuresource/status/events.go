package status

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// Event is the content of one event.
type Event struct{ Type, Reason, Message string }

// Events returns the events for a new status: for a new phase, with the reason and message of
// condition Ready, and for a new cause of Degraded.
func Events(before, after *topsv1.GcuResourceStatus) []Event {
	var list []Event
	if ready := meta.FindStatusCondition(after.StandardConditions, ConditionReady); ready != nil && before.Phase != after.Phase {
		list = append(list, Event{corev1.EventTypeNormal, ready.Reason, ready.Message})
	}
	degraded := meta.FindStatusCondition(after.StandardConditions, ConditionDegraded)
	if degraded == nil || degraded.Status != metav1.ConditionTrue || degraded.Reason == ReasonHalted { // the rollout has its own event
		return list
	}
	was := meta.FindStatusCondition(before.StandardConditions, ConditionDegraded)
	if was == nil || was.Status != degraded.Status || was.Reason != degraded.Reason || was.Message != degraded.Message {
		list = append(list, Event{corev1.EventTypeWarning, degraded.Reason, degraded.Message})
	}
	return list
}
