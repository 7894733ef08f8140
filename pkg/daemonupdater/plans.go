package daemonupdater

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/access"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/report"
)

// planInterval is the minimum time between two writes of the result of a plan while nodes are in
// flight: the object may have 1 MiB.
const planInterval = 10 * time.Second

// planReporter writes the results of plans.
type planReporter struct{ access.Cluster }

// write writes the result of the plan in force if it has changed, and returns when to do so if that
// is not yet due.
func (w planReporter) write(ctx context.Context, p *pass) (again time.Duration, err error) {
	plan := p.Plan.InForce()
	if plan == nil || p.in.Blocked != nil && !p.awaitsGlobal {
		return 0, nil
	}
	before := plan.Object.Status.DeepCopy()
	if before.Time != nil && before.ObservedGeneration == plan.Object.Generation {
		if elapsed := p.in.Now.Sub(before.Time.Time); p.decision.InFlight > 0 && elapsed >= 0 && elapsed < planInterval {
			return planInterval - elapsed, nil
		}
	}
	next := plan.Object.DeepCopy()
	next.Status = report.PlanResult(plan, &p.decision, func(node string) string {
		var upgrade topsv1.NodeUpgrade
		if w.Get(ctx, client.ObjectKey{Name: node}, &upgrade, client.UnsafeDisableDeepCopy) != nil {
			return "" // the node is gone
		}
		return observed.FailedTask(&upgrade, p.in.Revision)
	}, metav1.NewTime(p.in.Now))
	next.Status.Tasks = p.globals
	if before.Time = next.Status.Time; equality.Semantic.DeepEqual(before, &next.Status) {
		return 0, nil
	}
	if err := w.Status().Update(ctx, next); err != nil {
		return 0, fmt.Errorf("writing the result of UpgradePlan %s: %w", next.Name, err)
	}
	return 0, nil
}
