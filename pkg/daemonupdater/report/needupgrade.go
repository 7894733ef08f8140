package report

import (
	corev1 "k8s.io/api/core/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
)

// needBasis is what PodNeedUpgrade of all pods depends on besides the targets and the
// strategy: with others of these nothing of nodes is remembered.
type needBasis struct{ blocked, paused, halted bool }

func needBasisOf(in *rollout.Input, d *rollout.Decision) needBasis {
	return needBasis{blocked: in.Blocked != nil, paused: in.Settings.Paused, halted: d.Halted != ""}
}

// desired is what PodNeedUpgrade of a pod should be.
type desired int

const (
	desiredAsIs desired = iota
	desiredAbsent
	desiredFalse
	desiredTrue
)

// desiredNeedUpgrade says what PodNeedUpgrade of a pod should be (contract statement 100).
// Under OTA it says whether the pod is outdated. Under AdvancedRollingUpdate it is
// True on an outdated pod that is not being replaced now, because its node is
// skipped, or the rollout is paused, halted or blocked, and absent otherwise.
// Nothing is changed while the target is not known, or the settings are wrong and
// the pod is not outdated.
func desiredNeedUpgrade(outdated bool, in *rollout.Input, verdict *rollout.Verdict) desired {
	switch {
	case in.Blocked != nil && (!outdated || observed.Transient(in.Blocked)):
		return desiredAsIs
	case in.Blocked != nil:
		return desiredTrue
	case in.Settings.Strategy == daemonset.NoStrategy:
		return desiredAbsent
	case in.Settings.Strategy == daemonset.OTA && outdated:
		return desiredTrue
	case in.Settings.Strategy == daemonset.OTA:
		return desiredFalse
	case outdated && isStopped(verdict):
		return desiredTrue
	}
	return desiredAbsent
}

// isStopped reports whether a node is passed over until something else happens.
func isStopped(v *rollout.Verdict) bool {
	return v.State == rollout.Skipped || v.Reason == rollout.ReasonPaused || v.Reason == rollout.ReasonHalted
}

// needUpgradeChange returns what is to change of PodNeedUpgrade of a pod, nil for nothing.
func needUpgradeChange(p *pod, in *rollout.Input, verdict *rollout.Verdict) map[string]any {
	target := in.Members[p.Member].Target
	present, status := p.needUpgrade, corev1.ConditionFalse
	switch desiredNeedUpgrade(target != "" && p.Revision != target, in, verdict) {
	case desiredAsIs:
		return nil
	case desiredAbsent:
		return removal(present)
	case desiredTrue:
		status = corev1.ConditionTrue
	}
	return changeTo(present, corev1.PodCondition{Type: topsv1.PodNeedUpgrade, Status: status, Message: topsv1.PodNeedUpgradeMessagePrefix + target}, in)
}
