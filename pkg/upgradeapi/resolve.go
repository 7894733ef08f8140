package upgradeapi

import (
	"context"
	"fmt"
	"net/http"

	"golang.org/x/sync/semaphore"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/upgradeapi/request"
	"github.com/topsops/gcu-operator/pkg/upgradeplan/planfile"
)

// Planner predicts upgrades and checks what they are limited to.
type Planner interface {
	// Plan returns what happens when present becomes wanted; approved treats every wave as
	// approved. refused is why that is not allowed, "" if it is.
	Plan(ctx context.Context, present, wanted *topsv1.GcuResource, approved bool) (plan any, refused string, err error)
	// Refused returns only why it is not allowed.
	Refused(ctx context.Context, present, wanted *topsv1.GcuResource) (string, error)
	// CheckLimit validates what an upgrade of a gr is limited to and returns it normalized;
	// wrong is why it is invalid, "" if it is valid.
	CheckLimit(ctx context.Context, gr *topsv1.GcuResource, limit *daemonset.Limit) (checked *daemonset.Limit, wrong string, err error)
	// PlanFile returns the upgrade as the content of a file, with every wave approved; wrong is why there is
	// nothing to plan, "" if there is.
	PlanFile(ctx context.Context, present, wanted *topsv1.GcuResource) (plan *topsv1.UpgradePlan, wrong string, err error)
	// CheckPlan compares a plan that makes wanted of present with the cluster; wrong is why it cannot be run, ""
	// if it can.
	CheckPlan(ctx context.Context, plan *planfile.Plan, present, wanted *topsv1.GcuResource) (wrong string, err error)
}

// maxWaitingPlans is how many plans may wait for their turn at once.
const maxWaitingPlans = 8

// resolver reads the gr, the blueprint and the limit of an upgrade.
type resolver struct {
	*cluster
	// blueprints is the directory of the blueprints.
	blueprints string
	// blueprintsOnly refuses specs in bodies.
	blueprintsOnly bool
	// planner checks limits; nil accepts all.
	planner Planner
	// planning is acquired while a plan is computed, and checking while an upgrade is checked: plans, which anyone who
	// may read can ask for, delay no upgrade.
	planning, checking *semaphore.Weighted
	// queue has an entry for each plan that waits.
	queue chan struct{}
}

func newResolver(c *cluster, blueprints string, blueprintsOnly bool, planner Planner) *resolver {
	return &resolver{cluster: c, blueprints: blueprints, blueprintsOnly: blueprintsOnly, planner: planner,
		planning: semaphore.NewWeighted(1), checking: semaphore.NewWeighted(1), queue: make(chan struct{}, maxWaitingPlans)}
}

// resolve returns a gr that may be changed, and its desired state.
func (r *resolver) resolve(ctx context.Context, name string, upgrade request.Upgrade) (*topsv1.GcuResource, *request.Desired, error) {
	if r.blueprintsOnly && upgrade.Spec != nil {
		return nil, nil, request.Refuse(http.StatusForbidden, `without authentication this API takes blueprints only, {"file": "gr.json"}: a spec in the body may come from any client`)
	}
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
	if err == nil {
		desired.Limit, err = r.checkLimit(ctx, gr, desired)
	}
	if err == nil {
		err = request.CheckSettings(gr, desired.After(gr, upgrade.Mode))
	}
	return gr, desired, err
}

// checkLimit returns the limit of an upgrade as the planner has it, nil for none.
func (r *resolver) checkLimit(ctx context.Context, gr *topsv1.GcuResource, desired *request.Desired) (*daemonset.Limit, error) {
	if desired.Limit == nil || r.planner == nil {
		return desired.Limit, nil
	}
	checked, wrong, err := r.planner.CheckLimit(ctx, desired.InPlace(gr), desired.Limit)
	if err == nil && wrong != "" {
		err = request.BadRequest("%s", wrong)
	}
	return checked, err
}

// turn waits until this request may compute a plan, or go through the result of one, one at a time: it is expensive for a large fleet. Few may wait.
// release must be called when it is done.
func (r *resolver) turn(ctx context.Context) (release func(), err error) {
	select {
	case r.queue <- struct{}{}:
		defer func() { <-r.queue }()
	default:
		return nil, request.Refuse(http.StatusTooManyRequests, "%d plans wait already: send the request again later", maxWaitingPlans)
	}
	return acquired(ctx, r.planning, "plans")
}

// turnToCheck is turn for the check of an upgrade.
func (r *resolver) turnToCheck(ctx context.Context) (release func(), err error) {
	return acquired(ctx, r.checking, "upgrades")
}

func acquired(ctx context.Context, s *semaphore.Weighted, what string) (release func(), err error) {
	if err := s.Acquire(ctx, 1); err != nil {
		return nil, apierrors.NewTimeoutError(fmt.Sprintf("too many %s at the same time: send the request again", what), 1)
	}
	return func() { s.Release(1) }, nil
}
