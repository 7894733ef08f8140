package operation

import (
	"time"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

// pullInterval is the wait before the second pull of an image; it doubles.
const pullInterval = 30 * time.Second

// prepull waits until the agent has pulled the image of a component, while the node is still in
// service. It is done when the agent has the image, or the pod already has the wanted
// revision. A missed deadline defers the operation.
type prepull struct{ base }

func (prepull) done(f *Facts, t upgradeplan.Task) bool {
	return f.atTarget(t) || succeeded(f.hostResult(t))
}

// attempt waits for the agent and retries a failed pull, at growing intervals, until the
// deadline.
func (prepull) attempt(c *changes, t upgradeplan.Task) verdict {
	rec, result := c.task(t), c.hostResult(t)
	if result == nil || result.State != topsv1.HostTaskFailed {
		return awaitHost(c.Facts, result)
	}
	next := c.recordedAt(rec.StartTime.Time).Add(pullInterval << min(rec.Attempts-1, 10))
	if !c.Now.Before(next) {
		rec.Attempts++
	} else {
		c.at(next)
	}
	return waiting(ReasonPrepullFailed, "%s", result.Message)
}

func (prepull) deadline(f *Facts, _ verdict) deadline {
	return deadline{f.limits.prepull, topsv1.OperationDeferred, ReasonPrepullFailed}
}
