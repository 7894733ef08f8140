package inquiry

import (
	"context"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/preview"
	"github.com/topsops/gcu-operator/pkg/upgradeplan/planfile"
)

// PlanFile returns the upgrade of a gr as a plan for a file, with all waves approved. wrong is why there is
// nothing to plan, "" if there is.
func (a Asker) PlanFile(ctx context.Context, present, wanted *topsv1.GcuResource) (plan *topsv1.UpgradePlan, wrong string, err error) {
	q := preview.ForFile(present, wanted)
	answer, err := a.Ask(ctx, q)
	if err != nil {
		return nil, "", err
	}
	return answer.File(&q, a.Clock())
}

// CheckPlan compares a plan with the cluster; wanted is what the plan makes of the present gr. wrong is why the
// plan cannot be run, "" if it can.
func (a Asker) CheckPlan(ctx context.Context, plan *planfile.Plan, present, wanted *topsv1.GcuResource) (wrong string, err error) {
	q := preview.ForFile(present, wanted)
	if wrong, err = q.RevisionsOf(plan); err != nil || wrong != "" {
		return wrong, err
	}
	answer, err := a.Ask(ctx, q)
	if err != nil {
		return "", err
	}
	return answer.Refuses(plan), nil
}
