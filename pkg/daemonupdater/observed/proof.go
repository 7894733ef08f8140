package observed

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/pkg/nodeupgrade/operation"
)

// describeProof adds to a node what operations still have to do there although its pods are at their targets: restart
// the container runtime, or verify their work; and which pods have no cards although an administrator restarted the
// runtime, or announce none.
func (s *State) describeProof(n *rollout.Node, node *corev1.Node, pods [][]*corev1.Pod, upgrade *topsv1.NodeUpgrade, now time.Time) {
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
		p.Unverified = IsUnverified(upgrade, s.Members[p.Member])
		p.OffersNone = operation.OffersNone(upgrade, node, component, &s.Members[p.Member].DaemonSet.Spec.Template.Spec)
		if p.UID != "" {
			p.NoCards = operation.HasNoCards(upgrade, node, component, daemonset.PodOf(pods[p.Member]), now)
			blind = blind || p.NoCards && p.OffersNone
		}
	}
	for i := range n.Pods {
		p := &n.Pods[i]
		p.NoCards = p.NoCards || blind && p.UID != "" && operation.StartedWithoutCards(upgrade, s.Members[p.Member].Component(), daemonset.PodOf(pods[p.Member]))
	}
}

// IsUnverified reports whether an operation touched the pod of a member, or was to, and ended before
// its work was verified.
func IsUnverified(upgrade *topsv1.NodeUpgrade, m Member) bool {
	return operation.Unverified(upgrade, m.Component(), m.DaemonSet.CreationTimestamp.Time)
}
