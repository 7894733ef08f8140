package report

import (
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/pkg/message"
	"github.com/topsops/gcu-operator/pkg/upgradeplan/planfile"
)

// Bounds of a result, in bytes: with the plan, which may have 1 MiB, it has to fit into one object of etcd, 1.5 MiB.
// maxNotDone bounds the names of the nodes that are not done. maxFailed bounds the entries of failed nodes, and
// maxFailedMessage the message of each.
const (
	maxNotDone       = 256 << 10
	maxFailed        = 128 << 10
	maxFailedMessage = 256
)

// PlanIsComplete reports whether nothing is left to do on the nodes of a plan: each is done, even if it is gone now. Once
// every batch has been reached, nodes do not count if they are offline, were rolled back individually, or are gone and may come back. Some
// node then has to be done and reachable: otherwise the control plane may be cut off from the nodes.
func PlanIsComplete(p *planfile.Plan, in *rollout.Input, d *rollout.Decision) bool {
	done, left := false, false
	recorded := sync.OnceValue(p.Outcomes)
	for name := range p.All() {
		switch v, known := d.Verdict(name); {
		case !known:
			left = left || recorded()[name] != planfile.Done
		case isDoneOn(in, &v):
			done = done || d.IsReady(name)
		case v.State == rollout.Skipped, v.State == rollout.Pinned:
			left = true
		default:
			return false
		}
	}
	return !left || done && d.AllReached
}

// isDoneOn reports whether a node is updated, or all that is left to do on it is not in the plan. With a limit
// besides the plan, it has to be updated, because the limit may leave out what is in the plan.
func isDoneOn(in *rollout.Input, v *rollout.Verdict) bool {
	return v.State == rollout.Updated || v.Reason == rollout.ReasonLeftOut && in.Settings.Only == ""
}

// PlanResult returns the result of a plan so far, without global tasks. failed returns the task with which a node failed. A
// node that is gone stays done if the stored result of the plan says so.
func PlanResult(p *planfile.Plan, in *rollout.Input, d *rollout.Decision, failed func(node string) topsv1.FailedNode, now metav1.Time) topsv1.UpgradePlanStatus {
	wentBack := map[string]string{} // message of the pin, by the name of a node that failed and was rolled back individually
	for _, pin := range d.Ledger.Pins {
		if pin.Failed {
			wentBack[pin.Node] = pin.Message
		}
	}
	result := topsv1.UpgradePlanStatus{ObservedGeneration: p.Object.Generation, Time: &now}
	recorded := sync.OnceValue(p.Outcomes)
	notDone, said := 0, 0 // bytes
	for name := range p.All() {
		v, known := d.Verdict(name)
		if back := wentBack[name]; back != "" && v.State != rollout.Failed {
			v.State, v.Message = rollout.Failed, back
		}
		switch {
		case known && v.State == rollout.Failed:
			result.Fail++
			f := failed(name)
			f.Message = message.Short(v.Message, maxFailedMessage)
			if said += len(f.Node) + len(f.Task) + len(strings.Join(f.Done, ",")) + len(f.Message); said <= maxFailed {
				result.Failed = append(result.Failed, f)
			}
		case known && isDoneOn(in, &v), !known && recorded()[name] == planfile.Done:
			result.Done++
		default:
			result.Undo++
			if notDone += len(name); notDone <= maxNotDone {
				result.Undone = append(result.Undone, name)
			}
		}
	}
	return result
}
