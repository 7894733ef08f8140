package preview

import (
	"fmt"
	"slices"

	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/pkg/message"
)

// NotChecked says that the versions of an upgrade could not be checked, before the reason.
const NotChecked = "the versions are not checked, which the operator does on each node"

// Without marks the nodes that are not upgraded without the change either: before is the prediction of that.
func (r *Rollout) Without(before *Rollout) {
	for i := range r.Left {
		r.Left[i].Already = slices.Contains(before.Left, r.Left[i])
	}
}

// Refused returns why an upgrade is refused, "" if it is not: the policy does not allow its versions on
// any reachable node that it is about. If it allows them on some, the others wait; and what nodes wait for
// already refuses no change of something else.
func (r *Rollout) Refused() string {
	refused := slices.DeleteFunc(r.notAllowed(), func(n LeftNode) bool { return n.Already })
	if len(refused) == 0 || r.Allowed > 0 {
		return ""
	}
	for _, n := range r.Left {
		switch rollout.Reason(n.Reason) {
		case rollout.ReasonVersionNotAllowed, rollout.ReasonNodeOffline, rollout.ReasonLeftOut:
		default:
			return ""
		}
	}
	return "the UpgradePolicy does not allow these versions: " + whyNotAllowed(refused)
}

// Waiting says on which nodes the policy does not allow the versions of an upgrade that is not refused, ""
// if it allows them on all.
func (r *Rollout) Waiting() string {
	waiting := r.notAllowed()
	if len(waiting) == 0 || r.Refused() != "" {
		return ""
	}
	return "not allowed by the UpgradePolicy " + whyNotAllowed(waiting)
}

// whyNotAllowed says why nodes wait, by the example of the first.
func whyNotAllowed(nodes []LeftNode) string {
	return fmt.Sprintf("on %s, as on %s: %s", message.Count(len(nodes), "node"), nodes[0].Name, nodes[0].Message)
}
