package upgradeapi

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/denial"
	"github.com/topsops/gcu-operator/pkg/upgradeplan/planfile"
)

// planResults serves the results of plans. Each request goes through all nodes of a plan, and waits for its turn as a plan does until its
// response is encoded: of 10 000 nodes it has megabytes.
type planResults struct {
	*reads
	resolver *resolver
}

// list returns the plans for a gr with their results, newest first, without those of nodes: a plan may have
// 10 000 of them.
func (r *planResults) list(ctx context.Context, c call) (any, error) {
	gr, err := r.resource(ctx, c.name)
	if err != nil {
		return nil, err
	}
	release, err := r.resolver.turn(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	var plans topsv1.UpgradePlanList
	if err := r.plansFrom(c.name).List(ctx, &plans, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing UpgradePlans: %w", err)
	}
	return inPrint(map[string]any{"items": planfile.ResultsOf(gr, plans.Items, false)})
}

// get returns a plan for a gr with the results of its nodes and their tasks.
func (r *planResults) get(ctx context.Context, c call) (any, error) {
	gr, err := r.resource(ctx, c.name)
	if err != nil {
		return nil, err
	}
	release, err := r.resolver.turn(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	plan := &topsv1.UpgradePlan{}
	if validName(c.plan) {
		if err := r.plansFrom(c.name).Get(ctx, client.ObjectKey{Name: c.plan}, plan); denial.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("reading UpgradePlan %s: %w", c.plan, err)
		}
	}
	if plan.Spec.GcuResource != c.name { // there is none, or it is that of another gr
		return nil, apierrors.NewNotFound(planResource, c.plan)
	}
	return inPrint(planfile.ResultOf(gr, plan, true))
}

// resource returns a gr, as get does.
func (r *reads) resource(ctx context.Context, name string) (*topsv1.GcuResource, error) {
	if gr := r.cache.gr(ctx, name); gr != nil {
		return gr, nil
	}
	gr := &topsv1.GcuResource{}
	return gr, r.Get(ctx, client.ObjectKey{Name: name}, gr)
}

// plansFrom returns what plans for a gr are read from: the cache, unless the gr was written here recently.
func (r *reads) plansFrom(gr string) client.Reader {
	if r.cache.current(gr) {
		return r.cache.reader
	}
	return r.cluster
}
