package daemonupdater

import (
	"fmt"
	"slices"
	"time"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/pkg/nodeupgrade/operation"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

// component is the key of a member in the spec of its gr, "" for a DaemonSet of
// none.
func (m member) component() string {
	if gcuResourceOwner(m.daemonSet) == nil {
		return ""
	}
	return m.daemonSet.Labels[topsv1.LabelComponent]
}

// heavy reports whether a change of a component is more than a replaced pod
// (design section 2).
func heavy(book *upgradeplan.Book, component string) bool {
	disruption := book.Disruption([]string{component}, false)
	return disruption != "" && disruption != upgradeplan.ReplacePod
}

// describeOperations adds what a NodeUpgrade says of operations, and who
// holds the node. own is the
// rollout of the group, revision its target.
func describeOperations(n *rollout.Node, upgrade *topsv1.NodeUpgrade, own, revision string) {
	if upgrade == nil {
		return
	}
	n.Holds = daemonset.HoldsOf(upgrade)
	n.Job, n.Disturbed = jobOf(upgrade, own)
	for i := range upgrade.Status.History {
		n.Ended = append(n.Ended, endOf(&upgrade.Status.History[i]))
	}
	if n.Retry = operation.Backoff(upgrade.Status.History, revision); !n.Retry.IsZero() {
		last := upgrade.Status.History[len(upgrade.Status.History)-1]
		n.RetryWhy = fmt.Sprintf("tried again at %s: %s", n.Retry.UTC().Format(time.RFC3339), wordsOf(last.Reason, last.Message))
	}
}

// jobOf returns the operation that has not ended, or that holds the node, and
// whether one may have the node out of service.
func jobOf(upgrade *topsv1.NodeUpgrade, own string) (job *rollout.Job, disturbed bool) {
	asked, shown := upgrade.Spec.Operation, upgrade.Status.Operation
	if asked != nil && hasEnded(upgrade, asked.ID) && !holds(upgrade, asked.ID) {
		asked = nil
	}
	if shown != nil && shown.Phase.Final() && !shown.Held {
		shown = nil
	}
	if asked != nil {
		disturbed = asked.Granted
		job = &rollout.Job{ID: asked.ID, Ours: asked.Rollout == own, Granted: asked.Granted, Targets: targetsOf(asked),
			Message: fmt.Sprintf("operation %s is about to begin", asked.ID)}
	}
	if shown != nil {
		disturbed = disturbed || shown.Granted || shown.Held
		if job == nil || job.ID != shown.ID {
			job = &rollout.Job{ID: shown.ID, Ours: shown.Rollout == own}
		}
		job.Granted, job.Held = job.Granted || shown.Granted, shown.Held
		job.Prepared = shown.PreparedTime != nil && shown.Phase == topsv1.OperationRunning
		job.Stalled = isStalled(upgrade, shown)
		job.Message = wordsOf(shown.Task, shown.Message)
	}
	return job, disturbed
}

// isStalled reports whether something is amiss with an operation that is being prepared:
// the node or an image is not as it should be, or the node agent cannot do its part.
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

func wordsOf(what, message string) string {
	if what == "" || message == "" {
		return what + message
	}
	return what + ": " + message
}

// hasEnded reports whether an operation of a node is over: it is never carried out
// again.
func hasEnded(upgrade *topsv1.NodeUpgrade, id string) bool {
	if shown := upgrade.Status.Operation; shown != nil && shown.ID == id && shown.Phase.Final() {
		return true
	}
	return slices.ContainsFunc(upgrade.Status.History, func(r topsv1.OperationRecord) bool { return r.ID == id })
}

// holds reports whether an operation has ended and keeps its node.
func holds(upgrade *topsv1.NodeUpgrade, id string) bool {
	shown := upgrade.Status.Operation
	return shown != nil && shown.ID == id && shown.Held
}

func endOf(r *topsv1.OperationRecord) rollout.End {
	e := rollout.End{ID: r.ID, Outcome: rollout.Dropped, Message: wordsOf(r.Reason, r.Message), Time: r.EndTime.Time}
	switch {
	case r.Phase == topsv1.OperationDone:
		e.Outcome = rollout.Done
	case r.Phase == topsv1.OperationQuarantined:
		e.Outcome = rollout.Quarantined
	case r.Phase == topsv1.OperationFailed && r.Reason == operation.ReasonNodeLost:
		e.Outcome = rollout.Lost
	case r.Phase == topsv1.OperationFailed, r.Reason == operation.ReasonBadOperation:
		e.Outcome = rollout.Broken
	case r.Reason == operation.ReasonAborted:
		e.Outcome = rollout.Stopped
	}
	return e
}

func targetsOf(op *topsv1.NodeOperation) map[string]string {
	targets := make(map[string]string, len(op.Targets))
	for _, t := range op.Targets {
		targets[t.DaemonSet.Namespace+"/"+t.DaemonSet.Name] = t.Revision
	}
	return targets
}

// operationOf makes the operation that brings a node to the targets: one job for
// all that is to be replaced on it, and, when an operation that failed holds the node,
// for all of it that is heavy, which is then verified. It is pure. The error says what the logic book
// cannot do.
func operationOf(o *observation, in *rollout.Input, book upgradeplan.Book, node *rollout.Node, id string) (*topsv1.NodeOperation, error) {
	plan := planOf(o, in, &book, node)
	if len(plan.Changed) == 0 {
		plan.Changed = lightest(book, plan.Deployed)
	}
	mission, err := upgradeplan.Plan(book, []upgradeplan.Node{plan}, 1)
	if err != nil {
		return nil, fmt.Errorf("planning the operation of node %s: %w", node.Name, err)
	}
	op := &topsv1.NodeOperation{
		ID: id, NodeUID: node.UID, Rollout: rolloutOf(o), Revision: in.Revision, Purpose: purposeOf(o, in), Job: stagesOf(mission),
	}
	for i := range node.Pods {
		pod := &node.Pods[i]
		if component := o.members[pod.Member].component(); replaces(mission, component) {
			op.Targets = append(op.Targets, targetOfOperation(o.members[pod.Member], component, in.Members[pod.Member].Target, pod.Revision))
		}
	}
	if o.policy != nil {
		constrain(op, &o.policy.Spec)
	}
	return op, nil
}

// planOf is what the generator of plans has to know of a node. What the book does not
// know is left out: it is replaced like any other pod.
func planOf(o *observation, in *rollout.Input, book *upgradeplan.Book, node *rollout.Node) upgradeplan.Node {
	plan := upgradeplan.Node{Name: node.Name, ControlPlane: node.ControlPlane}
	held := node.Job != nil && node.Job.Held
	for i := range node.Pods {
		pod := &node.Pods[i]
		component := o.members[pod.Member].component()
		if book.Disruption([]string{component}, false) == "" {
			continue
		}
		plan.Deployed = append(plan.Deployed, component)
		if rollout.ToReplace(in, node, pod) || held && in.Members[pod.Member].Heavy {
			plan.Changed = append(plan.Changed, component)
		}
	}
	return plan
}

// lightest are the components of a node for an operation that has nothing to replace
// any more, and is made all the same: because it is in the ledger and has to end, or
// to give back a node that is held.
func lightest(book upgradeplan.Book, deployed []string) []string {
	light := slices.DeleteFunc(slices.Clone(deployed), func(c string) bool { return heavy(&book, c) })
	if len(light) == 0 {
		return deployed
	}
	return light
}

// rolloutOf is the key of the group's DaemonRollout, as operations carry it.
func rolloutOf(o *observation) string { return o.rollout.Namespace + "/" + o.rollout.Name }

// purposeOf is Rollback while the group goes back to its last known good revision.
func purposeOf(o *observation, in *rollout.Input) topsv1.OperationPurpose {
	if rb := o.rollout.Status.Rollback; rb != nil && rb.To == in.Revision {
		return topsv1.PurposeRollback
	}
	return topsv1.PurposeUpgrade
}

// stagesOf puts the jobs of a mission for one node one after the other.
func stagesOf(mission upgradeplan.Mission) []topsv1.JobStage {
	var stages []topsv1.JobStage
	for _, batch := range mission {
		for _, job := range batch {
			for _, stage := range job {
				var names topsv1.JobStage
				for _, t := range stage {
					names = append(names, topsv1.TaskName(t.String()))
				}
				stages = append(stages, names)
			}
		}
	}
	return stages
}

func replaces(mission upgradeplan.Mission, component string) bool {
	for t := range mission.All() {
		if t.Target == component && t.Action == upgradeplan.ActionReplace {
			return true
		}
	}
	return false
}

func targetOfOperation(m member, component, revision, previous string) topsv1.OperationTarget {
	ds := m.daemonSet
	t := topsv1.OperationTarget{
		Component: component, DaemonSet: topsv1.NamespacedRef{Namespace: ds.Namespace, Name: ds.Name, UID: ds.UID}, Revision: revision,
	}
	if previous != revision {
		t.Previous = previous
	}
	spec := &ds.Spec.Template.Spec
	t.Images, t.PullSecrets = daemonset.Images(spec), daemonset.PullSecrets(spec)
	return t
}

// constrain adds what a policy asks of operations.
func constrain(op *topsv1.NodeOperation, policy *topsv1.UpgradePolicySpec) {
	op.Drain = policy.Drain.DeepCopy()
	if s := policy.ProgressDeadlineSeconds; s != nil {
		op.Deadlines.ProgressSeconds = *s
	}
	if s := policy.LostDeadlineSeconds; s != nil {
		op.Deadlines.LostSeconds = *s
	}
	v := policy.Validation
	if v == nil {
		return
	}
	op.DriverVersion = v.DriverVersion
	op.Deadlines.VerifySeconds, op.Deadlines.SoakSeconds = v.DeadlineSeconds, v.SoakSeconds
	if v.MinFreeDisk != nil {
		op.MinFreeDiskBytes = v.MinFreeDisk.Value()
	}
}
