package operation

import (
	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/drain/cordon"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

// cordonNode keeps new pods off the node. It is done while the node is unschedulable, whether
// this operation or a person cordoned it. If another operation holds the cordon until the
// deadline, or the API server denies it, the operation is deferred.
type cordonNode struct{ base }

func (cordonNode) done(f *Facts, _ upgradeplan.Task) bool { return f.cordoned() }

func (cordonNode) attempt(c *changes, _ upgradeplan.Task) verdict {
	change := cordon.DecideCordon(c.Node.Cordon, CordonMark(c.Operation))
	if change.Needed() {
		c.onNode(Effect{Kind: Cordon, Operation: CordonMark(c.Operation), Change: change})
		if cause := c.nodeDenied(); cause != "" {
			return waiting(ReasonCordonHeld, "%s", cause)
		}
		return waiting(ReasonInProgress, "%s", change.Message)
	}
	return waiting(ReasonCordonHeld, "%s", change.Message)
}

func (cordonNode) deadline(f *Facts, _ verdict) deadline {
	return deadline{f.limits.progress, topsv1.OperationDeferred, ReasonCordonHeld}
}

// lasts is false: a node that was uncordoned is cordoned again.
func (cordonNode) lasts(*Facts, upgradeplan.Task) bool { return false }

// uncordonNode stands for the release of the node, which ends every operation,
// whether its job says so or not: see release. It never holds up the job, so it is always done and never current;
// its deadline is never used.
type uncordonNode struct{ base }

func (uncordonNode) done(*Facts, upgradeplan.Task) bool { return true }

func (uncordonNode) attempt(*changes, upgradeplan.Task) verdict { return waiting(ReasonInProgress, "") }

func (uncordonNode) deadline(f *Facts, _ verdict) deadline {
	return deadline{f.limits.progress, f.blame(), ReasonProgressDeadline}
}
