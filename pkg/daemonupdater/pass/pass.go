// Package pass holds what one pass over a group read and decided: each step of the pass hands it to the
// next. It also keeps the state of a group's nodes between passes.
package pass

import (
	"slices"
	"time"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/gating"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/pinning"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/report"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
)

// Pass is one pass over a group.
type Pass struct {
	*observed.State
	// RolloutUnseen: this process created the DaemonRollout, but the cache does not show it. If
	// someone has deleted it since, there is no event.
	RolloutUnseen bool
	// Fleet is the state of the nodes.
	Fleet *Fleet
	// In is the input of the decision, and Decision its result.
	In       rollout.Input
	Decision rollout.Decision
	// Globals are the results of the global tasks of the plan in force. Again is the time until they are checked again, 0
	// if events cause that.
	Globals []topsv1.GlobalTaskNote
	Again   time.Duration
	// TaskError is why the global tasks before or after the nodes could not be read or started, nil if they could.
	TaskError error
	// Rejected are the pin requests that were rejected.
	Refused map[pinning.RequestKey]pinning.Refusal
	// PinRequestsBlockedBy says why pin requests cannot be decided now, "" if they can.
	PinRequestsBlockedBy string
}

// GateFacts returns the facts on which a decision about a pod at the gate depends; ledger is as this pass stored it. What it has just found
// to be settled counts from the next pass on: a pod that was released for it stays.
func (p *Pass) GateFacts(w gating.Waiting, ledger *topsv1.DaemonRolloutStatus) gating.Facts {
	released, _ := p.IsReleased(&p.In, &p.Decision)
	key := w.DaemonSet.Namespace + "/" + w.DaemonSet.Name
	f := gating.Facts{
		Uncontrolled: released || !gating.IsGateable(w.DaemonSet),
		Had:          p.Fleet.lastRevisions.Of(w.DaemonSet, w.Node),
	}
	for i, m := range p.In.Members {
		if m.Key == key {
			f.Target, f.GetsTarget = m.Target, p.Decision.GetsTarget(w.Node.Name, w.Node.UID, i)
		}
	}
	for i := range p.Decision.Ledger.Pins {
		if pin := &p.Decision.Ledger.Pins[i]; pin.Node == w.Node.Name && pin.Member == key && pin.AppliesTo(w.Node.Status.NodeInfo.MachineID) {
			f.Pin = pin.Revision
		}
	}
	if good := ledger.LastKnownGood; good != nil {
		f.Good = report.TargetIn(good.Targets, key)
	}
	if f.Had == "" && f.Good == "" {
		f.Common = p.Fleet.lastRevisions.Common(w.DaemonSet, f.Target)
	}
	f.Settled = report.TargetIn(p.Rollout.Status.Settled, key)
	return f
}

// PinFacts returns the facts on which a decision about pins depends.
func (p *Pass) PinFacts(gate gating.Mode) pinning.Facts {
	f := pinning.Facts{
		Input: &p.In, PolicyMissing: gate == gating.NotInstalled, RollsBack: pinning.RollsBack(p.Policy), Node: p.Fleet.Node,
		Gated:  func(i int) bool { return gate == gating.On && gating.IsGateable(p.Members[i].DaemonSet) },
		Before: func(i int, node string) (string, string) { return pinning.EarlierRevision(p.history(i, node)) },
		Kept: func(i int, hash string) bool {
			return gating.IsKept(p.Members[i].DaemonSet, p.Members[i].Revisions, hash)
		},
	}
	for _, upgrade := range p.Fleet.Reported.Asking() {
		for _, asked := range observed.OpenPinRequests(upgrade) {
			if request, ours := pinning.RequestFor(upgrade.Name, &asked, p.Members); ours {
				f.Requests = append(f.Requests, request)
			}
		}
	}
	return f
}

// AwaitsFreeing reports whether a retry that ends a pin of a node has no answer yet. Once the node has an operation, it would
// be taken for a retry of one of its tasks, and never be answered.
func (p *Pass) AwaitsFreeing(upgrade *topsv1.NodeUpgrade) bool {
	return p.PinRequestsBlockedBy == "" && slices.ContainsFunc(observed.OpenPinRequests(upgrade), func(asked observed.PinRequest) bool {
		_, ours := pinning.RequestFor(upgrade.Name, &asked, p.Members)
		return ours && asked.Verb == observed.VerbRetry
	})
}

// history returns what is known about the revisions of a member on one node.
func (p *Pass) history(member int, node string) *pinning.RevisionHistory {
	m := p.Members[member]
	h := &pinning.RevisionHistory{DaemonSet: m.DaemonSet, Revisions: m.Revisions, Target: p.In.Members[member].Target,
		Had: p.Fleet.lastRevisions.OfNode(m.DaemonSet, node), Floor: pinning.FloorOf(p.Policy), RolledBack: p.Rollout.Status.Rollback != nil}
	if good := p.Rollout.Status.LastKnownGood; good != nil {
		h.Good, h.Since = report.TargetIn(good.Targets, m.Key()), good.Since.Time
	}
	return h
}

// HoldsSlot reports whether a node that still exists has a slot.
func (p *Pass) HoldsSlot() bool {
	return slices.ContainsFunc(p.Decision.Ledger.Slots, func(s rollout.Slot) bool { return p.Fleet.Node(s.Node) != nil })
}
