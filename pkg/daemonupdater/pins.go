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
	"github.com/topsops/gcu-operator/pkg/daemonupdater/pass"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/pinning"
)

// pinStep decides which nodes are kept at an earlier revision. Its decision enters the ledger, which is stored
// before anything is done about it.
type pinStep struct {
	access.Cluster
	gate gating.Mode
}

// decide changes the pins and failures of the ledger that the plan starts from.
func (s pinStep) decide(ctx context.Context, p *pass.Pass) error {
	facts := p.PinFacts(s.gate)
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
	p.In.Ledger.Pins, p.In.Ledger.Failures, p.Refused, p.AsksWait = next.Pins, next.Failures, next.Refused, next.Waits
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
