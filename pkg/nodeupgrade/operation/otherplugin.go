package operation

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/utils/ptr"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

// Device plugins that the operation does not replace: another gr deploys them, and has to replace those that fail. It cannot
// while the node is cordoned for the operation.

// otherPlugin returns a device plugin that this operation does not replace, if it may be why the node offers none of its cards,
// and was before: it is outdated, and the node offered none before either, or it fails now and no cards of it were counted because
// it failed before (uncounted). It returns nil when there is none: the new version that the operation installed may be the
// cause. The same if the runtime was restarted: no plugin could work before.
func otherPlugin(f *Facts) *Member {
	before := f.Operation.Before
	if before == nil || !offersNone(f) || slices.ContainsFunc(slices.Collect(maps.Values(before.Allocatable)), func(n int64) bool { return n > 0 }) {
		return nil
	}
	if m := outdatedPlugin(f); m != nil {
		return m
	}
	restarts := func(t upgradeplan.Task) bool { return t.Action == upgradeplan.ActionRestartRuntime }
	if len(before.Allocatable) > 0 || before.DriverVersion == "" || before.Devices == 0 || f.begun(restarts, false) {
		return nil
	}
	return failingPlugin(f)
}

// faultOf says what is wrong with the plugin that otherPlugin returns, and what a person can do.
func faultOf(f *Facts, m *Member) string {
	switch {
	case m.outdated() && len(f.Operation.Before.Allocatable) > 0:
		return fmt.Sprintf("it offered none before either, and %s is outdated", named(m))
	case m.outdated(): // maybe it offered some in good moments
		return named(m) + " is outdated, and its cards were not counted before"
	}
	return named(m) + " does not stay available, and did not before either: correct that DaemonSet, then the node is verified again"
}

// named names a device plugin that another gr deploys.
func named(m *Member) string {
	return fmt.Sprintf("pod %s of device plugin %s, which this operation does not replace,", m.Pod.Name, m.DaemonSet)
}

// isLeftToAnother reports whether an operation that ends in this phase leaves its node to the gr of another device plugin. If that
// one is not outdated, everything else on the node must have been verified.
func isLeftToAnother(f *Facts, phase topsv1.OperationPhase) bool {
	m := otherPlugin(f)
	return m != nil && (m.outdated() || phase == topsv1.OperationDeferred && f.Operation.Reason == ReasonVerifyFailed)
}

// outdatedPlugin returns an outdated device plugin that this operation does not replace, nil if there is none.
func outdatedPlugin(f *Facts) *Member {
	i := slices.IndexFunc(f.Members, func(m Member) bool {
		return isDevicePlugin(&m) && m.outdated() && !f.has(upgradeplan.ActionReplace, m.Component)
	})
	if i < 0 {
		return nil
	}
	return &f.Members[i]
}

// outdated reports whether the pod is known not to be of the newest revision.
func (m *Member) outdated() bool { return m.Newest != "" && m.Pod.Revision != m.Newest }

// failingPlugin returns a device plugin that is not known to stay available, one that is not known to fail first. It returns nil if there
// is none, or another one on the node does, or one is of this operation's own gr, or worked with what this operation replaces (hasWorked),
// or what an earlier operation left on the node may be why it fails (leftUnverified).
func failingPlugin(f *Facts) (failing *Member) {
	if leftUnverified(f) {
		return nil
	}
	for i := range f.Members {
		m := &f.Members[i]
		switch {
		case !isDevicePlugin(m):
		case isOwn(f, m) || hasWorked(f, m) || m.Pod.Available && !f.Now.Before(steadyAt(f, m)):
			return nil
		case failing == nil || !fails(f, m):
			failing = m
		}
	}
	return failing
}

// isOwn reports whether the operation replaces a member, or its gr deploys it.
func isOwn(f *Facts, m *Member) bool {
	return f.has(upgradeplan.ActionReplace, m.Component) || m.Group != "" && strings.HasSuffix(f.Operation.Rollout, "/"+m.Group)
}

// hasWorked reports whether a device plugin, with the pod that it has, worked when something that the operation replaces was verified: that
// may be why it fails now. A pod is created by the clock of the API server, and an end is written by that of a manager, without a bound for
// their difference (daemonset.MaxSkew): a plugin that worked had been available for the soak before the end, so it is taken for a newer one
// only if that clock was behind by more than that, and then the operation is deferred and says nothing about its version. A bound
// would do worse with clocks that are kept: a plugin that its own gr brings soon after the end, and that fails, would fail the operation.
func hasWorked(f *Facts, m *Member) bool {
	for t := range f.job.All() {
		i := slices.IndexFunc(f.History, func(r topsv1.OperationRecord) bool {
			return t.Action == upgradeplan.ActionReplace && r.Phase == topsv1.OperationDone && covers(&r, t.Target, t.Action) && m.Pod.Created.Before(r.EndTime.Time)
		})
		if i >= 0 {
			return true
		}
	}
	return false
}

// leftUnverified reports whether something that the operation replaces was last replaced by one that ended before it was verified.
// One that was deferred for a device plugin of another gr had verified all else. If this operation took a cordon over, its baseline
// says what counted before that, and only earlier ones matter.
func leftUnverified(f *Facts) bool {
	history := f.History
	if i := slices.IndexFunc(history, func(r topsv1.OperationRecord) bool { return r.ID == f.Operation.CordonedBy }); i >= 0 {
		history = history[:i]
	}
	for t := range f.job.All() {
		for _, r := range slices.Backward(history) {
			if t.Action != upgradeplan.ActionReplace || !covers(&r, t.Target, t.Action) || !isEvidence(r) {
				continue
			}
			if endedUnverified(r) && (r.Phase != topsv1.OperationDeferred || r.Reason != ReasonVerifyFailed) {
				return true
			}
			break
		}
	}
	return false
}

// steadyAt is when a device plugin that is available has been so for long enough not to be one that crashes again and again.
func steadyAt(f *Facts, m *Member) time.Time {
	return f.recordedAt(m.Pod.Since).Add(min(f.limits.soak, f.limits.precheck/2))
}

// fails reports whether there is evidence that a device plugin fails: one that leaves, or takes its time to start, may be sound.
func fails(f *Facts, m *Member) bool {
	return isDown(f, m) || m.Pod.Restarted && !m.Pod.Terminating && f.Now.Before(steadyAt(f, m))
}

// isDown reports whether a device plugin fails, and not only now and then: it crash-loops, or has not been available for longer
// than any pod should need.
func isDown(f *Facts, m *Member) bool {
	long := !m.Pod.Available && !f.Now.Before(f.recordedAt(m.Pod.Since).Add(f.limits.progress))
	return !m.Pod.Terminating && (m.Pod.CrashLooping || long)
}

// settling returns a device plugin of which it is not known yet whether the cards are counted, and until when the precheck waits for
// that. It returns nil when there is none.
func settling(f *Facts, t upgradeplan.Task) (m *Member, until time.Time) {
	if m = doubted(f); m == nil || isDown(f, m) || !f.has(upgradeplan.ActionVerify, upgradeplan.TargetAllocatable) {
		return nil, time.Time{}
	}
	until = f.recordedAt(f.recorded(t).StartTime.Time).Add(f.limits.precheck * 3 / 4)
	if at := steadyAt(f, m); m.Pod.Available && at.Before(until) {
		until = at
	}
	if !f.Now.Before(until) {
		return nil, time.Time{}
	}
	return m, until
}

// doubted returns a device plugin that is not known to stay available, if the resources that the node offers are no measure for it
// after the operation when it fails: the node has all that it needs, and another gr has to replace it. What it offered in a good
// moment, or did not in a bad one, would say nothing. It returns nil when there is none: they are counted in any case.
func doubted(f *Facts) *Member {
	now, before := observed(f)
	if now.DriverVersion == "" || now.Devices == 0 || f.Host.NeedsRestart() || len(before) > 0 && outdatedPlugin(f) == nil {
		return nil
	}
	return failingPlugin(f)
}

// observed returns the state of the node, with a driver and cards that are no less than before the operation from which this one took
// the cordon over, and what the node offered then.
func observed(f *Facts) (now *topsv1.NodeBefore, before map[string]int64) {
	host := f.Host
	now = &topsv1.NodeBefore{DriverVersion: host.DriverVersion, BootID: host.BootID, Devices: ptr.Deref(host.Devices, 0), Allocatable: maps.Clone(f.Node.Allocatable)}
	if taken := f.Operation.Before; taken != nil && f.Operation.CordonedBy != "" {
		if before = taken.Allocatable; taken.DriverVersion != "" { // else it had counted no cards
			now.DriverVersion, now.Devices = cmp.Or(now.DriverVersion, taken.DriverVersion), max(now.Devices, taken.Devices)
		}
	}
	return now, before
}

// uncounted returns a device plugin for which the cards are not counted, because it is known to fail; nil if they are.
func uncounted(f *Facts) *Member {
	if m := doubted(f); m != nil && fails(f, m) {
		return m
	}
	return nil
}

// stranding returns why pods may not leave the node yet, "" if they may: they would not get cards again while the device plugin fails,
// and this operation would be deferred for that, after those of all other nodes had been evicted too. A node that an operation has
// changed, or that is out of service for one that failed, goes on. So does a rollback.
func stranding(f *Facts, t upgradeplan.Task) string {
	m := uncounted(f)
	if m == nil || f.Operation.Purpose == topsv1.PurposeRollback || !f.has(upgradeplan.ActionEvict, upgradeplan.TargetNode) || skipped(f, upgradeplan.ActionEvict) || f.Drained.Empty || f.Operation.Touched || f.Operation.CordonedBy != "" {
		return ""
	}
	return fmt.Sprintf("%s does not stay available, and pods that leave the node could not get cards again: correct that DaemonSet; or, while the operation is prepared, kubectl gcu task skip %s %s_%s",
		named(m), t.Host, t.Target, t.Action)
}

// offersNone reports whether the node has cards, but none is allocatable.
func offersNone(f *Facts) bool {
	for _, offered := range f.Node.Allocatable {
		if offered > 0 {
			return false
		}
	}
	return f.Host != nil && ptr.Deref(f.Host.Devices, 0) > 0
}

// isDevicePlugin reports whether a member is a device plugin with a pod on the node.
func isDevicePlugin(m *Member) bool {
	return m.Pod != nil && !m.Pod.Placeholder && OffersCards(m.Component)
}
