package observed

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/pkg/nodeupgrade/operation"
)

// describeOperations adds the holds and operations of a NodeUpgrade to a node. own is the key of
// the group's rollout, revision its target.
func describeOperations(n *rollout.Node, upgrade *topsv1.NodeUpgrade, own, revision string, now time.Time) {
	if upgrade == nil {
		return
	}
	n.Holds = daemonset.HoldsOf(upgrade)
	n.Operation, n.Disturbed = operationOf(upgrade, own)
	for i := range upgrade.Status.History {
		if !hasEnded(upgrade, upgrade.Status.History[i].ID) {
			continue
		}
		end := endOf(&upgrade.Status.History[i])
		if asked := upgrade.Spec.Operation; asked != nil && asked.ID == end.ID {
			end.Targets, end.Left = endTargetsOf(changed(asked.Targets)), leftOf(asked.Targets)
			end.Along = alongOf(asked.Targets)
		}
		n.Ended = append(n.Ended, end)
	}
	retry, last := operation.Backoff(upgrade, revision, now)
	if last == nil {
		return
	}
	n.Retry, n.SetBack = retry, operation.SetBack(upgrade, last)
	n.RetryWhy = fmt.Sprintf("will be retried at %s: %s", n.Retry.UTC().Format(time.RFC3339), cmp.Or(n.SetBack, withMessage(last.Reason, last.Message)))
}

// assumed are the capabilities of an agent that reports none: those of the last version before agents reported them.
// The list never grows.
var assumed = []string{"prepull", "restart-runtime", "verify-driver", "verify-runtime"}

// AgentOf returns the node agent that a NodeUpgrade, which may be nil, describes.
func AgentOf(upgrade *topsv1.NodeUpgrade) rollout.Agent {
	a := rollout.Agent{Capabilities: assumed}
	if upgrade == nil || upgrade.Status.Agent == nil {
		return a
	}
	a.Version = upgrade.Status.Agent.Version
	if reported := upgrade.Status.Agent.Capabilities; len(reported) > 0 {
		a.Capabilities = reported
	}
	return a
}

// operationOf returns the operation that has not ended or keeps the node cordoned, and reports whether an operation may have
// taken the node out of service.
func operationOf(upgrade *topsv1.NodeUpgrade, own string) (op *rollout.Operation, disturbed bool) {
	asked, shown := upgrade.Spec.Operation, upgrade.Status.Operation
	if asked != nil && hasEnded(upgrade, asked.ID) && !keepsCordoned(upgrade, asked.ID) {
		asked = nil
	}
	if !blocksOperation(shown, asked) {
		shown = nil
	}
	if asked != nil {
		disturbed = asked.Granted
		op = &rollout.Operation{ID: asked.ID, Revision: asked.Revision, Ours: asked.Rollout == own, Granted: asked.Granted, Aborted: asked.Abort, OnlyIdle: asked.OnlyIdle, Targets: targetsOf(asked),
			Message: fmt.Sprintf("operation %s is about to start", asked.ID)}
	}
	if shown != nil {
		disturbed = disturbed || wasGranted(shown) || shown.Held
		if op == nil || op.ID != shown.ID {
			op = &rollout.Operation{ID: shown.ID, Revision: shown.Revision, Ours: shown.Rollout == own}
		}
		// Another group does nothing on the node of one that lost its grant. Its own group grants it again.
		op.Granted = op.Granted || shown.Granted || wasGranted(shown) && !op.Ours
		op.KeptCordoned, op.InUse = shown.Held, shown.InUse
		op.Committed = isCommitted(shown)
		op.Prepared = isPrepared(shown, asked)
		op.Stalled = isStalled(upgrade, shown)
		op.WaitingSince = waitingSince(op, shown)
		op.Message, op.LastTaskEnd = withMessage(shown.Task, shown.Message), lastTaskEnd(shown)
	}
	return op, disturbed
}

// isPrepared reports whether an operation is ready for its grant. One that another replaces ends without.
func isPrepared(shown *topsv1.OperationStatus, asked *topsv1.NodeOperation) bool {
	isReplaced := asked != nil && asked.ID != shown.ID
	return shown.PreparedTime != nil && shown.Phase == topsv1.OperationRunning && !isReplaced
}

// IsDisturbed reports whether an operation of any group may have taken the node of a NodeUpgrade out of service.
func IsDisturbed(upgrade *topsv1.NodeUpgrade) bool {
	_, disturbed := operationOf(upgrade, "")
	return disturbed
}

// wasGranted reports whether an operation has been granted, even if an older CRD dropped that from the record: one that touched
// its node or took over the cordon of one that failed was (or is aborted at once).
func wasGranted(shown *topsv1.OperationStatus) bool {
	return shown.Granted || shown.Touched || shown.CordonedBy != ""
}

// isCommitted reports whether an operation took over the cordon of one that failed, or touched its node and has not verified the driver:
// then it was granted, even if an older CRD dropped that from the record.
func isCommitted(shown *topsv1.OperationStatus) bool {
	return shown.CordonedBy != "" || shown.Touched && operation.HasUnprovenDriver(shown)
}

// lastTaskEnd returns when the last task of an operation ended, zero if none has.
func lastTaskEnd(shown *topsv1.OperationStatus) (last time.Time) {
	for i := range shown.Tasks {
		if end := shown.Tasks[i].EndTime; end != nil && end.After(last) {
			last = end.Time
		}
	}
	return last
}

// blocksOperation reports whether an operation keeps the node cordoned, or has not ended. An ungranted one that a granted
// operation in the spec replaces does not count: it ends before it touches the node.
func blocksOperation(shown *topsv1.OperationStatus, asked *topsv1.NodeOperation) bool {
	if shown == nil || shown.Held {
		return shown != nil
	}
	isReplaced := !shown.Granted && asked != nil && asked.Granted && asked.ID != shown.ID
	return !shown.Phase.Final() && !isReplaced
}

// isStalled reports whether a problem keeps an operation from being prepared: a failed check of
// the node, an image that cannot be pulled, or a node agent that cannot do its part.
func isStalled(upgrade *topsv1.NodeUpgrade, shown *topsv1.OperationStatus) bool {
	if shown.Granted {
		return false
	}
	if shown.Reason == operation.ReasonPrecheckFailed || shown.Reason == operation.ReasonPrepullFailed {
		return true
	}
	result := upgrade.Status.Host.Result(shown.ID, shown.Task)
	return result != nil && result.State == topsv1.HostTaskRunning && result.Reason != operation.ReasonInProgress
}

// waitingSince returns the time from which an operation waits for its grant or has a problem, zero for neither.
func waitingSince(op *rollout.Operation, shown *topsv1.OperationStatus) time.Time {
	switch {
	case op.Prepared:
		return shown.PreparedTime.Time
	case op.Stalled:
		return shown.Since.Time
	}
	return time.Time{}
}

func withMessage(what, message string) string {
	if what == "" || message == "" {
		return what + message
	}
	return what + ": " + message
}

// hasEnded reports whether an operation of a node has ended, so that it is not executed again. An operation that a user
// resumed by a retry has not, although the history still has its end.
func hasEnded(upgrade *topsv1.NodeUpgrade, id string) bool {
	if shown := upgrade.Status.Operation; shown != nil && shown.ID == id {
		return shown.Phase.Final() || shown.EndTime != nil
	}
	return slices.ContainsFunc(upgrade.Status.History, func(r topsv1.OperationRecord) bool { return r.ID == id })
}

// HasLiveOperation reports whether a node has an operation that has not ended or keeps the node cordoned: then a retry
// is about one of its tasks.
func HasLiveOperation(upgrade *topsv1.NodeUpgrade) bool {
	asked := upgrade.Spec.Operation
	return asked != nil && (!hasEnded(upgrade, asked.ID) || keepsCordoned(upgrade, asked.ID))
}

// keepsCordoned reports whether an operation has ended and keeps its node cordoned.
func keepsCordoned(upgrade *topsv1.NodeUpgrade, id string) bool {
	shown := upgrade.Status.Operation
	return shown != nil && shown.ID == id && shown.Held
}

func endOf(r *topsv1.OperationRecord) rollout.End {
	e := rollout.End{ID: r.ID, Done: r.Phase == topsv1.OperationDone, Message: withMessage(r.Reason, r.Message), Time: r.EndTime.Time, Touched: r.Touched}
	switch {
	case r.Phase == topsv1.OperationQuarantined:
		e.Failure = rollout.ReasonQuarantined
	case r.Phase == topsv1.OperationFailed && r.Reason == operation.ReasonNodeLost:
		e.Failure = rollout.ReasonNodeLost
	case r.Phase == topsv1.OperationFailed, r.Reason == operation.ReasonBadOperation:
		e.Failure = rollout.ReasonOperationFailed
	case r.Reason == operation.ReasonAborted:
		e.Failure = rollout.ReasonOperationAborted
	}
	return e
}

func targetsOf(op *topsv1.NodeOperation) map[string]string {
	targets := make(map[string]string, len(op.Targets))
	for i := range op.Targets {
		for _, of := range op.Targets[i].All() {
			targets[keyOf(of)] = of.Revision
		}
	}
	return targets
}

// changed returns the targets of an operation with a new revision, or one that was not verified before, which may have failed it, without
// those that were only replaced along with them; all targets if it brought no new revision: whatever it verified may not work.
func changed(targets []topsv1.OperationTarget) []topsv1.OperationTarget {
	if !bringsNew(targets) {
		return targets
	}
	return slices.DeleteFunc(slices.Clone(targets), workedBefore)
}

// bringsNew reports whether an operation brings a new revision. Otherwise it only verifies.
func bringsNew(targets []topsv1.OperationTarget) bool {
	return slices.ContainsFunc(targets, func(t topsv1.OperationTarget) bool { return !isUnchanged(&t) })
}

// workedBefore reports whether the pod of a target had its revision before, and that was verified.
func workedBefore(t topsv1.OperationTarget) bool { return isUnchanged(&t) && t.Previous == "" }

// alongOf returns the revisions at which an operation left what it only replaced along with others.
func alongOf(list []topsv1.OperationTarget) (along []rollout.Target) {
	if !bringsNew(list) {
		return nil
	}
	for i := range list {
		if t := &list[i]; workedBefore(*t) {
			along = append(along, rollout.Target{Member: keyOf(topsv1.DaemonSetRevision{DaemonSet: t.DaemonSet}), Revision: t.Revision})
		}
	}
	return along
}

// isUnchanged reports whether the pod of a target had its revision before. If that was not verified, the target names it as the previous one.
func isUnchanged(t *topsv1.OperationTarget) bool {
	return (t.Previous == "" || t.Previous == t.Revision) && len(t.Leaving) == 0
}

func keyOf(of topsv1.DaemonSetRevision) string {
	return of.DaemonSet.Namespace + "/" + of.DaemonSet.Name
}

// endTargetsOf returns the revisions that the end of an operation counts for: those that it was to bring its node to, or
// to keep it from.
func endTargetsOf(list []topsv1.OperationTarget) []rollout.Target {
	var targets []rollout.Target
	for i := range list {
		for _, of := range list[i].AllNewest() {
			targets = append(targets, rollout.Target{Member: keyOf(of), Revision: of.Revision})
		}
	}
	return targets
}

// leftOf returns the earlier revisions that an operation brings a pinned node back to, or leaves it at.
func leftOf(list []topsv1.OperationTarget) (left []rollout.Target) {
	for i := range list {
		if t := &list[i]; t.KeptFrom != "" {
			left = append(left, rollout.Target{Member: keyOf(topsv1.DaemonSetRevision{DaemonSet: t.DaemonSet}), Revision: t.Revision})
		}
	}
	return left
}
