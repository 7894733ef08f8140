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
func otherPlugin(s *snapshot) *Member {
	before := s.op.Before
	if before == nil || !offersNone(s) || slices.ContainsFunc(slices.Collect(maps.Values(before.Allocatable)), func(n int64) bool { return n > 0 }) {
		return nil
	}
	if m := outdatedPlugin(s); m != nil {
		return m
	}
	restarts := func(t upgradeplan.Task) bool { return t.Action == upgradeplan.ActionRestartRuntime }
	if len(before.Allocatable) > 0 || before.DriverVersion == "" || before.Devices == 0 || s.begun(restarts, false) {
		return nil
	}
	return failingPlugin(s)
}

// faultOf says what is wrong with the plugin that otherPlugin returns, and what a person can do.
func faultOf(s *snapshot, m *Member) string {
	switch {
	case m.outdated() && len(s.op.Before.Allocatable) > 0:
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
func isLeftToAnother(s *snapshot, phase topsv1.OperationPhase) bool {
	m := otherPlugin(s)
	return m != nil && (m.outdated() || phase == topsv1.OperationDeferred && s.op.Reason == ReasonVerifyFailed)
}

// outdatedPlugin returns an outdated device plugin that this operation does not replace, nil if there is none.
func outdatedPlugin(s *snapshot) *Member {
	i := slices.IndexFunc(s.f.Members, func(m Member) bool {
		return isDevicePlugin(&m) && m.outdated() && !s.has(upgradeplan.ActionReplace, m.Component)
	})
	if i < 0 {
		return nil
	}
	return &s.f.Members[i]
}

// outdated reports whether the pod is known not to be of the newest revision.
func (m *Member) outdated() bool { return m.Newest != "" && m.Pod.Revision != m.Newest }

// failingPlugin returns a device plugin that is not known to stay available, one that is not known to fail first. It returns nil if there
// is none, or another one on the node does, or one is of this operation's own gr, or worked with what this operation replaces (hasWorked),
// or what an earlier operation left on the node may be why it fails (leftUnverified).
func failingPlugin(s *snapshot) (failing *Member) {
	if leftUnverified(s) {
		return nil
	}
	for i := range s.f.Members {
		m := &s.f.Members[i]
		switch {
		case !isDevicePlugin(m):
		case isOwn(s, m) || hasWorked(s, m) || m.Pod.Available && !s.f.Now.Before(steadyAt(s, m)):
			return nil
		case failing == nil || !fails(s, m):
			failing = m
		}
	}
	return failing
}

// isOwn reports whether the operation replaces a member, or its gr deploys it.
func isOwn(s *snapshot, m *Member) bool {
	return s.has(upgradeplan.ActionReplace, m.Component) || m.Group != "" && strings.HasSuffix(s.op.Rollout, "/"+m.Group)
}

// hasWorked reports whether a device plugin, with the pod that it has, worked when something that the operation replaces was verified: that
// may be why it fails now.
func hasWorked(s *snapshot, m *Member) bool {
	for t := range s.job.All() {
		i := slices.IndexFunc(s.f.Record.History, func(r topsv1.OperationRecord) bool {
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
func leftUnverified(s *snapshot) bool {
	history := s.f.Record.History
	if i := slices.IndexFunc(history, func(r topsv1.OperationRecord) bool { return r.ID == s.op.CordonedBy }); i >= 0 {
		history = history[:i]
	}
	for t := range s.job.All() {
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
func steadyAt(s *snapshot, m *Member) time.Time {
	return recordedAt(s.f, m.Pod.Since).Add(min(s.limits.soak, s.limits.precheck/2))
}

// fails reports whether there is evidence that a device plugin fails: one that leaves, or takes its time to start, may be sound.
func fails(s *snapshot, m *Member) bool {
	return isDown(s, m) || m.Pod.Restarted && !m.Pod.Terminating && s.f.Now.Before(steadyAt(s, m))
}

// isDown reports whether a device plugin fails, and not only now and then: it crash-loops, or has not been available for longer
// than any pod should need.
func isDown(s *snapshot, m *Member) bool {
	long := !m.Pod.Available && !s.f.Now.Before(recordedAt(s.f, m.Pod.Since).Add(s.limits.progress))
	return !m.Pod.Terminating && (m.Pod.CrashLooping || long)
}

// settling returns a device plugin of which it is not known yet whether the cards are counted, and until when the precheck waits for
// that. It returns nil when there is none.
func settling(s *snapshot, t upgradeplan.Task) (m *Member, until time.Time) {
	if m = doubted(s); m == nil || isDown(s, m) || !s.has(upgradeplan.ActionVerify, upgradeplan.TargetAllocatable) {
		return nil, time.Time{}
	}
	until = recordedAt(s.f, s.recorded(t).StartTime.Time).Add(s.limits.precheck * 3 / 4)
	if at := steadyAt(s, m); m.Pod.Available && at.Before(until) {
		until = at
	}
	if !s.f.Now.Before(until) {
		return nil, time.Time{}
	}
	return m, until
}

// doubted returns a device plugin that is not known to stay available, if the resources that the node offers are no measure for it
// after the operation when it fails: the node has all that it needs, and another gr has to replace it. What it offered in a good
// moment, or did not in a bad one, would say nothing. It returns nil when there is none: they are counted in any case.
func doubted(s *snapshot) *Member {
	now, before := observed(s)
	if now.DriverVersion == "" || now.Devices == 0 || s.f.Host.NeedsRestart() || len(before) > 0 && outdatedPlugin(s) == nil {
		return nil
	}
	return failingPlugin(s)
}

// observed returns the state of the node, with a driver and cards that are no less than before the operation from which this one took
// the cordon over, and what the node offered then.
func observed(s *snapshot) (now *topsv1.NodeBefore, before map[string]int64) {
	host := s.f.Host
	now = &topsv1.NodeBefore{DriverVersion: host.DriverVersion, BootID: host.BootID, Devices: ptr.Deref(host.Devices, 0), Allocatable: maps.Clone(s.f.Node.Allocatable)}
	if taken := s.op.Before; taken != nil && s.op.CordonedBy != "" {
		if before = taken.Allocatable; taken.DriverVersion != "" { // else it had counted no cards
			now.DriverVersion, now.Devices = cmp.Or(now.DriverVersion, taken.DriverVersion), max(now.Devices, taken.Devices)
		}
	}
	return now, before
}

// uncounted returns a device plugin for which the cards are not counted, because it is known to fail; nil if they are.
func uncounted(s *snapshot) *Member {
	if m := doubted(s); m != nil && fails(s, m) {
		return m
	}
	return nil
}

// stranding returns why pods may not leave the node yet, "" if they may: they would not get cards again while the device plugin fails,
// and this operation would be deferred for that, after those of all other nodes had been evicted too. A node that an operation has
// changed, or that is out of service for one that failed, goes on. So does a rollback.
func stranding(s *snapshot, t upgradeplan.Task) string {
	m := uncounted(s)
	if m == nil || s.op.Purpose == topsv1.PurposeRollback || !s.has(upgradeplan.ActionEvict, upgradeplan.TargetNode) || skipped(s, upgradeplan.ActionEvict) || s.f.Drained.Empty || s.op.Touched || s.op.CordonedBy != "" {
		return ""
	}
	return fmt.Sprintf("%s does not stay available, and pods that leave the node could not get cards again: correct that DaemonSet; or, while the operation is prepared, kubectl gcu task skip %s %s_%s",
		named(m), t.Host, t.Target, t.Action)
}

// offersNone reports whether the node has cards, but none is allocatable.
func offersNone(s *snapshot) bool {
	for _, offered := range s.f.Node.Allocatable {
		if offered > 0 {
			return false
		}
	}
	return s.f.Host != nil && ptr.Deref(s.f.Host.Devices, 0) > 0
}

// isDevicePlugin reports whether a member is a device plugin with a pod on the node.
func isDevicePlugin(m *Member) bool {
	return m.Pod != nil && !m.Pod.Placeholder && OffersCards(m.Component)
}
