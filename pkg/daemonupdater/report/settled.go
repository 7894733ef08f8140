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

// Gate is what a status says of the gate: its mode, on how many nodes pods wait at it, and what the API server denies about
// these, "" for nothing.
type Gate struct {
	Mode    gating.Mode
	Waiting int
	Denied  string
}

// Settle sets the settled revisions in a new status, for the admission policy gcu-operator-gate: those of
// members whose pods may be gated, none if nothing is upgraded or there is no gate. They do not change while
// the group is blocked. A node with a pod at the gate is behind, whatever the revision of the pod. A pod that is not bound to its
// node, as an offline one may have, does not show that the node has had its revision.
func Settle(status *topsv1.DaemonRolloutStatus, gate Gate, s *observed.State, in rollout.Input, d rollout.Decision) {
	before := s.Rollout.Status.Settled
	reportGate(status, gate, s.Rollout.Generation, in.Now)
	switch {
	case !gate.Mode.Active(), in.Settings.Strategy == daemonset.NoStrategy && in.Blocked == nil, in.Settings.Strategy == rollout.RestartsOnly:
		status.Settled = nil
	case in.Blocked != nil:
		status.Settled = slices.Clone(before)
	default:
		behind := d.Behind+gate.Waiting > 0
		everywhere := !behind && d.Unbound == 0 && d.Counts.Total > 0 && d.Counts.Updated == d.Counts.Total && len(d.Ledger.Failures) == 0
		status.Settled = gating.Settled(before, s.Rollout.Status.Targets, status.Targets, everywhere, behind)
	}
	status.Settled = slices.DeleteFunc(status.Settled, func(t topsv1.RevisionTarget) bool {
		return !slices.ContainsFunc(s.Members, func(m observed.Member) bool { return m.Key() == t.DaemonSet && gating.IsGateable(m.DaemonSet) })
	})
}

// reportGate sets the condition Gated, which exists only with the gate.
func reportGate(status *topsv1.DaemonRolloutStatus, gate Gate, generation int64, now time.Time) {
	if gate.Mode == gating.Off {
		meta.RemoveStatusCondition(&status.Conditions, topsv1.RolloutGated)
		return
	}
	c := condition(topsv1.RolloutGated, gate.Mode == gating.On, reasonGateServed, reasonGateNotServed, cmp.Or(gate.Mode.Why(), "pods deleted or evicted outside the rollout wait until their node may get the new revision"))
	if gate.Mode == gating.NotInstalled {
		c.Reason = reasonGateNotInstalled
	}
	if gate.Denied != "" {
		c.Message = message.Short(gate.Denied+"; "+c.Message, maxCondition)
	}
	c.ObservedGeneration, c.LastTransitionTime = generation, wholeSecond(now)
	meta.SetStatusCondition(&status.Conditions, c)
}
