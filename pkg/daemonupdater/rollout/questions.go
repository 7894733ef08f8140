package rollout

import (
	"slices"

	"github.com/topsops/gcu-operator/pkg/upgradeplan/versions"
)

// Other packages call these functions to ask about a node and its pods.

// ToReplace reports whether a pod of a node is outdated, or has no cards, and may be replaced.
func ToReplace(in *Input, node *Node, pod *Pod) bool {
	g := groupOf(in)
	return g.toReplace(node, pod)
}

// IsDisallowed reports whether a pod of a node is outdated, and the policy does not allow the newest version.
func IsDisallowed(in *Input, node *Node, pod *Pod) bool {
	g := groupOf(in)
	return isDisallowed(&g, node, pod)
}

// IsBehind reports whether a pod of a node is not at the target of its member, and is not left out.
func IsBehind(in *Input, node *Node, pod *Pod) bool {
	g := groupOf(in)
	return isBehind(&g, pod) && !isLeftOut(&g, node, pod)
}

// IsDue reports whether a pod of a node may be replaced, or verified by an operation.
func IsDue(in *Input, node *Node, pod *Pod) bool {
	g := groupOf(in)
	return isDue(&g, node, pod)
}

// NeedsVerification reports whether an operation must still verify a pod at its target, available or not, or restart the
// runtime for it.
func NeedsVerification(in *Input, node *Node, pod *Pod) bool {
	g := groupOf(in)
	return g.needsVerification(node, pod)
}

// IsForgotten reports whether the next operation of a node verifies a pod that is at its target, or missing, also if nobody requested that:
// later, nothing would show any more that it is unverified. One that is left out it does not: a prepared operation that did would be stale.
func IsForgotten(in *Input, node *Node, pod *Pod) bool {
	g := groupOf(in)
	return pod.Forgotten && g.isUnverified(pod) && !g.isOutdated(pod) && !isLeftOut(&g, node, pod)
}

// OnlyIdle reports whether an operation that is created for a node now may touch it only while it is idle.
func OnlyIdle(in *Input, node *Node) bool {
	g := groupOf(in)
	return !g.allowsWork(node) && slices.ContainsFunc(node.Pods, func(p Pod) bool { return g.restartsWithoutRequest(node, &p) })
}

// Refusals returns why the policy does not allow the versions that a node would get, nil if it does.
func Refusals(in *Input, node *Node) []versions.Refusal {
	g := groupOf(in)
	return refusalsOf(&g, node)
}
