package report

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/pkg/upgradeplan/planfile"
)

// mostUndone is how many bytes the names of undone nodes take at most in a result, and mostFailed how
// many failed nodes it has: with the plan, it is one object.
const (
	mostUndone = 256 << 10
	mostFailed = 1000
)

// PlanResult returns the result of a plan so far. A node is done if it is updated, or if all that
// is left to do on it is not in the plan.
func PlanResult(p *planfile.Plan, d *rollout.Decision, failedTask func(node string) string, now metav1.Time) topsv1.UpgradePlanStatus {
	result := topsv1.UpgradePlanStatus{ObservedGeneration: p.Object.Generation, Time: &now}
	bytes := 0
	for name := range p.All() {
		v, known := d.Verdict(name)
		switch {
		case known && (v.State == rollout.Updated || v.Reason == rollout.ReasonLeftOut):
			result.Done++
		case known && v.State == rollout.Failed:
			if result.Fail++; len(result.Failed) < mostFailed {
				result.Failed = append(result.Failed, topsv1.FailedNode{Node: name, Task: failedTask(name), Message: v.Message})
			}
		default:
			result.Undo++
			if bytes += len(name); bytes <= mostUndone {
				result.Undone = append(result.Undone, name)
			}
		}
	}
	return result
}
