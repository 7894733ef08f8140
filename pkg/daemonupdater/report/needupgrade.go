package report

import (
	corev1 "k8s.io/api/core/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
)

// needUpgradeInputs holds what PodNeedUpgrade depends on besides the pod, the targets and the strategy. When
// it changes, the pods of all nodes are checked again.
type needUpgradeInputs struct{ blocked, notAccepted, paused, halted bool }

func needUpgradeInputsOf(in *rollout.Input, d *rollout.Decision) needUpgradeInputs {
	return needUpgradeInputs{blocked: in.Blocked != nil, notAccepted: observed.NotAccepted(in) != nil, paused: in.Settings.Paused, halted: d.Halted != ""}
}

// desired is the desired state of PodNeedUpgrade.
type desired int

const (
	desiredAsIs desired = iota
	desiredAbsent
	desiredFalse
	desiredTrue
)

// desiredNeedUpgrade returns the desired PodNeedUpgrade of a pod (contract statement 100). Under
// OTA it shows whether the pod is outdated, which includes that it must still be verified. Under
// AdvancedRollingUpdate it is True on an outdated pod that is not replaced now because its node
// is skipped, the rollout is paused or halted, or a global task before the nodes failed, and absent otherwise.
// While the group is blocked it is True on outdated pods, and unchanged on others. While the block is
// transient, such as an unknown target, it is unchanged on all pods.
func desiredNeedUpgrade(outdated bool, in *rollout.Input, verdict *rollout.Verdict) desired {
	switch {
	case in.Blocked != nil && (!outdated || observed.Transient(in.Blocked)):
		return desiredAsIs
	case in.Blocked != nil:
		return desiredTrue
	case !in.Upgrades():
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

// isStopped reports whether a node is skipped, or the rollout goes on only when a person acts.
func isStopped(v *rollout.Verdict) bool {
	return v.State == rollout.Skipped || v.Reason == rollout.ReasonPaused || v.Reason == rollout.ReasonHalted || v.Reason == rollout.ReasonGlobalTaskFailed
}

// needUpgradeChange returns the change to PodNeedUpgrade of a pod, nil for none.
func needUpgradeChange(p *pod, in *rollout.Input, verdict *rollout.Verdict) map[string]any {
	target := in.Members[p.Member].Target
	present, status := p.needUpgrade, corev1.ConditionFalse
	outdated := target != "" && p.Revision != target || rollout.NeedsVerification(in, &rollout.Node{NeedsRestart: p.needsRestart}, &p.Pod)
	switch desiredNeedUpgrade(outdated, in, verdict) {
	case desiredAsIs:
		return nil
	case desiredAbsent:
		return removal(present)
	case desiredTrue:
		status = corev1.ConditionTrue
	}
	return changeTo(present, corev1.PodCondition{Type: topsv1.PodNeedUpgrade, Status: status, Message: topsv1.PodNeedUpgradeMessagePrefix + target}, in)
}
