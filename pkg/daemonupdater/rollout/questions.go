package rollout

import (
	"slices"

	"github.com/topsops/gcu-operator/pkg/upgradeplan/versions"
)

// Other packages ask these questions about a node and its pods.

// ToReplace reports whether a pod of a node is outdated and may be replaced under the given input, IsDue whether it
// may be replaced, or verified by an operation, and IsDisallowed whether the policy keeps it from the newest version.
func ToReplace(in *Input, node *Node, pod *Pod) bool {
	g := groupOf(in)
	return g.toReplace(node, pod)
}

// IsDisallowed is documented with ToReplace.
func IsDisallowed(in *Input, node *Node, pod *Pod) bool {
	g := groupOf(in)
	return isDisallowed(&g, node, pod)
}

// IsBehind reports whether a pod of a node is not at the target of its member, for whatever reason but that it is left out.
func IsBehind(in *Input, node *Node, pod *Pod) bool {
	g := groupOf(in)
	return isBehind(&g, pod) && !isLeftOut(&g, node, pod)
}

// IsDue is documented with ToReplace.
func IsDue(in *Input, node *Node, pod *Pod) bool {
	g := groupOf(in)
	return isDue(&g, node, pod)
}

// LacksProof reports whether a pod at its target, available or not, is not all that its node needs.
func LacksProof(in *Input, node *Node, pod *Pod) bool {
	g := groupOf(in)
	return g.isUnproven(node, pod)
}

// OnlyIdle reports whether an operation that a node is to get now may touch it only while it is idle.
func OnlyIdle(in *Input, node *Node) bool {
	g := groupOf(in)
	return !g.isAskedFor(node) && slices.ContainsFunc(node.Pods, func(p Pod) bool { return g.restartsWithoutRequest(node, &p) })
}

// Refusals returns why the policy does not allow the versions that a node would get, nil if it does.
func Refusals(in *Input, node *Node) []versions.Refusal {
	g := groupOf(in)
	return refusalsOf(&g, node)
}
