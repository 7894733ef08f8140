package operation

import (
	"slices"
	"strings"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/drain/cordon"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

// release gives the node back: what may still happen to it for this operation is
// waited for or made impossible first, then the device is opened and the node
// uncordoned. It needs no more than the record, so every operation can be
// released.
func release(c *changes) {
	if restartPending(c) || fence(c) {
		return
	}
	if c.f.Node.Taint == c.op.ID {
		c.onNode(Effect{Kind: OpenDevice})
		return
	}
	if change := cordon.DecideUncordon(c.f.Node.Cordon, c.op.ID); change.Needed() {
		c.onNode(Effect{Kind: Uncordon, Change: change})
		return
	}
	finish(c)
}

// restartPending reports whether the agent may restart the runtime any moment: what it
// is asked for until the deadline it may begin then, and goes on with for as long.
func restartPending(c *changes) bool {
	for i := range c.op.Tasks {
		t := &c.op.Tasks[i]
		if t.Attempts == 0 || t.StartTime == nil || !strings.HasSuffix(t.Name, "_"+upgradeplan.ActionRestartRuntime) ||
			c.op.Outcome == topsv1.OperationDone {
			continue
		}
		result := c.f.Host.Result(c.op.ID, t.Name)
		deadline := t.StartTime.Add(2 * c.limits.restart)
		if (result == nil || !result.State.Final()) && c.f.Now.Before(deadline) {
			c.at(deadline)
			return true
		}
	}
	return false
}

// fence makes deletions impossible that were decided and not seen to happen: a
// manager that was interrupted may still carry them out. It returns whether there
// are any.
func fence(c *changes) bool {
	pending := false
	for i := range c.op.Tasks {
		if named := c.op.Tasks[i].Pod; named != nil {
			pending = fencePod(c, *named) || pending
		}
		for _, named := range c.op.Tasks[i].Users {
			pending = fencePod(c, named) || pending
		}
	}
	return pending
}

// fencePod reports whether a pod is still as it was named, or older.
func fencePod(c *changes, named topsv1.NamedPod) (pending bool) {
	for _, m := range c.f.Members {
		pod := m.Pod
		if pod == nil || pod.UID != named.UID || pod.Terminating || daemonset.Newer(pod.ResourceVersion, named.ResourceVersion) {
			continue
		}
		pending = true
		if pod.NamedPod == named {
			c.onPod(FencePod, named)
		}
	}
	return pending
}

// leftovers takes away what a manager that was interrupted left on the node for an
// operation after its end. Only an operation in the history has surely ended: one
// that is not known may be newer than the record that was read.
func leftovers(c *changes) {
	if id := c.f.Node.Taint; ended(c, id) {
		c.onNode(Effect{Kind: OpenDevice, Operation: id})
	}
	id := c.f.Node.Cordon.Mark
	if change := cordon.DecideUncordon(c.f.Node.Cordon, id); ended(c, id) && change.Needed() {
		c.onNode(Effect{Kind: Uncordon, Operation: id, Change: change})
	}
}

func ended(c *changes, id string) bool {
	if !Over(c.op) && c.op.ID == id {
		return false
	}
	return slices.ContainsFunc(c.history, func(r topsv1.OperationRecord) bool { return r.ID == id })
}
