package operation

import (
	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/drain/cordon"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

// cordonNode keeps new pods off the node. It is done while the node is unschedulable,
// cordoned by this operation or by a person. A missed deadline, because another
// operation holds the cordon, defers the operation.
type cordonNode struct{ base }

func (cordonNode) done(s *snapshot, _ upgradeplan.Task) bool { return s.cordoned() }

func (cordonNode) attempt(c *changes, _ upgradeplan.Task) verdict {
	change := cordon.DecideCordon(c.f.Node.Cordon, c.op.ID)
	if change.Needed() {
		c.onNode(Effect{Kind: Cordon, Change: change})
		return waiting(ReasonInProgress, "%s", change.Message)
	}
	return waiting(ReasonCordonHeld, "%s", change.Message)
}

func (cordonNode) deadline(s *snapshot, _ verdict) deadline {
	return deadline{s.limits.progress, topsv1.OperationDeferred, ReasonCordonHeld}
}

// lasts is false: a node that somebody uncordoned is cordoned again.
func (cordonNode) lasts(*snapshot, upgradeplan.Task) bool { return false }

// uncordonNode stands for giving the node back, which is the end of every operation,
// whatever its job says: see release. It never holds the job, so it is always done and
// never current, and has no deadline of its own.
type uncordonNode struct{ base }

func (uncordonNode) done(*snapshot, upgradeplan.Task) bool { return true }

func (uncordonNode) attempt(*changes, upgradeplan.Task) verdict { return waiting(ReasonInProgress, "") }

func (uncordonNode) deadline(s *snapshot, _ verdict) deadline {
	return deadline{s.limits.progress, s.blame(), ReasonProgressDeadline}
}
