package operation

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

// historyLimit is how many operations the history keeps: the latest ones and, for each component, the last one that
// shows what is on the node, however many were deferred since.
const historyLimit = 20

// end ends the operation. The node is released, unless something of a version that failed is
// on it: then it stays cordoned until another operation is done, or a person or the end of the
// rollout releases it.
func end(c *changes, phase topsv1.OperationPhase, reason, text string) {
	if phase == topsv1.OperationFailed && c.Operation.Purpose == topsv1.PurposeRollback {
		phase = topsv1.OperationQuarantined
	}
	c.wait(reason, text)
	if !staysCordoned(c.Facts, phase) {
		giveBack(c, phase)
		return
	}
	c.Operation.Held = true
	c.phase(phase)
	archive(c)
}

// staysCordoned reports whether something of a version that failed is on the node if the operation ends in this phase:
// what it put there itself, or what the operation left there from which it took over the cordon. So may a driver be that was not
// verified before there was a newer one.
func staysCordoned(f *Facts, phase topsv1.OperationPhase) bool {
	if f.Operation.CordonedBy != "" && f.Node.Cordon.Mark == f.Operation.CordonedBy && phase != topsv1.OperationDone && !isLeftToAnother(f, phase) {
		return true
	}
	if f.Operation.Touched && f.Operation.Reason == ReasonTargetChanged && driverIsUnproven(f) {
		return true
	}
	return f.Operation.Touched && (phase == topsv1.OperationFailed || phase == topsv1.OperationQuarantined)
}

// giveBack begins the release of the node, after which the operation ends in this phase.
func giveBack(c *changes, phase topsv1.OperationPhase) {
	c.Operation.Held, c.Operation.Outcome = false, phase
	c.phase(topsv1.OperationReleasing)
	c.soon()
}

// finish records the end of an operation whose node is released.
func finish(c *changes) {
	if c.Operation.Outcome == topsv1.OperationDone {
		now := metav1.NewTime(c.Now)
		for i := range c.Operation.Tasks {
			if t := &c.Operation.Tasks[i]; t.State == topsv1.OperationTaskPending || t.State == topsv1.OperationTaskRunning {
				t.State, t.EndTime = topsv1.OperationTaskDone, &now
			}
		}
	}
	c.Operation.Task = ""
	c.phase(c.Operation.Outcome)
	c.Operation.Outcome = ""
	archive(c)
}

// archive puts the operation into the history, once.
func archive(c *changes) {
	op := c.Operation
	if op.EndTime == nil {
		now := metav1.NewTime(c.Now)
		op.EndTime = &now
	}
	record := topsv1.OperationRecord{ID: op.ID, Purpose: op.Purpose, Revision: op.Revision, Phase: op.Phase, Reason: op.Reason, Message: op.Message,
		StartTime: op.StartTime, EndTime: *op.EndTime, Touched: op.Touched, Restarted: restartedEngine(c.Facts), Result: resultOf(op.Tasks)}
	history := slices.DeleteFunc(slices.Clone(c.History), func(r topsv1.OperationRecord) bool { return r.ID == op.ID })
	history = append(history, record)
	if len(history) > historyLimit {
		drop := max(0, slices.IndexFunc(history[:historyLimit], func(r topsv1.OperationRecord) bool { return !isLastEvidence(history, &r) }))
		history = slices.Delete(history, drop, drop+1)
	}
	c.History = history
}

// isLastEvidence reports whether an operation is the last of a history that shows what is on the node, for one
// of the components that it was to replace.
func isLastEvidence(history []topsv1.OperationRecord, of *topsv1.OperationRecord) bool {
	later := history[slices.IndexFunc(history, func(r topsv1.OperationRecord) bool { return r.ID == of.ID })+1:]
	return isEvidence(*of) && slices.ContainsFunc(tasksOf(of), func(name string) bool {
		return strings.HasSuffix(name, "_"+upgradeplan.ActionReplace) &&
			!slices.ContainsFunc(later, func(r topsv1.OperationRecord) bool { return isEvidence(r) && slices.Contains(tasksOf(&r), name) })
	})
}

// resultOf groups tasks by result, as the upgrade framework does (contract statement 93).
func resultOf(tasks []topsv1.OperationTask) topsv1.OperationResult {
	var r topsv1.OperationResult
	for _, t := range tasks {
		switch t.State {
		case topsv1.OperationTaskDone:
			r.Done = append(r.Done, t.Name)
		case topsv1.OperationTaskFailed:
			r.Fail = append(r.Fail, t.Name)
		default:
			r.Undo = append(r.Undo, t.Name)
		}
	}
	return r
}
