package report

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
)

// imageReadyChange returns the change to PodImageReady of a pod, nil for none. Under OTA the
// condition of an outdated pod shows the state of the image pull that was requested on its node
// for the newest revision; otherwise it is absent. pulls are what the agent of that node reports. Those
// for pods on other nodes, earlier pods of the same name or other revisions are ignored.
// Nothing changes while the settings are invalid or the target is unknown.
func imageReadyChange(p *pod, in *rollout.Input, pulls []topsv1.ImagePull) map[string]any {
	if in.Blocked != nil {
		return nil
	}
	target := in.Members[p.Member].Target
	i := slices.IndexFunc(pulls, func(pull topsv1.ImagePull) bool {
		return pull.Pod.UID == p.UID && pull.Pod.Name == p.Name && pull.Pod.Namespace == p.namespace && pull.Revision == target
	})
	if in.Settings.Strategy != daemonset.OTA || p.Revision == target || i < 0 {
		return removal(p.imageReady)
	}
	want := corev1.PodCondition{Type: topsv1.PodImageReady, Status: corev1.ConditionFalse, Message: topsv1.PodNeedUpgradeMessagePrefix + target}
	switch pulls[i].State {
	case topsv1.PullReady:
		want.Status, want.Reason = corev1.ConditionTrue, topsv1.ReasonPullImageSuccess
	case topsv1.PullFailed:
		want.Reason = topsv1.ReasonPullImageFail
	default:
		want.Reason = topsv1.ReasonWaitPullImage
	}
	return changeTo(p.imageReady, want, in)
}
