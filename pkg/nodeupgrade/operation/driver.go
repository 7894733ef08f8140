package operation

import (
	"slices"
	"strings"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

// replaceDriver is replace for the driver, which must not be in use while it is replaced:
// before its pod is deleted the node is empty and has the driver-upgrade taint, and the users of the device are stopped. It is
// done when replace is. A missed deadline fails the operation with the reason that blocked
// the deletion.
type replaceDriver struct{ replace }

func (d replaceDriver) attempt(c *changes, t upgradeplan.Task) verdict {
	pod, why := d.outgoing(c, t)
	if pod == nil {
		why.atEnd = whyInUse(c.Facts)
		return why
	}
	if why, ready := d.ready(c, t); !ready {
		return why
	}
	return d.deletePod(c, t, pod)
}

// ready empties the node, adds the driver-upgrade taint, evicts the pods of users' DaemonSets, which
// are not created again because of the taint, and stops the operator's own users of the device, in
// this order (invariant S8). It returns true when no user is left, neither a pod nor, as far as the
// agent sees, another process.
func (d replaceDriver) ready(c *changes, t upgradeplan.Task) (verdict, bool) {
	switch {
	case !c.cordoned():
		return waiting(ReasonCordonHeld, "the node is not cordoned"), false
	case !c.Drained.Empty && !skipped(c.Facts, upgradeplan.ActionEvict):
		drainPass(c)
		if c.Node.Taint == c.Operation.ID {
			return waiting(ReasonDeviceInUse, "%s", c.Drained.Message), false
		}
		return waiting(ReasonDrainTimeout, "%s", c.Drained.Message), false
	case barred(c.Facts) != nil:
		return noSuccessor(barred(c.Facts)), false
	case c.Node.Taint != "" && c.Node.Taint != c.Operation.ID:
		return waiting(ReasonCordonHeld, "the driver-upgrade taint of operation %s is on the node", c.Node.Taint), false
	case c.Node.Taint == "":
		c.onNode(Effect{Kind: TaintDevice})
		return waiting(ReasonInProgress, "%s", strings.TrimSuffix("adding the driver-upgrade taint: "+c.nodeDenied(), ": ")), false
	}
	if left := d.stopUsers(c, t); len(left) > 0 {
		return waiting(ReasonDeviceInUse, "what uses the device is being stopped: %s", strings.Join(left, ", ")), false
	}
	if c.silent() || skipped(c.Facts, upgradeplan.ActionPrecheck) {
		return verdict{}, true // the reported processes may have ended, or a person accepts them
	}
	if who, remedy := strayHolders(c.Facts); who != "" {
		return waiting(ReasonDeviceInUse, "%s%s", who, remedy), false
	}
	return verdict{}, true
}

func (d replaceDriver) deadline(f *Facts, why verdict) deadline {
	limit := d.replace.deadline(f, why)
	if why.reason == ReasonDeviceInUse || why.reason == ReasonDrainTimeout {
		return whileEnding(f, limit)
	}
	return limit
}

// barred returns a user of the device whose pod would be stopped and not created again, nil for none.
func barred(f *Facts) (first *Member) {
	for i := range f.Members {
		m := &f.Members[i]
		if f.uses(m.Component) && m.NoSuccessor != "" && m.Pod != nil && !m.Pod.Placeholder && !m.Pod.Terminating && !m.Uncontrolled && (first == nil || m.DaemonSet < first.DaemonSet) {
			first = m
		}
	}
	return first
}

// stopUsers records and deletes the pods that use the device, and returns the names of those
// that still exist, sorted.
func (replaceDriver) stopUsers(c *changes, t upgradeplan.Task) []string {
	rec := c.task(t)
	var left []string
	for i := range c.Members {
		m := &c.Members[i]
		if m.Pod == nil || m.Pod.Placeholder || !c.uses(m.Component) {
			continue
		}
		left = append(left, m.Pod.Namespace+"/"+m.Pod.Name+denialOf(c.Facts, m.Pod))
		if !m.Pod.Terminating && !m.Uncontrolled && c.nameUser(rec, m.Pod.NamedPod) {
			c.onPod(DeletePod, m.Pod.NamedPod)
		}
	}
	slices.Sort(left)
	return left
}

// skipped reports whether a person skipped a task with this action.
func skipped(f *Facts, action string) bool {
	for t := range f.job.All() {
		if t.Action == action && f.recorded(t).State == topsv1.OperationTaskSkipped {
			return true
		}
	}
	return false
}
