package upgradeapi

import (
	"context"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/upgradeapi/request"
)

// Planner tells what upgrades are going to do. The manager has one.
type Planner interface {
	// Plan returns what is done when a gr gets the wanted form, as it is shown; approved:
	// every wave counts as approved.
	Plan(ctx context.Context, present, wanted *topsv1.GcuResource, approved bool) (any, error)
	// CheckCut says what is wrong with what an upgrade of a gr is to be limited to, "" for
	// nothing, and returns it as it is written.
	CheckCut(ctx context.Context, gr *topsv1.GcuResource, cut *daemonset.Cut) (checked *daemonset.Cut, wrong string, err error)
}

// resolver finds what an upgrade is about.
type resolver struct {
	*cluster
	// blueprints is the directory of the blueprints.
	blueprints string
	// planner checks what upgrades are limited to; nil: nobody does.
	planner Planner
}

// resolve returns a gr that may be changed, and what an upgrade wants of it.
func (r *resolver) resolve(ctx context.Context, name string, upgrade request.Upgrade) (*topsv1.GcuResource, *request.Desired, error) {
	var file []byte
	var err error
	if upgrade.File != "" {
		if file, err = readBlueprint(r.blueprints, upgrade.File); err != nil {
			return nil, nil, err
		}
	}
	blueprint, err := upgrade.Blueprint(name, file)
	if err != nil {
		return nil, nil, err
	}
	gr, err := r.present(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	desired, err := upgrade.Desired(blueprint)
	if err != nil || desired.Cut == nil || r.planner == nil {
		return gr, desired, err
	}
	checked, wrong, err := r.planner.CheckCut(ctx, desired.InPlace(gr), desired.Cut)
	if err == nil && wrong != "" {
		err = request.BadRequest("%s", wrong)
	}
	desired.Cut = checked
	return gr, desired, err
}
