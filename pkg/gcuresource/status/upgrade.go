package status

import (
	"fmt"
	"slices"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/gcuresource/plan"
	"github.com/topsops/gcu-operator/pkg/gcuresource/revision"
	"github.com/topsops/gcu-operator/pkg/gcuresource/state"
)

// Reasons of the upgrade condition, and of Progressing while it is open.
const (
	// ReasonUpgrading means that pods are being replaced.
	ReasonUpgrading = "Upgrading"
	// ReasonRollingBack means that pods are being replaced by those of an earlier spec.
	ReasonRollingBack = topsv1.ReasonRollingBack
	// ReasonRolledBack means that an earlier spec was restored before every node had this one.
	ReasonRolledBack = topsv1.ReasonRolledBack
	// ReasonSuperseded means that another spec came before every node had the restored one.
	ReasonSuperseded = topsv1.ReasonSuperseded
	// ReasonPaused means that an annotation paused it.
	ReasonPaused = topsv1.ReasonPaused
	// ReasonWaitingForNodes means that each node decides (OTA).
	ReasonWaitingForNodes = "WaitingForNodes"
	// ReasonNoStrategy means that outdated pods are not replaced.
	ReasonNoStrategy = "NoUpdateStrategy"
)

// upgrade is how far the pods of a gr have its newest templates.
type upgrade struct {
	// action is upgrade, or rollback to the revision backTo.
	action, backTo string
	// open is true from the change of a template until every reachable node has the new one.
	open bool
	// updated of total pods on Ready nodes are at the newest revision and available.
	updated, total int
	// rolling is true if this operator replaces the pods of DaemonSets on its own.
	rolling bool
	// reason and message describe the progress; empty if it is not open.
	reason, message string
	// passed is true if it ended before any status could show it.
	passed bool
}

// progress returns the finished share in percent.
func (u *upgrade) progress() int32 {
	if u.total == 0 {
		return 0
	}
	return int32(u.updated * 100 / u.total)
}

// phase returns the phase of the action while it is open.
func (u *upgrade) phase() string { return underWay[u.action] }

// upgradeOf returns the state of an upgrade of the gr. It reads only one fact from the last
// status: whether an upgrade was in progress, because pods on the last nodes may be missing
// although no pod is outdated.
func upgradeOf(obs *state.Observation, steps []plan.Step) upgrade {
	u := upgrade{action: topsv1.ActionUpgrade}
	if u.backTo = revision.BackTo(obs.Resource); u.backTo != "" {
		u.action = topsv1.ActionRollback
	}
	changed, onNodes := u.count(steps)
	settings, err := settingsOf(obs, steps)
	u.rolling = err == nil && settings.Strategy == daemonset.AdvancedRollingUpdate
	u.open = changed || (wasUpgrading(obs.Resource) && u.updated < u.total)
	if !u.open {
		u.passed = passed(obs.Changed, steps)
		return u
	}
	u.reason = ReasonUpgrading
	if onNodes { // Kubernetes replaces the others on its own
		u.reason, u.message = upgradeWords(settings, err)
	}
	if obs.Rollout.Halt != nil && u.reason == ReasonUpgrading {
		u.reason, u.message = obs.Rollout.Halt.Reason, "; halted: "+obs.Rollout.Halt.Message
	}
	u.message = fmt.Sprintf("%d of %d pods at the newest revision%s", u.updated, u.total, u.message)
	if u.action == topsv1.ActionRollback {
		u.message = "back to " + u.backTo + ": " + u.message
		if u.reason == ReasonUpgrading {
			u.reason = ReasonRollingBack
		}
	}
	return u
}

// passed reports whether all pods of a changed component were replaced while no operator was
// running to report it.
func passed(changed []string, steps []plan.Step) bool {
	return slices.ContainsFunc(steps, func(s plan.Step) bool {
		return slices.Contains(changed, s.Component) && s.Failure == nil && len(s.Apply) == 0 && s.Health.Running()
	})
}

// count adds up the pods. changed reports whether a template is newer than a pod, onNodes whether
// pods of a DaemonSet lag behind.
func (u *upgrade) count(steps []plan.Step) (changed, onNodes bool) {
	for i := range steps {
		h := &steps[i].Health
		u.total += h.Expected
		u.updated += h.Updated
		lags := h.Outdated > 0 || (h.Seen && !h.Observed)
		changed = changed || lags
		onNodes = onNodes || (h.PerNode && (lags || h.Updated < h.Expected))
	}
	return changed, onNodes
}

// upgradeWords returns who replaces outdated pods, as a reason and a message.
func upgradeWords(settings daemonset.Settings, err error) (reason, message string) {
	if f := settingsFailure(err); f != nil {
		return f.Reason, "; pods are not replaced: " + f.Message
	}
	switch {
	case settings.Strategy == daemonset.NoStrategy:
		return ReasonNoStrategy, "; no update-strategy annotation: pods are not replaced; set " + topsv1.AnnotationUpdateStrategy
	case settings.Paused:
		return ReasonPaused, "; paused: no new node is started until annotation " + topsv1.AnnotationPaused + " is removed"
	case settings.Strategy == daemonset.OTA:
		return ReasonWaitingForNodes, "; strategy OTA: a node is upgraded only after a request on that node"
	}
	return ReasonUpgrading, ""
}

// wasUpgrading reports whether an upgrade or a rollback was in progress.
func wasUpgrading(gr *topsv1.GcuResource) bool {
	return isOpen(gr.Status.Conditions, topsv1.ActionUpgrade) || isOpen(gr.Status.Conditions, topsv1.ActionRollback)
}

// EndsUpgrade reports whether a status ends an upgrade or rollback in progress.
func EndsUpgrade(gr *topsv1.GcuResource, status *topsv1.GcuResourceStatus) bool {
	return wasUpgrading(gr) && !wasUpgrading(&topsv1.GcuResource{Status: *status})
}
