package daemonupdater

import (
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
)

// podPatch changes one condition of one pod and nothing else.
type podPatch struct {
	pod  *corev1.Pod
	data []byte
}

// needUpgradePatches returns the patches that bring PodNeedUpgrade of every pod
// of the group to what it should be: under OTA True or False, otherwise absent
// (contract statement 100). It is pure. Nothing is patched while the targets or
// the settings are not known.
func needUpgradePatches(o *observation, in rollout.Input, now time.Time) ([]podPatch, error) {
	if in.Blocked != nil {
		return nil, nil
	}
	var patches []podPatch
	for i, m := range o.members {
		for _, pod := range m.pods {
			if pod.DeletionTimestamp != nil {
				continue
			}
			data, err := needUpgradePatch(pod, in.Settings.Strategy, in.Members[i].Target, now)
			if err != nil {
				return nil, err
			}
			if data != nil {
				patches = append(patches, podPatch{pod, data})
			}
		}
	}
	return patches, nil
}

func needUpgradePatch(pod *corev1.Pod, strategy daemonset.Strategy, target string, now time.Time) ([]byte, error) {
	present := daemonset.NeedUpgrade(pod)
	if strategy != daemonset.OTA {
		if present == nil {
			return nil, nil
		}
		return conditionPatch(pod, map[string]any{"type": topsv1.PodNeedUpgrade, "$patch": "delete"})
	}
	status := corev1.ConditionFalse
	if daemonset.RevisionHash(pod) != target {
		status = corev1.ConditionTrue
	}
	message := topsv1.PodNeedUpgradeMessagePrefix + target
	if present != nil && present.Status == status && present.Message == message {
		return nil, nil
	}
	changed := wholeSecond(now)
	if present != nil && present.Status == status {
		changed = present.LastTransitionTime
	}
	return conditionPatch(pod, map[string]any{
		"type": topsv1.PodNeedUpgrade, "status": status, "message": message, "lastTransitionTime": changed,
	})
}

// conditionPatch is a strategic merge patch: conditions merge by type, so those
// of others are not touched. The UID keeps it off a successor of the same name.
func conditionPatch(pod *corev1.Pod, condition map[string]any) ([]byte, error) {
	data, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID},
		"status":   map[string]any{"conditions": []any{condition}},
	})
	if err != nil {
		return nil, fmt.Errorf("encoding condition of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return data, nil
}
