package operation

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// eventStarted is the reason of the event of a grant. The other events have the phase
// or the reason of the operation.
const eventStarted = "Started"

// Event is an event about a NodeUpgrade. Type is that of a Kubernetes event.
type Event struct{ Type, Reason, Message string }

// EventsOf returns the events of the changes between two stored records.
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

// endEvent is the event of the end of an operation.
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
		e.Message += fmt.Sprintf("; the node stays cordoned: retry or skip the task (annotation %s), abort the operation, or let another one come",
			topsv1.AnnotationTaskOverride)
	}
	return e
}
