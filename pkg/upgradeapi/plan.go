package upgradeapi

import (
	"context"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/topsops/gcu-operator/pkg/upgradeapi/request"
)

// plans serves plans: GET with a query, POST with the body of a PUT.
type plans struct {
	*resolver
	// slot is held while a plan is computed.
	slot chan struct{}
}

func (p *plans) get(ctx context.Context, c call) (any, error) {
	upgrade, approved, err := planIn(c.query)
	if err != nil {
		return nil, err
	}
	return p.plan(ctx, c, upgrade, approved)
}

func (p *plans) post(ctx context.Context, c call) (any, error) {
	approved, err := approvedIn(c.query)
	if err != nil {
		return nil, err
	}
	upgrade, err := request.ReadUpgrade(c.body)
	if err != nil {
		return nil, err
	}
	return p.plan(ctx, c, upgrade, approved)
}

// plan returns what an upgrade would do, for an empty one what is left to do. It changes
// nothing.
func (p *plans) plan(ctx context.Context, c call, upgrade request.Upgrade, approved bool) (any, error) {
	if p.planner == nil {
		return nil, request.Refuse(http.StatusNotImplemented, "this manager does not plan")
	}
	if upgrade.Mode == request.ModeRecreate {
		return nil, request.BadRequest("mode %s deletes everything and deploys it again: there is no plan for it", request.ModeRecreate)
	}
	gr, desired, err := p.resolve(ctx, c.name, upgrade)
	if err != nil {
		return nil, err
	}
	wanted := gr
	if desired.Changes() {
		wanted = desired.InPlace(gr)
		c.dryRun = true
		if err := p.Patch(ctx, wanted, client.MergeFrom(gr), c.patchOptions()...); err != nil {
			return nil, err
		}
	}
	select { // one at a time: it is expensive for a large fleet
	case p.slot <- struct{}{}:
		defer func() { <-p.slot }()
	case <-ctx.Done():
		return nil, apierrors.NewTimeoutError("too many plans at the same time: send the request again", 1)
	}
	return p.planner.Plan(ctx, gr, wanted, approved)
}
