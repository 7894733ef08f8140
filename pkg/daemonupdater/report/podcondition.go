package report

import (
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
)

// pod is a pod of a group with the conditions that we set, nil if absent.
type pod struct {
	rollout.Pod
	namespace string
	// needsRestart is rollout.Node.NeedsRestart of its node.
	needsRestart            bool
	needUpgrade, imageReady *corev1.PodCondition
}

func podOf(m observed.Member, index int, object *corev1.Pod, now time.Time) pod {
	p := pod{Pod: m.Pod(index, object, nil, now), namespace: object.Namespace}
	if c := daemonset.NeedUpgrade(object); c != nil {
		p.needUpgrade = c.DeepCopy()
	}
	if c := daemonset.ImageReady(object); c != nil {
		p.imageReady = c.DeepCopy()
	}
	return p
}

// removal returns the change that removes a condition, nil if it is absent.
func removal(present *corev1.PodCondition) map[string]any {
	if present == nil {
		return nil
	}
	return map[string]any{"type": present.Type, "$patch": "delete"}
}

// changeTo returns the change to the wanted condition, nil if the pod has it already. The transition
// time changes only with the status.
func changeTo(present *corev1.PodCondition, want corev1.PodCondition, in *rollout.Input) map[string]any {
	changed := wholeSecond(in.Now)
	if present != nil && present.Status == want.Status {
		if present.Message == want.Message && (want.Reason == "" || present.Reason == want.Reason) {
			return nil
		}
		changed = present.LastTransitionTime
	}
	change := map[string]any{"type": want.Type, "status": want.Status, "message": want.Message, "lastTransitionTime": changed}
	if want.Reason != "" {
		change["reason"] = want.Reason
	}
	return change
}

// conditionPatch returns a strategic merge patch: conditions merge by type, so those of other
// owners stay. The UID protects a newer pod of the same name.
func conditionPatch(p *pod, changes ...any) ([]byte, error) {
	data, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": p.UID},
		"status":   map[string]any{"conditions": changes},
	})
	if err != nil {
		return nil, fmt.Errorf("encoding condition of pod %s/%s: %w", p.namespace, p.Name, err)
	}
	return data, nil
}
