package operation

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/drain/eviction"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

// offerGrace is how long to wait for a node that has cards but offers none before it counts
// as broken: after a boot the device plugin needs a moment.
const offerGrace = 30 * time.Second

// Prechecked reports whether an operation has recorded the state of its node. What it took over with a cordon is what the node was
// before the operation that failed: it is kept in the same place, until the precheck passes.
func Prechecked(op *topsv1.OperationStatus) bool {
	if op.Before == nil || op.CordonedBy == "" || op.Touched {
		return op.Before != nil
	}
	i := slices.IndexFunc(op.Tasks, func(rec topsv1.OperationTask) bool {
		return strings.HasSuffix(rec.Name, "_"+upgradeplan.ActionPrecheck)
	})
	return i < 0 || op.Tasks[i].EndTime != nil
}

// precheck checks whether the node can be upgraded, and records its state before the upgrade.
// It is done once that is recorded; until tasks beyond preparation begin, the node must also
// still pass. A missed deadline defers the operation.
type precheck struct{ base }

func (precheck) done(f *Facts, _ upgradeplan.Task) bool {
	return Prechecked(f.Operation) && (f.disturbed() || nodeLacks(f) == "")
}

// attempt records the node's state once it passes. The resources it offers then are those it
// must offer after the upgrade, so a freshly booted node is given time. Whether the node can be
// emptied is checked for the pods that have to leave: all of them if the restart stops containers.
func (precheck) attempt(c *changes, t upgradeplan.Task) verdict {
	host := c.Host
	if all := host != nil && restarts(c.Facts) && StopsContainers(host.Runtime, c.Wanted.DefaultRuntime); host != nil && all != c.Operation.DrainAll {
		c.Operation.DrainAll = all
		c.soon()
		return waiting(ReasonInProgress, "determining which pods have to be evicted")
	}
	if lookAtUsers(c); c.Operation.Granted && c.Operation.InUse {
		return inUse(c.Facts)
	}
	if lacks := nodeLacks(c.Facts); lacks != "" {
		if c.Drained.Stuck {
			c.at(c.Now.Add(eviction.RetryInterval)) // no event reports that a budget allows an eviction
		}
		return waiting(ReasonPrecheckFailed, "%s", lacks)
	}
	if until := c.recordedAt(c.recorded(t).StartTime.Time).Add(min(offerGrace, c.limits.precheck/2)); mayOffer(c.Facts) && c.Now.Before(until) {
		c.at(until)
		return waiting(ReasonInProgress, "the node has cards, but none is allocatable yet")
	}
	if m, until := settling(c.Facts, t); m != nil {
		c.at(until)
		return waiting(ReasonInProgress, "waiting to see whether pod %s of device plugin %s stays available", m.Pod.Name, m.DaemonSet)
	}
	if why := stranding(c.Facts, t); why != "" {
		return waiting(ReasonPrecheckFailed, "%s", why)
	}
	c.Operation.Before = baseline(c.Facts)
	if c.Operation.CordonedBy != "" {
		now := metav1.NewTime(c.Now)
		c.task(t).EndTime = &now // see Prechecked
	}
	c.Operation.ForeignCordon = c.Node.Cordon.Unschedulable && c.Node.Cordon.Mark == ""
	c.soon()
	return waiting(ReasonInProgress, "all prechecks passed")
}

// baseline returns the state of the node as observed. If the operation took a cordon over, it is no less than before the operation
// that failed: what that one broke is no measure. A resource that the node no longer has is not missing, nor is one of which it
// offers none and another instead, nor are the cards of a node whose device plugin another gr has to replace (otherPlugin): those
// of one that fails are not counted (uncounted).
func baseline(f *Facts) *topsv1.NodeBefore {
	now, before := observed(f)
	if uncounted(f) != nil {
		now.Allocatable = nil
		return now
	}
	if offersNone(f) && outdatedPlugin(f) != nil {
		return now
	}
	renamed := slices.ContainsFunc(slices.Collect(maps.Keys(now.Allocatable)), func(name string) bool { return now.Allocatable[name] > 0 && before[name] == 0 })
	for name, offered := range now.Allocatable {
		if offered > 0 || !renamed {
			now.Allocatable[name] = max(offered, before[name])
		}
	}
	return now
}

// handedOn returns the baseline of an operation for the one that takes its cordon over, without resources that may have been those
// of a device plugin that is gone.
func handedOn(f *Facts) *topsv1.NodeBefore {
	before := f.Operation.Before.DeepCopy()
	for _, component := range []string{upgradeplan.TargetDevicePlugin, upgradeplan.TargetGcusharePlugin} {
		had := slices.ContainsFunc(f.Operation.Tasks, func(rec topsv1.OperationTask) bool {
			return strings.HasSuffix(rec.Name, "_"+component+"_"+upgradeplan.ActionReplace)
		})
		if before != nil && had && !slices.ContainsFunc(f.Members, func(m Member) bool { return m.Component == component && !m.Leaving }) {
			before.Allocatable = nil
		}
	}
	return before
}

func (precheck) deadline(f *Facts, _ verdict) deadline {
	return deadline{f.limits.precheck, topsv1.OperationDeferred, ReasonPrecheckFailed}
}

// lasts is false: a node that no longer passes is prechecked again.
func (precheck) lasts(*Facts, upgradeplan.Task) bool { return false }

// retry records the node's state again, unless the operation has already touched the node. What it took over with a cordon stays.
func (precheck) retry(c *changes, _ upgradeplan.Task) {
	if !c.Operation.Touched && c.Operation.CordonedBy == "" {
		c.Operation.Before = nil
	}
}

// nodeLacks returns what must be fixed before the node is touched, "" when nothing.
func nodeLacks(f *Facts) string {
	host := f.Host
	var lacks []string
	lack := func(is bool, format string, args ...any) {
		if is {
			lacks = append(lacks, fmt.Sprintf(format, args...))
		}
	}
	lack(f.silent(), "the node agent has stopped reporting")
	lack(f.Drained.Stuck && !awaitsRequest(f), "the node cannot be drained: %s", f.Drained.Message)
	lack(f.Node.OtherUpgrader != "", "%s works on the node", f.Node.OtherUpgrader)
	if host != nil {
		need := f.Wanted.MinFreeDiskBytes
		lack(need > 0 && host.FreeDiskBytes == nil, "the free disk space is not known")
		lack(host.FreeDiskBytes != nil && *host.FreeDiskBytes < need, "the disk has less than %d bytes free", need)
		lack(restarts(f) && host.Runtime == nil, "the container runtime is not known")
		lack(f.has(upgradeplan.ActionVerify, upgradeplan.TargetDriver) && host.Devices == nil, "the cards could not be counted")
		who, remedy := strayHolders(f)
		driver := f.has(upgradeplan.ActionReplace, upgradeplan.TargetDriver)
		lack(who != "" && driver, "%s%s", who, remedy)
		if user := barred(f); user != nil {
			lack(driver, "%s", noSuccessor(user).text)
		}
		who, remedy = inContainers(f)
		lack(who != "" && !driver && f.Operation.DrainAll && !awaitsRequest(f), "%s%s, the restart of the container runtime would", who, remedy)
	}
	return strings.Join(lacks, "; ")
}

// mayOffer reports whether the node has the resources for its cards, offers none, and must offer
// them later.
func mayOffer(f *Facts) bool {
	return offersNone(f) && len(f.Node.Allocatable) > 0 && f.has(upgradeplan.ActionVerify, upgradeplan.TargetAllocatable)
}

// restarts reports whether the job restarts the container runtime.
func restarts(f *Facts) bool {
	return f.has(upgradeplan.ActionRestartRuntime, upgradeplan.TargetNode)
}
