package upgradeapi

import (
	"context"
	"net/http"

	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/upgradeapi/request"
)

// plans serves plans: GET with a query, POST with the body of a PUT.
type plans struct{ *resolver }

func (p *plans) get(ctx context.Context, c call) (any, error) {
	upgrade, approved, err := planIn(c.query)
	if err != nil {
		return nil, err
	}
	return p.preview(ctx, c, upgrade, approved)
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
	return p.preview(ctx, c, upgrade, approved)
}

// preview returns what an upgrade would do, for an empty one what is left to do. It changes
// nothing.
func (p *plans) preview(ctx context.Context, c call, upgrade request.Upgrade, approved bool) (any, error) {
	present, wanted, err := p.wanted(ctx, c, upgrade, nil)
	if err != nil {
		return nil, err
	}
	release, err := p.turn(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	plan, refused, err := p.planner.Plan(ctx, present, wanted, approved)
	if err == nil && refused != "" {
		return nil, request.Conflict("%s", refused)
	}
	return plan, err
}

// wanted returns a gr, and what an upgrade makes of it; refine changes what the upgrade asks for, nil for nothing.
func (p *plans) wanted(ctx context.Context, c call, upgrade request.Upgrade, refine func(*request.Desired) *request.Desired) (present, wanted *topsv1.GcuResource, err error) {
	if p.planner == nil {
		return nil, nil, noPlanner()
	}
	if upgrade.Mode == request.ModeRecreate {
		return nil, nil, request.BadRequest("mode %s deletes everything and deploys it again: there is no plan for it", request.ModeRecreate)
	}
	present, desired, err := p.resolve(ctx, c.name, upgrade)
	if err != nil {
		return nil, nil, err
	}
	if refine != nil {
		desired = refine(desired)
	}
	wanted, err = p.predict(ctx, c, present, desired)
	return present, wanted, err
}

// predict returns what an upgrade makes of a gr, as the API server would store it.
func (p *plans) predict(ctx context.Context, c call, present *topsv1.GcuResource, desired *request.Desired) (*topsv1.GcuResource, error) {
	if !desired.Changes() {
		return present, nil
	}
	wanted := desired.InPlace(present)
	c.dryRun = true
	return wanted, p.Patch(ctx, wanted, client.MergeFrom(present), c.patchOptions()...)
}

func noPlanner() error {
	return request.Refuse(http.StatusNotImplemented, "this manager does not plan")
}
