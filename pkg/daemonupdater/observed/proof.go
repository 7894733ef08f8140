package observed

import (
	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/pkg/nodeupgrade/operation"
)

// describeProof adds to a node what operations have still to do there although its pods are at
// their targets: restart the container runtime, or verify what they did.
func (s *State) describeProof(n *rollout.Node, upgrade *topsv1.NodeUpgrade) {
	if upgrade == nil {
		return
	}
	if n.NeedsRestart = upgrade.Status.Host.NeedsRestart(); s.hasToolkit() {
		n.LeftToAdministrator = operation.LeftToAdministrator(upgrade)
	}
	for i := range n.Pods {
		n.Pods[i].Unverified = IsUnverified(upgrade, s.Members[n.Pods[i].Member])
	}
}

// IsUnverified reports whether an operation touched the pod of a member, or was to, and ended before
// its work was verified.
func IsUnverified(upgrade *topsv1.NodeUpgrade, m Member) bool {
	return operation.Unverified(upgrade, m.Component(), m.DaemonSet.CreationTimestamp.Time)
}
