package preview

import (
	"fmt"
	"slices"
	"strings"

	"github.com/topsops/gcu-operator/pkg/message"
)

// NotChecked says that the versions of an upgrade could not be checked; the reason follows it in a message.
const NotChecked = "the versions are not checked, which the operator does on each node"

// Without marks the nodes that wait even without the change: before is the prediction without it.
func (r *Rollout) Without(before *Rollout) {
	for after, before := range map[*[]LeftNode][]LeftNode{&r.Left: before.Left, &r.Unfit: before.Unfit} {
		waited := make(map[LeftNode]bool, len(before))
		for _, n := range before {
			waited[n] = true
		}
		for i := range *after {
			(*after)[i].Already = waited[(*after)[i]]
		}
	}
}

// Refused returns why an upgrade is refused, "" if it is not. It is refused if the policy allows its versions on
// no reachable node that it affects. If the policy allows them on some nodes, the others wait. A reason for which
// nodes wait already does not refuse a change of something else.
func (r *Rollout) Refused() string {
	refused := caused(r.notAllowed())
	if r.Allowed > 0 {
		refused = nil
	}
	if r.Fit == 0 && len(refused) == 0 {
		refused = caused(r.Unfit)
	}
	if len(refused) == 0 {
		return ""
	}
	return "the UpgradePolicy does not allow these versions: " + whyNotAllowed(refused)
}

// caused returns the nodes that do not wait already.
func caused(nodes []LeftNode) []LeftNode {
	return slices.DeleteFunc(slices.Clone(nodes), func(n LeftNode) bool { return n.Already })
}

// Waiting returns on which nodes the policy does not allow the versions of an upgrade that is not refused; ""
// if it allows them on all.
func (r *Rollout) Waiting() string {
	if r.Refused() != "" {
		return ""
	}
	var says []string
	if waiting := r.notAllowed(); len(waiting) > 0 {
		says = append(says, "not allowed by the UpgradePolicy "+whyNotAllowed(waiting))
	}
	if len(r.Unfit) > 0 {
		says = append(says, "deployed at once, though not allowed by the UpgradePolicy "+whyNotAllowed(r.Unfit))
	}
	return strings.Join(says, "; ")
}

// whyNotAllowed describes why nodes wait, with the first one as an example.
func whyNotAllowed(nodes []LeftNode) string {
	return fmt.Sprintf("on %s, as on %s: %s", message.Count(len(nodes), "node"), nodes[0].Name, nodes[0].Message)
}
