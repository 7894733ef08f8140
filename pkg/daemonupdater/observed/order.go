package observed

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

// NewOperation makes the operation that brings a node to the targets: one job for all
// that is to be replaced on it, and, when an operation that failed holds the node, for all
// of it that is heavy, which is then verified. The error says what the logic book cannot do.
func (s *State) NewOperation(in *rollout.Input, book upgradeplan.Book, node *rollout.Node, id string) (*topsv1.NodeOperation, error) {
	plan := s.OperationPlan(in, &book, node)
	if len(plan.Changed) == 0 {
		plan.Changed = lightest(book, plan.Deployed)
	}
	mission, err := upgradeplan.Plan(book, []upgradeplan.Node{plan}, 1)
	if err != nil {
		return nil, fmt.Errorf("planning the operation of node %s: %w", node.Name, err)
	}
	op := &topsv1.NodeOperation{
		ID: id, NodeUID: node.UID, Rollout: s.RolloutKey(), Revision: in.Revision, Purpose: s.purpose(in), Job: stagesOf(mission),
	}
	for i := range node.Pods {
		pod := &node.Pods[i]
		if component := s.Members[pod.Member].Component(); replaces(mission, component) {
			op.Targets = append(op.Targets, targetOfOperation(s.Members[pod.Member], component, in.Members[pod.Member].Target, pod.Revision))
		}
	}
	if s.Policy != nil {
		constrain(op, &s.Policy.Spec)
	}
	return op, nil
}

// OperationPlan is what the generator of plans has to know of a node. What the book does not
// know is left out: it is replaced like any other pod.
func (s *State) OperationPlan(in *rollout.Input, book *upgradeplan.Book, node *rollout.Node) upgradeplan.Node {
	plan := upgradeplan.Node{Name: node.Name, ControlPlane: node.ControlPlane}
	held := node.Job != nil && node.Job.Held
	for i := range node.Pods {
		pod := &node.Pods[i]
		component := s.Members[pod.Member].Component()
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

// purpose is Rollback while the group goes back to its last known good revision.
func (s *State) purpose(in *rollout.Input) topsv1.OperationPurpose {
	if rb := s.Rollout.Status.Rollback; rb != nil && rb.To == in.Revision {
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

func targetOfOperation(m Member, component, revision, previous string) topsv1.OperationTarget {
	ds := m.DaemonSet
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

// OfOtherNode reports whether a NodeUpgrade belongs to a Node object of before that had
// the name.
func OfOtherNode(upgrade *topsv1.NodeUpgrade, order *rollout.Order) bool {
	return slices.ContainsFunc(upgrade.OwnerReferences, func(o metav1.OwnerReference) bool {
		return o.Kind == "Node" && o.Name == order.Node && o.UID != order.UID
	})
}

// Ordered says what an order needs of a NodeUpgrade as it is: next, which is what is asked
// for, changed; or that a new operation is made; or nothing, when the operation has ended
// or is as ordered, or when another one is at work.
func Ordered(upgrade *topsv1.NodeUpgrade, order *rollout.Order, own string) (next *topsv1.NodeOperation, makeNew bool) {
	if hasEnded(upgrade, order.Operation) && (!order.Abort || !holds(upgrade, order.Operation)) {
		return nil, false
	}
	if asked := upgrade.Spec.Operation; asked != nil && asked.ID == order.Operation {
		return amended(asked, order), false
	}
	if shown := upgrade.Status.Operation; order.Abort && shown != nil && shown.ID == order.Operation {
		return nil, false // it was taken away, and is being wound up
	}
	if job, disturbed := jobOf(upgrade, own); job != nil && (!job.Ours || disturbed && !job.Held) {
		return nil, false
	}
	return nil, true
}

// amended is an operation that is asked for already, as ordered; nil when it is that.
func amended(asked *topsv1.NodeOperation, order *rollout.Order) *topsv1.NodeOperation {
	next := asked.DeepCopy()
	next.Granted, next.Abort = next.Granted || order.Grant && !order.Abort, next.Abort || order.Abort
	if next.Granted == asked.Granted && next.Abort == asked.Abort {
		return nil
	}
	return next
}

// NewNodeUpgrade is the NodeUpgrade of a node that has none, with an operation.
func NewNodeUpgrade(order *rollout.Order, op *topsv1.NodeOperation) *topsv1.NodeUpgrade {
	return &topsv1.NodeUpgrade{
		ObjectMeta: metav1.ObjectMeta{
			Name:            order.Node,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: order.Node, UID: order.UID}},
		},
		Spec: topsv1.NodeUpgradeSpec{Operation: op},
	}
}
