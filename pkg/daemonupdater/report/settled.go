package report

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/gating"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/pkg/message"
)

// Settle sets the settled revisions in a new status, for the admission policy gcu-operator-gate: those of
// members whose pods may be gated, none if nothing is upgraded or there is no gate. They do not change while
// the group is blocked. A pod that is not bound to its node, as an offline one may have, does not
// show that the node has had its revision. denied says what the API server denies about pods at the gate, "" for nothing.
func Settle(status *topsv1.DaemonRolloutStatus, gate gating.Mode, s *observed.State, in rollout.Input, d rollout.Decision, denied string) {
	before := s.Rollout.Status.Settled
	reportGate(status, gate, s.Rollout.Generation, in.Now, denied)
	switch {
	case !gate.Active(), in.Settings.Strategy == daemonset.NoStrategy && in.Blocked == nil, in.Settings.Strategy == rollout.RestartsOnly:
		status.Settled = nil
	case in.Blocked != nil:
		status.Settled = slices.Clone(before)
	default:
		everywhere := d.Behind == 0 && d.Unbound == 0 && d.Counts.Total > 0 && d.Counts.Updated == d.Counts.Total && len(d.Ledger.Failures) == 0
		status.Settled = gating.Settled(before, s.Rollout.Status.Targets, status.Targets, everywhere, d.Behind > 0)
	}
	status.Settled = slices.DeleteFunc(status.Settled, func(t topsv1.RevisionTarget) bool {
		return !slices.ContainsFunc(s.Members, func(m observed.Member) bool { return m.Key() == t.DaemonSet && gating.IsGateable(m.DaemonSet) })
	})
}

// reportGate sets the condition Gated, which exists only with the gate.
func reportGate(status *topsv1.DaemonRolloutStatus, gate gating.Mode, generation int64, now time.Time, denied string) {
	if gate == gating.Off {
		meta.RemoveStatusCondition(&status.Conditions, topsv1.RolloutGated)
		return
	}
	c := condition(topsv1.RolloutGated, gate == gating.On, reasonGateServed, reasonGateNotServed, cmp.Or(gate.Why(), "pods deleted or evicted outside the rollout wait until their node may get the new revision"))
	if gate == gating.NotInstalled {
		c.Reason = reasonGateNotInstalled
	}
	if denied != "" {
		c.Message = message.Short(denied+"; "+c.Message, maxCondition)
	}
	c.ObservedGeneration, c.LastTransitionTime = generation, wholeSecond(now)
	meta.SetStatusCondition(&status.Conditions, c)
}
