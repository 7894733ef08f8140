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

// A result is bounded: with the plan, which may have 1 MiB, it is one object of etcd, which takes 1.5 MiB. mostNotDone is
// how many bytes the names of nodes that are not done take at most, mostFailed what is said of failed nodes, and mostMessage the
// message of one of them.
const (
	mostNotDone = 256 << 10
	mostFailed  = 128 << 10
	mostMessage = 256
)

// PlanIsThrough reports whether nothing is left to do on the nodes of a plan: each is done, also if it is gone since. Nodes that are
// offline, went back alone, or are gone and may come back, are passed over once every batch had its turn, if some node is done and
// reachable: else the control plane may be cut off.
func PlanIsThrough(p *planfile.Plan, in *rollout.Input, d *rollout.Decision) bool {
	done, left := false, false
	recorded := sync.OnceValue(p.Outcomes)
	for name := range p.All() {
		switch v, known := d.Verdict(name); {
		case !known:
			left = left || recorded()[name] != planfile.Done
		case isDoneOn(in, &v):
			done = done || d.Reaches(name)
		case v.State == rollout.Skipped, v.State == rollout.Pinned:
			left = true
		default:
			return false
		}
	}
	return !left || done && d.AllReached
}

// isDoneOn reports whether a node is updated, or all that is left to do on it is not in the plan. Under a limit
// besides the plan, which may leave out what is in it, it has to be updated.
func isDoneOn(in *rollout.Input, v *rollout.Verdict) bool {
	return v.State == rollout.Updated || v.Reason == rollout.ReasonLeftOut && in.Settings.Only == ""
}

// PlanResult returns the result of a plan so far, without that of tasks that belong to no node. failed says with which task a
// node failed. A node that is gone stays done if the stored result of the plan has it so.
func PlanResult(p *planfile.Plan, in *rollout.Input, d *rollout.Decision, failed func(node string) topsv1.FailedNode, now metav1.Time) topsv1.UpgradePlanStatus {
	wentBack := map[string]string{} // alone: what is said of its pin, by the name of a node that failed
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
			f.Message = message.Short(v.Message, mostMessage)
			if said += len(f.Node) + len(f.Task) + len(strings.Join(f.Done, ",")) + len(f.Message); said <= mostFailed {
				result.Failed = append(result.Failed, f)
			}
		case known && isDoneOn(in, &v), !known && recorded()[name] == planfile.Done:
			result.Done++
		default:
			result.Undo++
			if notDone += len(name); notDone <= mostNotDone {
				result.Undone = append(result.Undone, name)
			}
		}
	}
	return result
}
