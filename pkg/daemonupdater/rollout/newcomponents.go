package rollout

import (
	"slices"

	"github.com/topsops/gcu-operator/pkg/upgradeplan/versions"
)

// RefusalsOfNew returns why what is new on a node in a preview does not fit what else the node has or gets, nil if it
// does. What is new follows nothing, so it is no matter of steps; and a rollout does not hold it.
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
