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
	"github.com/topsops/gcu-operator/pkg/denial"
)

// pinStep decides which nodes are kept at an earlier revision. Its decision enters the ledger, which is stored
// before a node is touched.
type pinStep struct {
	access.Cluster
	gate gating.Mode
}

// decide changes the pins and failures of the ledger that the plan starts from.
func (s pinStep) decide(ctx context.Context, p *pass.Pass) error {
	facts := p.PinFacts(s.gate)
	update, err := pinning.DecideConfirmed(&facts, func(key pinning.RequestKey) (bool, error) { return s.isOpen(ctx, key) })
	if err != nil {
		return err
	}
	p.In.Ledger.Pins, p.In.Ledger.Failures, p.Refused, p.PinRequestsBlockedBy = update.Pins, update.Failures, update.Refused, update.BlockedBy
	return nil
}

// isOpen confirms live that a request is open: a stale cache may show one that was withdrawn.
func (s pinStep) isOpen(ctx context.Context, key pinning.RequestKey) (bool, error) {
	var live topsv1.NodeUpgrade
	if err := s.Live.Get(ctx, client.ObjectKey{Name: key.Node}, &live); denial.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("reading the requests of node %s: %w", key.Node, err)
	}
	return slices.ContainsFunc(observed.OpenPinRequests(&live), func(r observed.PinRequest) bool { return r.ID == key.ID }), nil
}
