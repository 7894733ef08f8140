package rollout

import (
	"slices"

	"github.com/topsops/gcu-operator/pkg/upgradeplan/versions"
)

// RefusalsOfNew returns why the new components of a node in a preview do not fit the other components that the node
// has or gets, nil if they do. A new component follows no version, so steps do not apply, and no rollout keeps it back.
func RefusalsOfNew(in *Input, node *Node) []versions.Refusal {
	if in.Policy.Versions == nil || len(node.New) == 0 {
		return nil
	}
	g := groupOf(in)
	n := versionsOf(&g, node)
	for i := range n.Components {
		c := &n.Components[i]
		c.Changes = c.Has == "" && slices.ContainsFunc(node.New, func(added versions.Component) bool { return added.Name == c.Name })
	}
	return in.Policy.Versions.Refuse(n)
}
