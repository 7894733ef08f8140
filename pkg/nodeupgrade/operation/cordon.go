package operation

import (
	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/drain"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

// cordon keeps new pods off the node. It is done while the node is unschedulable,
// cordoned by this operation or by a person. A missed deadline, because another
// operation holds the cordon, defers the operation.
type cordon struct{ base }

func (cordon) done(v *view, _ upgradeplan.Task) bool { return v.cordoned() }

func (cordon) attempt(c *changes, _ upgradeplan.Task) verdict {
	change := drain.DecideCordon(c.f.Node.Cordon, c.op.ID)
	if change.Needed() {
		c.onNode(Effect{Kind: Cordon, Change: change})
		return waiting(ReasonInProgress, "%s", change.Message)
	}
	return waiting(ReasonCordonHeld, "%s", change.Message)
}

func (cordon) deadline(v *view, _ verdict) deadline {
	return deadline{v.limits.progress, topsv1.OperationDeferred, ReasonCordonHeld}
}

// lasts is false: a node that somebody uncordoned is cordoned again.
func (cordon) lasts(*view, upgradeplan.Task) bool { return false }

// uncordon stands for giving the node back, which is the end of every operation,
// whatever its job says: see release. It never holds the job, so it is always done and
// never current, and has no deadline of its own.
type uncordon struct{ base }

func (uncordon) done(*view, upgradeplan.Task) bool { return true }

func (uncordon) attempt(*changes, upgradeplan.Task) verdict { return waiting(ReasonInProgress, "") }

func (uncordon) deadline(v *view, _ verdict) deadline {
	return deadline{v.limits.progress, v.blame(), ReasonProgressDeadline}
}
