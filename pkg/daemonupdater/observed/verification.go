package observed

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/pkg/nodeupgrade/operation"
)

// describeVerification adds to a node what operations still have to do there although its pods are at their targets: restart
// the container runtime, or verify their work; and which pods have no cards although an administrator restarted the
// runtime, or announce none.
func (s *State) describeVerification(n *rollout.Node, node *corev1.Node, upgrade *topsv1.NodeUpgrade, now time.Time) {
	for i := range n.Pods {
		m := s.Members[n.Pods[i].Member]
		n.Pods[i].Forgotten = isForgotten(s, node, upgrade, m)
		n.Pods[i].Unverified = n.Pods[i].Forgotten || showsUnverified(upgrade, m)
	}
	if upgrade == nil {
		return
	}
	if n.NeedsRestart = upgrade.Status.Host.NeedsRestart(); s.hasToolkit() {
		n.LeftToAdministrator = operation.LeftToAdministrator(upgrade)
	}
	blind := false
	for i := range n.Pods {
		p := &n.Pods[i]
		component := s.Members[p.Member].Component()
		p.OffersNone = operation.OffersNone(upgrade, node, component, &s.Members[p.Member].DaemonSet.Spec.Template.Spec)
		if p.UID != "" {
			p.NoCards = operation.HasNoCards(upgrade, node, component, daemonset.PodOf(s.Members[p.Member].Pods[n.Name]), now)
			blind = blind || p.NoCards && p.OffersNone
		}
	}
	for i := range n.Pods {
		p := &n.Pods[i]
		p.NoCards = p.NoCards || blind && p.UID != "" && operation.StartedWithoutCards(upgrade, s.Members[p.Member].Component(), daemonset.PodOf(s.Members[p.Member].Pods[n.Name]))
	}
}

// IsUnverified reports whether an operation touched the pod of a member on a node, or was to, and ended before its work was
// verified. upgrade, nil for none, has the history of the node. Somebody may have deleted it; then the failure in the ledger shows
// that until another operation is done.
func IsUnverified(s *State, node *corev1.Node, upgrade *topsv1.NodeUpgrade, m Member) bool {
	return showsUnverified(upgrade, m) || isForgotten(s, node, upgrade, m)
}

// showsUnverified reports whether the history of a node, which a NodeUpgrade has, shows that the pod of a member is unverified.
func showsUnverified(upgrade *topsv1.NodeUpgrade, m Member) bool {
	return upgrade != nil && operation.Unverified(upgrade, m.Component(), m.DaemonSet)
}

// isForgotten reports whether only a failure in the ledger shows that the pod of a member on a node is unverified.
func isForgotten(s *State, node *corev1.Node, upgrade *topsv1.NodeUpgrade, m Member) bool {
	failed := slices.ContainsFunc(s.Rollout.Status.Failed, func(n topsv1.NodeNote) bool {
		machine := node.Status.NodeInfo.MachineID
		if n.Node != node.Name || n.MachineID != "" && machine != "" && n.MachineID != machine || !countsAsUnverified(s, &n) {
			return false
		}
		target, err := m.Target() // compares revisions, so only for nodes that failed
		return err == nil && slices.Contains(n.Targets, topsv1.RevisionTarget{DaemonSet: m.Key(), Hash: target})
	})
	return failed && (upgrade == nil || !operation.HasEvidence(upgrade, m.Component(), m.DaemonSet))
}

// countsAsUnverified reports whether a failure in the ledger is of an operation, and no person has resumed the rollout since.
func countsAsUnverified(s *State, failed *topsv1.NodeNote) bool {
	switch rollout.Reason(failed.Reason) {
	case rollout.ReasonOperationFailed, rollout.ReasonQuarantined, rollout.ReasonOperationAborted:
		return s.Rollout.LastResume() == s.Rollout.Status.Resumed
	}
	return false
}

// UnverifiedByLedger returns the targets of the failures in the ledger by which pods of nodes may be unverified, by node.
func UnverifiedByLedger(s *State) map[string][]topsv1.RevisionTarget {
	nodes := map[string][]topsv1.RevisionTarget{}
	for i := range s.Rollout.Status.Failed {
		if failed := &s.Rollout.Status.Failed[i]; countsAsUnverified(s, failed) {
			nodes[failed.Node] = failed.Targets
		}
	}
	return nodes
}
