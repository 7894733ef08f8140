package observed

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

// NewOperation returns the operation that brings a node to the targets: one op that replaces
// everything outdated, and verifies what lacks proof. If an ended operation keeps the node
// cordoned, the op covers all heavy components, so that they are verified; if a slot names the op, which was deleted
// with its NodeUpgrade or not made yet, it covers those of the slot. It also covers those of which only the ledger shows that they are
// unverified: it does not any more when the node is started. It returns an error if the logic book has no such op.
func (s *State) NewOperation(in *rollout.Input, book upgradeplan.LogicBook, node *rollout.Node, id string) (*topsv1.NodeOperation, error) {
	members := membersOfSlot(in, node, id)
	plan := operationPlan(s, in, &book, node, members)
	if len(plan.Changed) == 0 {
		plan.Changed = lightest(book, plan.Deployed)
	}
	mission, err := upgradeplan.Plan(book, []upgradeplan.Node{plan}, 1)
	if err != nil {
		return nil, fmt.Errorf("planning the operation of node %s: %w", node.Name, err)
	}
	mission = s.Plan.cut(mission)
	op := &topsv1.NodeOperation{
		ID: id, NodeUID: node.UID, Rollout: s.OperationKey(), Revision: in.Revision, Purpose: s.purpose(in), Job: stagesOf(mission),
		OnlyIdle: rollout.OnlyIdle(in, node),
	}
	for i := range node.Pods {
		pod := &node.Pods[i]
		m := s.Members[pod.Member]
		if component := m.Component(); replaces(mission, component) {
			target := targetOfOperation(m, component, in.Members[pod.Member].Target, pod)
			// The operation of the slot may be made again, and have replaced it before. What is only replaced along with others is not verified.
			unproven := in.Members[pod.Member].Heavy && (pod.Unverified || len(node.Ended) == 0 && slices.Contains(members, m.Key()))
			if target.Previous == "" && unproven {
				target.Previous = target.Revision
			}
			op.Targets = withTarget(op.Targets, target, daemonset.IsLeaving(m.DaemonSet))
		}
	}
	if goesBack(&book, op.Targets) {
		op.Purpose = topsv1.PurposeRollback
	}
	constrain(op, s.Policy)
	return op, nil
}

// withTarget adds a target. For one component, targets that leave come before the one that stays.
func withTarget(targets []topsv1.OperationTarget, t topsv1.OperationTarget, leaves bool) []topsv1.OperationTarget {
	i := slices.IndexFunc(targets, func(o topsv1.OperationTarget) bool { return o.Component == t.Component })
	switch {
	case i < 0:
		return append(targets, t)
	case leaves:
		targets[i].Leaving = append(targets[i].Leaving, t.All()...)
	default:
		t.Leaving = targets[i].All()
		targets[i] = t
	}
	return targets
}

// OperationPlan returns what the planner needs to know about a node. Components that the book
// does not know are left out: their pods are replaced like any other pod.
func (s *State) OperationPlan(in *rollout.Input, book *upgradeplan.LogicBook, node *rollout.Node) upgradeplan.Node {
	return operationPlan(s, in, book, node, nil)
}

// membersOfSlot returns the keys of the members that an operation was made for, if a slot of the node names it.
func membersOfSlot(in *rollout.Input, node *rollout.Node, id string) []string {
	i := slices.IndexFunc(in.Ledger.Slots, func(slot rollout.Slot) bool { return slot.Node == node.Name && slot.Operation == id })
	if i < 0 {
		return nil
	}
	return in.Ledger.Slots[i].Members
}

// operationPlan returns the OperationPlan of an operation that also verifies the heavy ones of these members, by key.
func operationPlan(s *State, in *rollout.Input, book *upgradeplan.LogicBook, node *rollout.Node, members []string) upgradeplan.Node {
	plan := upgradeplan.Node{Name: node.Name, ControlPlane: node.ControlPlane}
	kept := node.Operation != nil && node.Operation.KeptCordoned
	var stays []string
	for i := range node.Pods {
		pod := &node.Pods[i]
		m := s.Members[pod.Member]
		component := m.Component()
		if book.Disruption([]string{component}, false) == "" {
			continue
		}
		plan.Deployed = append(plan.Deployed, component)
		covers := kept || slices.Contains(members, m.Key()) || rollout.IsForgotten(in, node, pod)
		verifies := covers && in.Members[pod.Member].Heavy && !rollout.IsDisallowed(in, node, pod)
		if rollout.IsDue(in, node, pod) || verifies {
			plan.Changed = append(plan.Changed, component)
		}
		if !daemonset.IsLeaving(m.DaemonSet) {
			stays = append(stays, component)
		}
	}
	for _, c := range node.New { // in a preview: it exists when the plan is run
		if book.Disruption([]string{c.Name}, false) != "" {
			plan.Deployed, stays = append(plan.Deployed, c.Name), append(stays, c.Name)
		}
	}
	plan.Changed = unique(plan.Changed) // a component with a new name appears twice
	plan.Removed = slices.DeleteFunc(slices.Clone(plan.Changed), func(c string) bool { return slices.Contains(stays, c) })
	return plan
}

// unique returns the distinct elements of a list, in order of first appearance.
func unique(list []string) (once []string) {
	for _, c := range list {
		if !slices.Contains(once, c) {
			once = append(once, c)
		}
	}
	return once
}

// lightest returns the components for an operation that has nothing left to replace. Such an
// operation is still needed to end one that is in the ledger, or to uncordon a node that is kept cordoned.
func lightest(book upgradeplan.LogicBook, deployed []string) []string {
	light := slices.DeleteFunc(slices.Clone(deployed), func(c string) bool { return heavy(&book, c) })
	if len(light) == 0 {
		return deployed
	}
	return light
}

// stagesOf joins the jobs of a mission for one node into a sequence of stages.
func stagesOf(mission upgradeplan.Mission) []topsv1.JobStage {
	var stages []topsv1.JobStage
	for _, batch := range mission {
		for _, op := range batch {
			for _, stage := range op {
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

// templateOf returns the template of a revision, nil if it no longer exists.
func (m *Member) templateOf(hash string) *corev1.PodTemplateSpec {
	revision := daemonset.RevisionOf(m.Revisions, hash)
	if revision == nil {
		return nil
	}
	template, err := daemonset.TemplateOf(revision)
	if err != nil {
		return nil // such a revision is not restored either
	}
	return template
}

func replaces(mission upgradeplan.Mission, component string) bool {
	for t := range mission.All() {
		if t.Target == component && t.Action == upgradeplan.ActionReplace {
			return true
		}
	}
	return false
}

// targetOfOperation returns the target of the pod of a member: its newest revision, or the one that the node is pinned to.
func targetOfOperation(m Member, component, newest string, pod *rollout.Pod) topsv1.OperationTarget {
	ds, spec := m.DaemonSet, &m.DaemonSet.Spec.Template.Spec
	t := topsv1.OperationTarget{
		Component: component, DaemonSet: topsv1.NamespacedRef{Namespace: ds.Namespace, Name: ds.Name, UID: ds.UID}, Revision: newest,
	}
	if pod.Pin != "" && pod.Pin != newest {
		t.Revision, t.KeptFrom = pod.Pin, newest
		if before := m.templateOf(pod.Pin); before != nil {
			spec = &before.Spec
		}
	}
	if pod.Revision != t.Revision {
		t.Previous = pod.Revision
	}
	if !daemonset.IsLeaving(ds) {
		t.Images, t.PullSecrets = daemonset.Images(spec), daemonset.PullSecrets(spec)
	}
	return t
}

// goesBack reports whether an operation brings a driver or toolkit back to an earlier revision, or leaves one there and brings
// none forward. Other components are only replaced along with them.
func goesBack(book *upgradeplan.LogicBook, targets []topsv1.OperationTarget) bool {
	kept, forward := false, false
	for i := range targets {
		t := &targets[i]
		switch {
		case !heavy(book, t.Component):
		case t.KeptFrom == "":
			forward = forward || !isUnchanged(t)
		case !isUnchanged(t):
			return true
		default:
			kept = true
		}
	}
	return kept && !forward
}

// hasEarlierDriver reports whether an operation leaves a node with a driver that is, or may be, older than the newest one.
func hasEarlierDriver(op *topsv1.NodeOperation) bool {
	return op.Purpose == topsv1.PurposeRollback || slices.ContainsFunc(op.Targets, func(t topsv1.OperationTarget) bool {
		return t.Component == upgradeplan.TargetDriver && t.KeptFrom != ""
	})
}

// constrain sets what a policy, nil for none, says about an operation. The driver version that it names is that of the newest
// driver.
func constrain(op *topsv1.NodeOperation, named *topsv1.UpgradePolicy) {
	var policy topsv1.UpgradePolicySpec
	if named != nil {
		policy = named.Spec
	}
	v := ptr.Deref(policy.Validation, topsv1.ValidationPolicy{})
	op.Drain, op.DriverVersion = policy.Drain.DeepCopy(), v.DriverVersion
	if hasEarlierDriver(op) {
		op.DriverVersion = ""
	}
	op.MinFreeDiskBytes = cmp.Or(v.MinFreeDisk, &resource.Quantity{}).Value()
	op.Deadlines = topsv1.OperationDeadlines{ProgressSeconds: ptr.Deref(policy.ProgressDeadlineSeconds, 0), LostSeconds: ptr.Deref(policy.LostDeadlineSeconds, 0),
		VerifySeconds: v.DeadlineSeconds, SoakSeconds: v.SoakSeconds}
}

// describePolicy notes whether a requested operation would be different under the current policy.
func describePolicy(op *rollout.Operation, upgrade *topsv1.NodeUpgrade, policy *topsv1.UpgradePolicy) {
	if op == nil || upgrade.Spec.Operation == nil || op.ID != upgrade.Spec.Operation.ID {
		return
	}
	next := upgrade.Spec.Operation.DeepCopy()
	constrain(next, policy)
	op.OldPolicy = !equality.Semantic.DeepEqual(next, upgrade.Spec.Operation)
}

// OfOtherNode reports whether a NodeUpgrade belongs to a former Node object of the same name.
func OfOtherNode(upgrade *topsv1.NodeUpgrade, change *rollout.OperationChange) bool {
	return slices.ContainsFunc(upgrade.OwnerReferences, func(o metav1.OwnerReference) bool {
		return o.Kind == "Node" && o.Name == change.Node && o.UID != change.UID
	})
}

// NextOperation returns what a change makes of the operation in a NodeUpgrade: next, the operation of its spec with the
// change; or makeNew if a new operation is needed; or neither, if there is nothing to change or another operation has
// the node. own is the key of the group's rollout.
func NextOperation(upgrade *topsv1.NodeUpgrade, change *rollout.OperationChange, own string) (next *topsv1.NodeOperation, makeNew bool) {
	if comesTooLate(upgrade, change) {
		return nil, false
	}
	if asked := upgrade.Spec.Operation; asked != nil && asked.ID == change.Operation {
		return withChange(asked, change), false
	}
	if shown := upgrade.Status.Operation; change.Abort && shown != nil && shown.ID == change.Operation {
		if asked := upgrade.Spec.Operation; shown.Held && asked != nil && asked.Rollout == own {
			return withChange(asked, change), false // the next one, which takes over the cordon and then ends
		}
		return nil, false // removed from the spec, it is being aborted
	}
	return nil, !isReserved(upgrade, change, own)
}

// comesTooLate reports whether the operation of a change has ended, or may no longer be aborted at work, which was not so when that was decided.
func comesTooLate(upgrade *topsv1.NodeUpgrade, change *rollout.OperationChange) bool {
	if hasEnded(upgrade, change.Operation) && (!change.Abort || change.AtWork || !keepsCordoned(upgrade, change.Operation)) {
		return true
	}
	shown := upgrade.Status.Operation
	return change.AtWork && shown != nil && shown.ID == change.Operation && isCommitted(shown)
}

// isReserved reports whether a node has an operation that a change may not replace.
func isReserved(upgrade *topsv1.NodeUpgrade, change *rollout.OperationChange, own string) bool {
	op, disturbed := operationOf(upgrade, own)
	if op == nil {
		return false
	}
	prepares := !change.Grant && !change.Abort // decided from a cache that may not show the pending operation yet
	keeps := belongsToAnotherGroup(upgrade, op, own) || prepares && hasPendingOperation(upgrade)
	return keeps && !replaced(upgrade, change, disturbed) || disturbed && !op.KeptCordoned
}

// hasPendingOperation reports whether the spec has an operation that has not ended.
func hasPendingOperation(upgrade *topsv1.NodeUpgrade) bool {
	asked := upgrade.Spec.Operation
	return asked != nil && !hasEnded(upgrade, asked.ID)
}

// belongsToAnotherGroup reports whether the operation that has the node, or the pending one, is of another group.
func belongsToAnotherGroup(upgrade *topsv1.NodeUpgrade, op *rollout.Operation, own string) bool {
	return !op.Ours || hasPendingOperation(upgrade) && upgrade.Spec.Operation.Rollout != own
}

// replaced reports whether the operation in the spec is the one that a change replaces, and has not been granted.
func replaced(upgrade *topsv1.NodeUpgrade, change *rollout.OperationChange, disturbed bool) bool {
	asked := upgrade.Spec.Operation
	return asked != nil && asked.ID == change.Instead && !disturbed
}

// withChange returns the operation of the spec with a change applied, nil if nothing changes. One that was aborted before its grant
// gets none: its end says nothing about its revisions.
func withChange(asked *topsv1.NodeOperation, change *rollout.OperationChange) *topsv1.NodeOperation {
	next := asked.DeepCopy()
	next.Granted, next.Abort = next.Granted || change.Grant && !change.Abort && !next.Abort, next.Abort || change.Abort
	if next.Granted == asked.Granted && next.Abort == asked.Abort {
		return nil
	}
	return next
}

// NewNodeUpgrade returns a NodeUpgrade with an operation, for a node that has none.
func NewNodeUpgrade(change *rollout.OperationChange, op *topsv1.NodeOperation) *topsv1.NodeUpgrade {
	return &topsv1.NodeUpgrade{
		ObjectMeta: metav1.ObjectMeta{
			Name:            change.Node,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: change.Node, UID: change.UID}},
		},
		Spec: topsv1.NodeUpgradeSpec{Operation: op},
	}
}
