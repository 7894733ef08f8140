package daemonupdater

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
)

// podPatch changes conditions of ours of one pod and nothing else.
type podPatch struct {
	namespace, name string
	data            []byte
	// node the pod is on, for trying again.
	node string
}

// marking is what PodNeedUpgrade of all pods depends on besides the target and
// the strategy, which are in the frame of the view.
type marking struct{ blocked, paused, halted bool }

func markingOf(in *rollout.Input, d *rollout.Decision) marking {
	return marking{blocked: in.Blocked != nil, paused: in.Settings.Paused, halted: d.Halted != ""}
}

// maxPatches bounds the patches of one pass, so that a large fleet that is marked
// does not keep the rollout from going on.
const maxPatches = 500

// conditionPatches returns the patches that bring PodNeedUpgrade and PodImageReady of
// the pods of the group to what they should be, at most maxPatches of them; more reports whether
// there are others. Only nodes are looked at about which something changed: when
// it returns, those that need no patch are not among view.unmarked any more.
func conditionPatches(o *observation, in *rollout.Input, d *rollout.Decision) (patches []podPatch, more bool, err error) {
	v := o.view
	if now := markingOf(in, d); now != v.marking {
		v.marking = now
		for name := range v.nodes {
			v.unmarked[name] = true
		}
	}
	for i := range in.Ledger.Slots {
		if verdict, _ := d.Verdict(in.Ledger.Slots[i].Node); verdict.State != rollout.InFlight {
			v.unmarked[in.Ledger.Slots[i].Node] = true // gave its slot back
		}
	}
	for _, name := range slices.Sorted(maps.Keys(v.unmarked)) {
		if len(patches) >= maxPatches {
			return patches, true, nil
		}
		needed := false
		if n := v.nodes[name]; n != nil {
			verdict, _ := d.Verdict(name)
			for i := range n.pods {
				data, err := conditionsPatch(&n.pods[i], in, &verdict, n.pulls)
				if err != nil {
					return nil, false, err
				}
				if data != nil {
					patches = append(patches, podPatch{n.pods[i].namespace, n.pods[i].name, data, name})
					needed = true
				}
			}
		}
		if !needed {
			delete(v.unmarked, name)
		}
	}
	return patches, false, nil
}

// mark is what PodNeedUpgrade of a pod should be.
type mark int

const (
	leaveMark mark = iota
	noMark
	markFalse
	markTrue
)

// markOf says what PodNeedUpgrade of a pod should be (contract statement 100).
// Under OTA it says whether the pod is outdated. Under AdvancedRollingUpdate it is
// True on an outdated pod that is not being replaced now, because its node is
// skipped, or the rollout is paused, halted or blocked, and absent otherwise.
// Nothing is changed while the target is not known, or the settings are wrong and
// the pod is not outdated.
func markOf(outdated bool, in *rollout.Input, verdict *rollout.Verdict) mark {
	switch {
	case in.Blocked != nil && (!outdated || transient(in.Blocked)):
		return leaveMark
	case in.Blocked != nil:
		return markTrue
	case in.Settings.Strategy == daemonset.NoStrategy:
		return noMark
	case in.Settings.Strategy == daemonset.OTA && outdated:
		return markTrue
	case in.Settings.Strategy == daemonset.OTA:
		return markFalse
	case outdated && isStopped(verdict):
		return markTrue
	}
	return noMark
}

// isStopped reports whether a node is passed over until something else happens.
func isStopped(v *rollout.Verdict) bool {
	return v.State == rollout.Skipped || v.Reason == rollout.ReasonPaused || v.Reason == rollout.ReasonHalted
}

// conditionsPatch returns the patch of one pod, nil when it needs none. pulls are what
// the agent of its node tells.
func conditionsPatch(pod *podView, in *rollout.Input, verdict *rollout.Verdict, pulls []topsv1.ImagePull) ([]byte, error) {
	if pod.terminating {
		return nil, nil
	}
	var changes []any
	for _, change := range []map[string]any{needUpgradeChange(pod, in, verdict), imageReadyChange(pod, in, pulls)} {
		if change != nil {
			changes = append(changes, change)
		}
	}
	if len(changes) == 0 {
		return nil, nil
	}
	return conditionPatch(pod, changes...)
}

// needUpgradeChange returns what is to change of PodNeedUpgrade of a pod, nil for nothing.
func needUpgradeChange(pod *podView, in *rollout.Input, verdict *rollout.Verdict) map[string]any {
	target := in.Members[pod.member].Target
	present, status := pod.needUpgrade, corev1.ConditionFalse
	switch markOf(target != "" && pod.revision != target, in, verdict) {
	case leaveMark:
		return nil
	case noMark:
		return removal(present)
	case markTrue:
		status = corev1.ConditionTrue
	}
	return changeTo(present, corev1.PodCondition{Type: topsv1.PodNeedUpgrade, Status: status, Message: topsv1.PodNeedUpgradeMessagePrefix + target}, in)
}

// removal takes a condition off, nil when there is none.
func removal(present *corev1.PodCondition) map[string]any {
	if present == nil {
		return nil
	}
	return map[string]any{"type": present.Type, "$patch": "delete"}
}

// changeTo makes a condition what it should be, nil when it is that. The time of its
// last transition is that of its status.
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

// conditionPatch is a strategic merge patch: conditions merge by type, so those
// of others are not touched. The UID keeps it off a successor of the same name.
func conditionPatch(pod *podView, changes ...any) ([]byte, error) {
	data, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.uid},
		"status":   map[string]any{"conditions": changes},
	})
	if err != nil {
		return nil, fmt.Errorf("encoding condition of pod %s/%s: %w", pod.namespace, pod.name, err)
	}
	return data, nil
}
