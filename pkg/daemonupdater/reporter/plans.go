package reporter

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/pass"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/report"
)

// PlanInterval is the minimum time between two writes of the result of a plan while nodes are in
// flight: the object may have 1 MiB. The result of a halted rollout is written at once, because it stays unchanged
// during a rollback.
const PlanInterval = 10 * time.Second

// PlanResult writes the result of the plan in force if it has changed; if a write is not due yet, it returns how long to
// wait. The result of a plan that was rolled back only gets the time of the rollback.
func (r Reporter) PlanResult(ctx context.Context, p *pass.Pass) (again time.Duration, err error) {
	if undone := p.Plan.RolledBack(); undone != nil && undone.Object.Status.RolledBackTime == nil {
		next := undone.Object.DeepCopy()
		next.Status.RolledBackTime = &p.Rollout.Status.Rollback.Time
		return 0, r.write(ctx, next)
	}
	plan := p.Plan.InForce()
	if plan == nil || p.In.Blocked != nil {
		return 0, nil
	}
	before := plan.Object.Status.DeepCopy()
	if before.Time != nil && before.ObservedGeneration == plan.Object.Generation {
		if elapsed := p.In.Now.Sub(before.Time.Time); p.Decision.InFlight > 0 && p.Decision.Halted == "" && elapsed >= 0 && elapsed < PlanInterval {
			return PlanInterval - elapsed, nil
		}
	}
	next := plan.Object.DeepCopy()
	next.Status = report.PlanResult(plan, &p.In, &p.Decision, func(node string) topsv1.FailedNode {
		upgrade := &topsv1.NodeUpgrade{}
		if r.Get(ctx, client.ObjectKey{Name: node}, upgrade, client.UnsafeDisableDeepCopy) != nil {
			upgrade = nil // the node is gone, or had no operation
		}
		return p.Plan.FailedNode(p.Members, &p.Decision, node, p.In.Revision, upgrade)
	}, metav1.NewTime(p.In.Now))
	next.Status.Tasks = p.Globals
	if before.Time = next.Status.Time; equality.Semantic.DeepEqual(before, &next.Status) {
		return 0, nil
	}
	if err := r.write(ctx, next); err != nil {
		return 0, err
	}
	plan.Object = next
	return 0, nil
}

func (r Reporter) write(ctx context.Context, plan *topsv1.UpgradePlan) error {
	if err := r.Status().Update(ctx, plan); err != nil {
		return fmt.Errorf("writing the result of UpgradePlan %s: %w", plan.Name, err)
	}
	return nil
}
