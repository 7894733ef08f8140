package daemonupdater

import (
	"context"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/access"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/gating"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/pinning"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/report"
)

// pinStep decides which nodes are kept at an earlier revision. Its decision enters the ledger, which is stored
// before anything is done about it.
type pinStep struct {
	access.Cluster
	gate gating.Mode
}

// decide changes the pins and failures of the ledger that the plan starts from.
func (s pinStep) decide(ctx context.Context, p *pass) error {
	facts := p.pinFacts(s.gate)
	next := pinning.NextOf(&facts)
	for _, asked := range next.Asked {
		open, err := s.isOpen(ctx, asked)
		if err != nil {
			return err
		}
		if !open { // of its node nothing is done in this pass: others do not wait for it
			facts.Asks = slices.DeleteFunc(facts.Asks, func(a pinning.Ask) bool { return a.Node == asked.Node })
			next = pinning.NextOf(&facts)
		}
	}
	p.in.Ledger.Pins, p.in.Ledger.Failures, p.refused, p.asksWait = next.Pins, next.Failures, next.Refused, next.Waits
	return nil
}

// isOpen reports whether what is asked of a node is so live: a cache that is behind may show what was taken back.
func (s pinStep) isOpen(ctx context.Context, ask pinning.AskKey) (bool, error) {
	var live topsv1.NodeUpgrade
	if err := s.Live.Get(ctx, client.ObjectKey{Name: ask.Node}, &live); client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("reading what is asked of node %s: %w", ask.Node, err)
	}
	return slices.ContainsFunc(observed.OpenAsksOf(&live), func(a observed.Ask) bool { return a.ID == ask.ID }), nil
}

// pinFacts returns what a decision about pins depends on.
func (p *pass) pinFacts(gate gating.Mode) pinning.Facts {
	f := pinning.Facts{
		Input: &p.in, PolicyMissing: gate == gating.NotInstalled, RollsBack: pinning.RollsBack(p.Policy), Node: p.fleet.Node,
		Gated:  func(i int) bool { return gate == gating.On && gating.IsGateable(p.Members[i].DaemonSet) },
		Before: func(i int, node string) (string, string) { return pinning.Before(p.history(i, node)) },
		Kept: func(i int, hash string) bool {
			return gating.IsKept(p.Members[i].DaemonSet, p.Members[i].Revisions, hash)
		},
	}
	for _, upgrade := range p.fleet.reported.Asking() {
		for _, asked := range observed.OpenAsksOf(upgrade) {
			if ask, ours := pinning.AskOf(upgrade.Name, &asked, p.Members); ours {
				f.Asks = append(f.Asks, ask)
			}
		}
	}
	return f
}

// history returns what is known of the revisions of a member, for one node.
func (p *pass) history(member int, node string) *pinning.History {
	m := p.Members[member]
	h := &pinning.History{DaemonSet: m.DaemonSet, Revisions: m.Revisions, Target: p.in.Members[member].Target,
		Had: p.fleet.had.OfNode(m.DaemonSet, node), Floor: pinning.FloorOf(p.Policy)}
	if good := p.Rollout.Status.LastKnownGood; good != nil {
		h.Good, h.Since = report.TargetIn(good.Targets, m.Key()), good.Since.Time
	}
	return h
}
