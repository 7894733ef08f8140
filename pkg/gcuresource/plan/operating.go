package plan

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/nodeupgrade/operation"
)

// Operating returns the names of the nodes, of those given, on which an operation of a rollout is not over, or yet to begin:
// it may have cordoned its node and closed the devices, and the manager has to release the node. A NodeUpgrade whose Node
// is gone does not count.
func Operating(upgrades []topsv1.NodeUpgrade, rollout string, nodes []*corev1.Node) (names []string) {
	for i := range upgrades {
		u := &upgrades[i]
		exists := func(node *corev1.Node) bool { return node.Name == u.Name }
		if (isAtWork(u, rollout) || isAwaited(u, rollout)) && slices.ContainsFunc(nodes, exists) {
			names = append(names, u.Name)
		}
	}
	slices.Sort(names)
	return names
}

// isAtWork reports whether an operation of a rollout is not over, or keeps its node cordoned.
func isAtWork(u *topsv1.NodeUpgrade, rollout string) bool {
	op := u.Status.Operation
	return !operation.Over(op) && op.Rollout == rollout
}

// isAwaited reports whether the spec has an operation of a rollout that has not begun yet.
func isAwaited(u *topsv1.NodeUpgrade, rollout string) bool {
	asked, op := u.Spec.Operation, u.Status.Operation
	return asked != nil && asked.Rollout == rollout && (op == nil || op.ID != asked.ID) &&
		!slices.ContainsFunc(u.Status.History, func(r topsv1.OperationRecord) bool { return r.ID == asked.ID })
}
