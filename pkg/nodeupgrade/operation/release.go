package operation

import (
	"slices"
	"strings"
	"time"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/drain/cordon"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

// release uncordons the node once nothing of the operation is at work on it. It needs only the record, so every
// operation can be released.
func release(c *changes) {
	if busy(c) {
		return
	}
	if change := cordon.DecideUncordon(c.Node.Cordon, CordonMark(c.Operation)); change.Needed() {
		c.onNode(Effect{Kind: Uncordon, Operation: CordonMark(c.Operation), Change: change})
		c.notReleasedFor(c.nodeDenied())
		return
	}
	finish(c)
}

// busy waits for or prevents everything that the operation could still do to the node, then removes its driver-upgrade
// taint, and reports whether any of that is left.
func busy(c *changes) bool {
	c.notReleasedFor("")
	if restartPending(c) || fence(c) || tasksLost(c) {
		return true
	}
	if c.Node.Taint != c.Operation.ID {
		return false
	}
	c.onNode(Effect{Kind: UntaintDevice})
	c.notReleasedFor(c.nodeDenied())
	return true
}

// notReleased is what comes before the cause in the message of an operation whose node cannot be released.
const notReleased = "; the node is not released: "

// notReleasedFor puts the cause for which the node cannot be released at the end of the message of the operation, "" for none.
func (c *changes) notReleasedFor(cause string) {
	before, _, _ := strings.Cut(c.Operation.Message, notReleased)
	if cause != "" {
		before += notReleased + cause
	}
	c.Operation.Message = before
}

// isRestart reports whether a task restarts the container runtime.
func isRestart(name string) bool {
	return strings.HasSuffix(name, "_"+upgradeplan.ActionRestartRuntime)
}

// restartEnds returns when a restart of the runtime that was recorded at a time has certainly ended, unless the agent says otherwise: it
// may start it until the deadline, and then take as long again. The time counts from the start of this process's work, because its clock
// may have jumped. While the agent reports that the restart goes on, it has not ended, however long that takes.
func restartEnds(c *changes, recorded time.Time, result *topsv1.HostTaskResult) time.Time {
	end := latest(c.recordedAt(recorded), c.WorkedSince).Add(2 * c.limits.restart)
	if goesOn(result) {
		end = latest(end, c.HostSince.Add(c.limits.silence))
	}
	return end
}

// awaitRestart looks again when a restart has certainly ended. If the agent says that it goes on, the message tells what it says.
func awaitRestart(c *changes, end time.Time, result *topsv1.HostTaskResult) {
	if c.at(end); goesOn(result) {
		c.notReleasedFor(result.Message)
	}
}

// restartPending reports whether the agent may still restart the runtime (restartEnds). An agent that leaves the restart to the
// administrator, and reports so after the operation was over, will not start it. A report that this process found when it began may be
// older, and the next one is not.
func restartPending(c *changes) bool {
	over := latest(c.Operation.Since.Time, c.WorkedSince)
	for i := range c.Operation.Tasks {
		t := &c.Operation.Tasks[i]
		result, begun := lastResult(c.Facts, t), t.StartTime
		if t.Attempts == 0 || begun == nil {
			if begun = &c.Operation.Since; result == nil { // else this record was lost, and recreated
				continue
			}
		}
		if !isRestart(t.Name) || c.Operation.Outcome == topsv1.OperationDone {
			continue
		}
		end := restartEnds(c, begun.Time, result)
		left := result != nil && result.State == topsv1.HostTaskWaiting && c.HostSince.After(over)
		if (result == nil || !result.State.Final()) && !left && c.Now.Before(end) {
			awaitRestart(c, end, result)
			return true
		}
	}
	return false
}

// lastResult returns what the agent reports of the current attempt of a task, or of an earlier one that goes on; nil if nothing.
func lastResult(f *Facts, t *topsv1.OperationTask) *topsv1.HostTaskResult {
	result := f.Host.Result(f.Operation.ID, t.Name)
	if result != nil && result.Attempt < t.Attempts && !goesOn(result) {
		return nil
	}
	return result
}

// touching are the actions that touch a node.
var touching = []string{upgradeplan.ActionReplace, upgradeplan.ActionRestartRuntime, upgradeplan.ActionVerify}

// tasksLost reports whether an API server with older CRDs has dropped the tasks of the record, and the agent may still restart the runtime.
func tasksLost(c *changes) bool {
	if c.Operation.Outcome == topsv1.OperationDone || isWhole(c.Operation) {
		return false
	}
	result := restartOf(c.Host, c.Operation.ID)
	end := restartEnds(c, c.Operation.Since.Time, result)
	if !c.Now.Before(end) {
		return false
	}
	awaitRestart(c, end, result)
	return true
}

// isWhole reports whether nothing shows that older CRDs dropped tasks of a record: a valid operation has tasks from its beginning, and one
// that touched its node has attempted a task that does. Tasks recorded anew have no attempts. The grant says nothing: it may be dropped too.
func isWhole(op *topsv1.OperationStatus) bool {
	return len(op.Tasks) > 0 && (!op.Touched || slices.ContainsFunc(op.Tasks, func(rec topsv1.OperationTask) bool {
		t, err := upgradeplan.ParseTask(rec.Name)
		return err == nil && rec.Attempts > 0 && slices.Contains(touching, t.Action)
	}))
}

// restartOf returns what the agent reports of the restart of an operation, nil if nothing.
func restartOf(host *topsv1.HostReport, operation string) *topsv1.HostTaskResult {
	if host == nil {
		return nil
	}
	i := slices.IndexFunc(host.Results, func(r topsv1.HostTaskResult) bool { return r.Operation == operation && isRestart(r.Task) })
	if i < 0 {
		return nil
	}
	return &host.Results[i]
}

// fence prevents deletions that were decided but not seen to happen, because an interrupted
// manager may still carry them out. It reports whether any are left, and adds to the message why a pod cannot be fenced.
func fence(c *changes) bool {
	pending := false
	for _, named := range Named(c.Operation) {
		if fencePod(c, named) {
			pending = true
			if denied := c.Denied[named.UID]; denied.OfFence {
				c.notReleasedFor(denied.Message)
			}
		}
	}
	return pending
}

// Named returns the pods that an operation was to delete, by its record.
func Named(op *topsv1.OperationStatus) (pods []topsv1.NamedPod) {
	for i := range op.Tasks {
		if named := op.Tasks[i].Pod; named != nil {
			pods = append(pods, *named)
		}
		pods = append(pods, op.Tasks[i].Users...)
	}
	return pods
}

// fencePod fences a pod that still has its recorded resourceVersion, and reports whether the
// pod is still at that version, or seen at an older one.
func fencePod(c *changes, named topsv1.NamedPod) (pending bool) {
	for _, m := range c.Members {
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

// leftovers removes the taint and the cordon that an interrupted manager left on the node for
// an operation that has ended. Only operations in the history are known to have ended: an
// unknown one may be newer than the record that was read.
func leftovers(c *changes) {
	live := c.Operation
	if Over(live) {
		live = &topsv1.OperationStatus{}
	}
	if id := c.Node.Taint; id != live.ID && ended(c, id) {
		c.onNode(Effect{Kind: UntaintDevice, Operation: id})
	}
	id := c.Node.Cordon.Mark
	if change := cordon.DecideUncordon(c.Node.Cordon, id); id != live.ID && id != CordonMark(live) && ended(c, id) && change.Needed() {
		c.onNode(Effect{Kind: Uncordon, Operation: id, Change: change})
	}
}

// ended reports whether the history has the end of an operation.
func ended(c *changes, id string) bool {
	return slices.ContainsFunc(c.History, func(r topsv1.OperationRecord) bool { return r.ID == id })
}
