package operation

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// eventStarted is the event reason of a grant. All other events use the phase or the reason
// of the operation.
const eventStarted = "Started"

// Event is an event about a NodeUpgrade. Type is a Kubernetes event type.
type Event struct{ Type, Reason, Message string }

// EventsOf returns the events for the change from one stored record to the next.
func EventsOf(before, after *topsv1.OperationStatus) []Event {
	if after == nil {
		return nil
	}
	if before == nil || before.ID != after.ID {
		before = &topsv1.OperationStatus{}
	}
	var events []Event
	if after.Granted && !before.Granted {
		events = append(events, Event{corev1.EventTypeNormal, eventStarted, startMessage(after)})
	}
	blocked := after.Phase == topsv1.OperationRunning && after.Reason == ReasonDrainBlocked
	if blocked && (before.Reason != after.Reason || before.Message != after.Message) {
		events = append(events, Event{corev1.EventTypeWarning, after.Reason, after.Message})
	}
	if after.EndTime != nil && before.EndTime == nil {
		events = append(events, endEvent(after))
	}
	return events
}

func startMessage(op *topsv1.OperationStatus) string {
	text := "operation " + op.ID + " has its slot"
	if op.Rollout != "" {
		text += " from " + op.Rollout
	}
	if op.Purpose == topsv1.PurposeRollback {
		text += ": a rollback"
	}
	return text
}

func endEvent(op *topsv1.OperationStatus) Event {
	e := Event{Type: corev1.EventTypeNormal, Reason: string(op.Phase), Message: "operation " + op.ID}
	if op.Phase == topsv1.OperationDone {
		e.Message += " is done"
		return e
	}
	e.Message += fmt.Sprintf(": %s", op.Reason)
	if op.Message != "" {
		e.Message += ": " + op.Message
	}
	if op.Phase != topsv1.OperationAborted {
		e.Type = corev1.EventTypeWarning
	}
	if op.Held {
		e.Message += fmt.Sprintf("; the node stays cordoned: retry or skip the task (annotation %s), abort the operation, or wait for another one",
			topsv1.AnnotationTaskOverride)
	}
	return e
}
