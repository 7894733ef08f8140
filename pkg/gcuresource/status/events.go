package status

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/gcuresource/state"
)

// Event is the content of one event.
type Event struct{ Type, Reason, Message string }

// Reasons of the events about a DaemonSet that the spec no longer requests.
const (
	// ReasonRemovedAtOnce means that its pods are removed from all nodes at once.
	ReasonRemovedAtOnce = "RemovedAtOnce"
	// ReasonRemovedNodeByNode means that its pods leave like outdated ones.
	ReasonRemovedNodeByNode = "RemovedNodeByNode"
)

// RemovalsAtOnce returns the events to send before objects are deleted: one for each DaemonSet whose pods go with it on all
// nodes (docs/adr/0014).
func RemovalsAtOnce(deleted []state.Owned) []Event {
	var list []Event
	for _, o := range deleted {
		if o.DaemonSet != nil && !o.Deleting && len(o.Nodes) > 0 {
			list = append(list, Event{corev1.EventTypeWarning, ReasonRemovedAtOnce, fmt.Sprintf(
				"the spec no longer includes %s of component %s: it is deleted with its pods on all nodes at once, bypassing budget, waves, window, approval and drain",
				o.Ref, o.Component)})
		}
	}
	return list
}

// RemovalsNodeByNode returns the events to send after DaemonSets were marked as leaving: one for each that was not leaving before.
func RemovalsNodeByNode(leaving []*state.Owned) []Event {
	var list []Event
	for _, o := range leaving {
		if !daemonset.IsLeaving(o.DaemonSet) {
			list = append(list, Event{corev1.EventTypeNormal, ReasonRemovedNodeByNode, fmt.Sprintf(
				"the spec no longer includes %s of component %s: its pods leave node by node, like outdated ones", o.Ref, o.Component)})
		}
	}
	return list
}

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
