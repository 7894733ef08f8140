package nodeupgrade

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/nodeupgrade/operation"
)

// eventStarted is the reason of the event that tells of a grant. The other events
// have the phase or the reason of the operation.
const eventStarted = "Started"

// notice is one event about a NodeUpgrade.
type notice struct {
	kind    string
	reason  string
	message string
}

// noticesOf returns what changed between two stored records, for people. It is pure.
func noticesOf(before, after *topsv1.OperationStatus) []notice {
	if after == nil {
		return nil
	}
	if before == nil || before.ID != after.ID {
		before = &topsv1.OperationStatus{}
	}
	var notices []notice
	if after.Granted && !before.Granted {
		notices = append(notices, notice{corev1.EventTypeNormal, eventStarted, startText(after)})
	}
	blocked := after.Phase == topsv1.OperationRunning && after.Reason == operation.ReasonDrainBlocked
	if blocked && (before.Reason != after.Reason || before.Message != after.Message) {
		notices = append(notices, notice{corev1.EventTypeWarning, after.Reason, after.Message})
	}
	if after.EndTime != nil && before.EndTime == nil {
		notices = append(notices, endNotice(after))
	}
	return notices
}

func startText(op *topsv1.OperationStatus) string {
	text := "operation " + op.ID + " has its slot"
	if op.Rollout != "" {
		text += " from " + op.Rollout
	}
	if op.Purpose == topsv1.PurposeRollback {
		text += ": a rollback"
	}
	return text
}

// endNotice tells how an operation ended.
func endNotice(op *topsv1.OperationStatus) notice {
	n := notice{kind: corev1.EventTypeNormal, reason: string(op.Phase), message: "operation " + op.ID}
	if op.Phase == topsv1.OperationDone {
		n.message += " is done"
		return n
	}
	n.message += fmt.Sprintf(": %s", op.Reason)
	if op.Message != "" {
		n.message += ": " + op.Message
	}
	if op.Phase != topsv1.OperationAborted {
		n.kind = corev1.EventTypeWarning
	}
	if op.Held {
		n.message += fmt.Sprintf("; the node stays cordoned: retry or skip the task (annotation %s), abort the operation, or let another one come",
			topsv1.AnnotationTaskOverride)
	}
	return n
}
