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

func (precheck) done(s *snapshot, _ upgradeplan.Task) bool {
	return Prechecked(s.op) && (s.disturbed() || nodeLacks(s) == "")
}

// attempt records the node's state once it passes. The resources it offers then are those it
// must offer after the upgrade, so a freshly booted node is given time. Whether the node can be
// emptied is checked for the pods that have to leave: all of them if the restart stops containers.
func (precheck) attempt(c *changes, t upgradeplan.Task) verdict {
	host := c.f.Host
	if all := host != nil && restarts(c.snapshot) && StopsContainers(host.Runtime, c.wanted.DefaultRuntime); host != nil && all != c.op.DrainAll {
		c.op.DrainAll = all
		c.soon()
		return waiting(ReasonInProgress, "determining which pods have to be evicted")
	}
	if lookAtUsers(c); c.op.Granted && c.op.InUse {
		return inUse(c.snapshot)
	}
	if lacks := nodeLacks(c.snapshot); lacks != "" {
		if c.f.Drained.Stuck {
			c.at(c.f.Now.Add(eviction.RetryInterval)) // no event reports that a budget allows an eviction
		}
		return waiting(ReasonPrecheckFailed, "%s", lacks)
	}
	if until := recordedAt(c.f, c.recorded(t).StartTime.Time).Add(min(offerGrace, c.limits.precheck/2)); mayOffer(c.snapshot) && c.f.Now.Before(until) {
		c.at(until)
		return waiting(ReasonInProgress, "the node has cards, but none is allocatable yet")
	}
	if m, until := settling(c.snapshot, t); m != nil {
		c.at(until)
		return waiting(ReasonInProgress, "waiting to see whether pod %s of device plugin %s stays available", m.Pod.Name, m.DaemonSet)
	}
	if why := stranding(c.snapshot, t); why != "" {
		return waiting(ReasonPrecheckFailed, "%s", why)
	}
	c.op.Before = baseline(c.snapshot)
	if c.op.CordonedBy != "" {
		now := metav1.NewTime(c.f.Now)
		c.task(t).EndTime = &now // see Prechecked
	}
	c.op.ForeignCordon = c.f.Node.Cordon.Unschedulable && c.f.Node.Cordon.Mark == ""
	c.soon()
	return waiting(ReasonInProgress, "all prechecks passed")
}

// baseline returns the state of the node as observed. If the operation took a cordon over, it is no less than before the operation
// that failed: what that one broke is no measure. A resource that the node no longer has is not missing, nor is one of which it
// offers none and another instead, nor are the cards of a node whose device plugin another gr has to replace (otherPlugin): those
// of one that fails are not counted (uncounted).
func baseline(s *snapshot) *topsv1.NodeBefore {
	now, before := observed(s)
	if uncounted(s) != nil {
		now.Allocatable = nil
		return now
	}
	if offersNone(s) && outdatedPlugin(s) != nil {
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
func handedOn(s *snapshot) *topsv1.NodeBefore {
	before := s.op.Before.DeepCopy()
	for _, component := range []string{upgradeplan.TargetDevicePlugin, upgradeplan.TargetGcusharePlugin} {
		had := slices.ContainsFunc(s.op.Tasks, func(rec topsv1.OperationTask) bool {
			return strings.HasSuffix(rec.Name, "_"+component+"_"+upgradeplan.ActionReplace)
		})
		if before != nil && had && !slices.ContainsFunc(s.f.Members, func(m Member) bool { return m.Component == component && !m.Leaving }) {
			before.Allocatable = nil
		}
	}
	return before
}

func (precheck) deadline(s *snapshot, _ verdict) deadline {
	return deadline{s.limits.precheck, topsv1.OperationDeferred, ReasonPrecheckFailed}
}

// lasts is false: a node that no longer passes is prechecked again.
func (precheck) lasts(*snapshot, upgradeplan.Task) bool { return false }

// retry records the node's state again, unless the operation has already touched the node. What it took over with a cordon stays.
func (precheck) retry(c *changes, _ upgradeplan.Task) {
	if !c.op.Touched && c.op.CordonedBy == "" {
		c.op.Before = nil
	}
}

// nodeLacks returns what must be fixed before the node is touched, "" when nothing.
func nodeLacks(s *snapshot) string {
	host := s.f.Host
	var lacks []string
	lack := func(is bool, format string, args ...any) {
		if is {
			lacks = append(lacks, fmt.Sprintf(format, args...))
		}
	}
	lack(s.silent(), "the node agent has stopped reporting")
	lack(s.f.Drained.Stuck && !awaitsRequest(s), "the node cannot be drained: %s", s.f.Drained.Message)
	lack(s.f.Node.OtherUpgrader != "", "%s works on the node", s.f.Node.OtherUpgrader)
	if host != nil {
		need := s.wanted.MinFreeDiskBytes
		lack(need > 0 && host.FreeDiskBytes == nil, "the free disk space is not known")
		lack(host.FreeDiskBytes != nil && *host.FreeDiskBytes < need, "the disk has less than %d bytes free", need)
		lack(restarts(s) && host.Runtime == nil, "the container runtime is not known")
		lack(s.has(upgradeplan.ActionVerify, upgradeplan.TargetDriver) && host.Devices == nil, "the cards could not be counted")
		who, remedy := strayHolders(s)
		driver := s.has(upgradeplan.ActionReplace, upgradeplan.TargetDriver)
		lack(who != "" && driver, "%s%s", who, remedy)
		if user := barred(s); user != nil {
			lack(driver, "%s", noSuccessor(user).text)
		}
		who, remedy = inContainers(s)
		lack(who != "" && !driver && s.op.DrainAll && !awaitsRequest(s), "%s%s, the restart of the container runtime would", who, remedy)
	}
	return strings.Join(lacks, "; ")
}

// mayOffer reports whether the node has the resources for its cards, offers none, and must offer
// them later.
func mayOffer(s *snapshot) bool {
	return offersNone(s) && len(s.f.Node.Allocatable) > 0 && s.has(upgradeplan.ActionVerify, upgradeplan.TargetAllocatable)
}

// restarts reports whether the job restarts the container runtime.
func restarts(s *snapshot) bool {
	return s.has(upgradeplan.ActionRestartRuntime, upgradeplan.TargetNode)
}
