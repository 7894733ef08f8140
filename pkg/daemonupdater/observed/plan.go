package observed

import (
	"fmt"
	"slices"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
	"github.com/topsops/gcu-operator/pkg/upgradeplan/planfile"
)

// Plan is the UpgradePlan that the settings of a group name.
type Plan struct {
	// Read is nil if there is no such plan, or if it breaks a rule; then Invalid says which.
	Read    *planfile.Plan
	Invalid error
	// inForce is the plan that the group follows, nil for none.
	inForce *planfile.Plan
	// rolledBack is the plan whose revision was rolled back automatically, nil for none.
	rolledBack *planfile.Plan
}

// InForce returns the plan that the group follows, nil for none. It is valid after State.Input.
func (p *Plan) InForce() *planfile.Plan { return p.inForce }

// RolledBack returns the plan whose revision was rolled back automatically, nil for none. It is valid after
// State.Input.
func (p *Plan) RolledBack() *planfile.Plan { return p.rolledBack }

// rollBack takes the plan out of force during a rollback, and remembers it as rolled back if the rollback rejected its
// revision.
func (p *Plan) rollBack(rb *topsv1.RolloutRollback, g Group) {
	if p.inForce, p.rolledBack = nil, nil; p.Read != nil && p.Read.Object.Spec.Revision == rb.RejectedRevision && p.Read.Object.Spec.GcuResource == g.Name {
		p.rolledBack = p.Read
	}
}

// apply refines the input by the plan that the settings name, with the approvals of the rollout. A
// plan that is missing, invalid, or for something else blocks the group; it never counts as no plan.
func (p *Plan) apply(in *rollout.Input, g Group, members []Member, approvals []string) {
	name := in.Settings.Plan
	if p.inForce, p.rolledBack = nil, nil; name == "" || in.Blocked != nil {
		return
	}
	if in.Blocked = p.problem(name, g, members); in.Blocked != nil {
		return
	}
	object := p.Read.Object
	p.inForce, in.Policy.Plan, in.Policy.PlanVersion = p.Read, name, planfile.Version(object)
	for _, b := range object.Spec.Batches {
		in.Policy.Batches = append(in.Policy.Batches, rollout.Batch{Name: b.Name, Manual: b.Approval == topsv1.ApprovalManual})
	}
	in.Policy.Approved = approvedWaves(approvals, in.Revision)
}

// problem returns why the named plan cannot be followed, nil if it can.
func (p *Plan) problem(name string, g Group, members []Member) *rollout.Blocked {
	switch {
	case p.Invalid != nil:
		return &rollout.Blocked{Reason: daemonset.ReasonInvalidPlan, Message: fmt.Sprintf("UpgradePlan %s: %v", name, p.Invalid)}
	case p.Read == nil:
		return &rollout.Blocked{Reason: daemonset.ReasonPlanNotFound, Message: fmt.Sprintf(
			"annotation %s names UpgradePlan %q, which does not exist: create it, or remove the annotation", topsv1.AnnotationUpgradePlan, name)}
	case g.Kind != KindGcuResource || p.Read.Object.Spec.GcuResource != g.Name:
		return &rollout.Blocked{Reason: daemonset.ReasonInvalidPlan, Message: fmt.Sprintf(
			"UpgradePlan %s is for GcuResource %s, not for %s", name, p.Read.Object.Spec.GcuResource, g)}
	}
	for _, m := range members {
		if has := m.DaemonSet.Annotations[topsv1.AnnotationRevision]; has != p.Read.Object.Spec.Revision && !daemonset.IsLeaving(m.DaemonSet) {
			return &rollout.Blocked{Reason: daemonset.ReasonPlanOutdated, Message: fmt.Sprintf(
				"UpgradePlan %s upgrades to revision %s, but DaemonSet %s is at revision %s: write another plan, or remove annotation %s",
				name, p.Read.Object.Spec.Revision, m.Key(), has, topsv1.AnnotationUpgradePlan)}
		}
	}
	return nil
}

// describe sets the batch of a node under the plan in force, and what the plan leaves out there: on a node in no batch,
// everything, unless all its pods are at their targets. Such a node may have joined later, and may need a restart to use its
// cards.
func (p *Plan) describe(n *rollout.Node, members []Member) {
	if p.inForce == nil {
		return
	}
	batch, is := p.inForce.Batch(n.Name)
	if n.Batch = batch; !is {
		n.Batch = len(p.inForce.Object.Spec.Batches)
		if areAtTargets(n.Pods, members) {
			return
		}
		n.LeftOut = true
	}
	for i := range n.Pods {
		pod := &n.Pods[i]
		pod.LeftOut = !p.inForce.HasComponent(n.Name, members[pod.Member].Component())
	}
}

// areAtTargets reports whether every pod is there, and at the target of its member.
func areAtTargets(pods []rollout.Pod, members []Member) bool {
	return !slices.ContainsFunc(pods, func(pod rollout.Pod) bool {
		target, err := members[pod.Member].Target()
		return err != nil || pod.UID == "" || pod.Terminating || pod.Revision != target
	})
}

// cut returns a mission without the tasks that the plan in force leaves out.
func (p *Plan) cut(mission upgradeplan.Mission) upgradeplan.Mission {
	if p.inForce == nil {
		return mission
	}
	return upgradeplan.Cut(mission, func(t upgradeplan.Task) bool { return !p.inForce.Leaves(t) })
}

// FailedNode returns the task of the plan in force with which a node failed: that of its last operation at a revision, by
// its NodeUpgrade, which may be nil; or else the replacement of the pod that the decision blames, with the components
// that were replaced.
func (p *Plan) FailedNode(members []Member, d *rollout.Decision, node, revision string, upgrade *topsv1.NodeUpgrade) topsv1.FailedNode {
	failed := topsv1.FailedNode{Node: node, Task: FailedTask(upgrade, revision)}
	if failed.Task != "" {
		return failed
	}
	blamed, left := d.Blame(node)
	var notDone []string
	for _, m := range members {
		component := m.Component()
		switch {
		case !p.inForce.HasComponent(node, component):
		case m.Key() == blamed:
			failed.Task = upgradeplan.Task{Host: node, Target: component, Action: upgradeplan.ActionReplace}.String()
			notDone = append(notDone, component)
		case slices.Contains(left, m.Key()):
			notDone = append(notDone, component)
		default:
			failed.Done = append(failed.Done, component)
		}
	}
	failed.Done = slices.DeleteFunc(failed.Done, func(c string) bool { return slices.Contains(notDone, c) })
	return failed
}

// FailedTask returns the task with which the last upgrade operation of a node at a revision failed, "" if none did. The
// NodeUpgrade may be nil.
func FailedTask(upgrade *topsv1.NodeUpgrade, revision string) string {
	if upgrade == nil {
		return ""
	}
	for _, r := range slices.Backward(upgrade.Status.History) {
		switch {
		case r.Revision != revision, r.Purpose == topsv1.PurposeRollback: // the node was rolled back individually
		case r.Phase == topsv1.OperationDone:
			return ""
		case len(r.Result.Fail) > 0:
			return r.Result.Fail[0]
		}
	}
	return ""
}
