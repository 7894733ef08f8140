package inquiry

import (
	"context"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/preview"
	"github.com/topsops/gcu-operator/pkg/upgradeplan/globaltask"
	"github.com/topsops/gcu-operator/pkg/upgradeplan/planfile"
)

// PlanFile returns the upgrade of a gr as a plan for a file, with all waves approved. wrong is why there is
// nothing to plan, "" if there is.
func (a Predictor) PlanFile(ctx context.Context, present, wanted *topsv1.GcuResource) (plan *topsv1.UpgradePlan, wrong string, err error) {
	q := preview.ForFile(present, wanted)
	q.WithoutEvictions = true
	prediction, err := a.Ask(ctx, q)
	if err != nil {
		return nil, "", err
	}
	return prediction.File(&q, a.Clock())
}

// CheckPlan compares a plan with the cluster; wanted is the gr as the plan changes it. wrong is why the plan
// cannot be run, "" if it can.
func (a Predictor) CheckPlan(ctx context.Context, plan *planfile.Plan, present, wanted *topsv1.GcuResource) (wrong string, err error) {
	q := preview.ForPlan(plan, present, wanted)
	q.WithoutEvictions = true
	if wrong, err = q.RevisionsOf(plan); err != nil || wrong != "" {
		return wrong, err
	}
	if wrong, err = a.refusesGlobal(ctx, plan); err != nil || wrong != "" {
		return wrong, err
	}
	prediction, err := a.predict(ctx, q) // a node that waits already does not belong in a plan either
	if err != nil {
		return "", err
	}
	return prediction.Refuses(plan), nil
}

// refusesGlobal returns why the global tasks of a plan cannot be run, "" if they can.
func (a Predictor) refusesGlobal(ctx context.Context, plan *planfile.Plan) (wrong string, err error) {
	for _, name := range plan.CronJobs() {
		cron := &batchv1.CronJob{}
		switch err := a.Live.Get(ctx, client.ObjectKey{Namespace: a.Namespace, Name: name}, cron); {
		case apierrors.IsNotFound(err):
			cron = nil
		case err != nil:
			return "", fmt.Errorf("getting CronJob %s/%s: %w", a.Namespace, name, err)
		}
		if refusal := globaltask.Refusal(a.Namespace, name, cron); refusal != "" {
			return refusal, nil
		}
	}
	return "", nil
}
