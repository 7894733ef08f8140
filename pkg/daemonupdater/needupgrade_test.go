package daemonupdater

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
)

// patched applies a patch as the API server does.
func patched(t *testing.T, pod *corev1.Pod, patch []byte) *corev1.Pod {
	t.Helper()
	original, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	merged, err := strategicpatch.StrategicMergePatch(original, patch, corev1.Pod{})
	if err != nil {
		t.Fatal(err)
	}
	var after corev1.Pod
	if err := json.Unmarshal(merged, &after); err != nil {
		t.Fatal(err)
	}
	return &after
}

func needs(status corev1.ConditionStatus, target string, since time.Duration) corev1.PodCondition {
	return corev1.PodCondition{Type: "PodNeedUpgrade", Status: status, Message: "controllerrevision: " + target, LastTransitionTime: ago(since)}
}

func TestNeedUpgradePatch(t *testing.T) {
	ready := podOn(daemonSet("driver"), "a", oldHash).Status.Conditions[0]
	gate := corev1.PodCondition{Type: "example.com/gate", Status: corev1.ConditionTrue, LastTransitionTime: ago(time.Hour)}
	tests := []struct {
		name     string
		revision string
		strategy daemonset.Strategy
		had      []corev1.PodCondition // besides Ready and a condition of somebody else
		want     []corev1.PodCondition
		none     bool
	}{
		{name: "under OTA an outdated pod needs it", revision: oldHash, strategy: daemonset.OTA,
			want: []corev1.PodCondition{needs("True", newHash, 0)}},
		{name: "under OTA a pod at the target does not", revision: newHash, strategy: daemonset.OTA,
			want: []corev1.PodCondition{needs("False", newHash, 0)}},
		{name: "a new target changes the message and keeps the time", revision: oldHash, strategy: daemonset.OTA,
			had:  []corev1.PodCondition{needs("True", "between", time.Hour)},
			want: []corev1.PodCondition{needs("True", newHash, time.Hour)}},
		{name: "a pod that becomes outdated has the time of now", revision: oldHash, strategy: daemonset.OTA,
			had:  []corev1.PodCondition{needs("False", oldHash, time.Hour)},
			want: []corev1.PodCondition{needs("True", newHash, 0)}},
		{name: "a rollback to the pod's revision takes the need away", revision: newHash, strategy: daemonset.OTA,
			had:  []corev1.PodCondition{needs("True", "between", time.Hour)},
			want: []corev1.PodCondition{needs("False", newHash, 0)}},
		{name: "a condition that is right already is not written", revision: oldHash, strategy: daemonset.OTA,
			had: []corev1.PodCondition{needs("True", newHash, time.Hour)}, none: true},
		{name: "under AdvancedRollingUpdate it is taken off, and nothing else", revision: oldHash, strategy: daemonset.AdvancedRollingUpdate,
			had: []corev1.PodCondition{needs("True", newHash, time.Hour)}},
		{name: "without a strategy it is taken off", revision: oldHash, strategy: daemonset.NoStrategy,
			had: []corev1.PodCondition{needs("False", newHash, time.Hour)}},
		{name: "under AdvancedRollingUpdate a pod without it is not written", revision: oldHash, strategy: daemonset.AdvancedRollingUpdate, none: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			pod := podOn(daemonSet("driver"), "a", tt.revision)
			pod.Status.Conditions = append([]corev1.PodCondition{ready, gate}, tt.had...)
			data, err := needUpgradePatch(pod, tt.strategy, newHash, epoch.Add(400*time.Millisecond))
			if err != nil {
				t.Fatal(err)
			}
			if tt.none || data == nil {
				if (data == nil) != tt.none {
					t.Fatalf("patch = %s, want none: %v", data, tt.none)
				}
				return
			}
			want := pod.DeepCopy()
			want.Status.Conditions = append([]corev1.PodCondition{ready, gate}, tt.want...)
			byType := func(p *corev1.Pod) map[corev1.PodConditionType]corev1.PodCondition {
				m := map[corev1.PodConditionType]corev1.PodCondition{}
				for _, c := range p.Status.Conditions {
					m[c.Type] = c
				}
				return m
			}
			got := patched(t, pod, data)
			if diff := cmp.Diff(byType(want), byType(got)); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
			got.Status.Conditions, want.Status.Conditions = nil, nil
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("the rest of the pod (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNeedUpgradePatchIsForThisVeryPod(t *testing.T) {
	pod := podOn(daemonSet("driver"), "a", oldHash)
	data, err := needUpgradePatch(pod, daemonset.OTA, newHash, epoch)
	if err != nil {
		t.Fatal(err)
	}
	var patch struct{ Metadata map[string]string }
	if err := json.Unmarshal(data, &patch); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"uid": "uid-driver-a"}, patch.Metadata); diff != "" {
		t.Errorf("metadata (-want +got):\n%s", diff)
	}
}

func TestNeedUpgradePatches(t *testing.T) {
	driver, exporter := daemonSet("driver"), daemonSet("exporter")
	o := observed([]member{
		{daemonSet: driver, pods: []*corev1.Pod{podOn(driver, "a", oldHash), deleting(podOn(driver, "b", oldHash))}},
		{daemonSet: exporter, pods: []*corev1.Pod{podOn(exporter, "a", "e2"), podOn(exporter, "gone", "e1")}},
	})
	in := rollout.Input{Settings: daemonset.Settings{Strategy: daemonset.OTA}, Members: []rollout.Member{{Target: newHash}, {Target: "e2"}}}
	blocked := in
	blocked.Blocked = &rollout.Blocked{Reason: "RevisionPending"}
	tests := []struct {
		name string
		in   rollout.Input
		want map[string]string
	}{
		{"every pod that stays is compared with the target of its own member", in, map[string]string{
			"driver-a": "True controllerrevision: new", "exporter-a": "False controllerrevision: e2", "exporter-gone": "True controllerrevision: e2"}},
		{"nothing is written while the target or the settings are not known", blocked, map[string]string{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			patches, err := needUpgradePatches(o, tt.in, epoch)
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]string{}
			for _, p := range patches {
				c := daemonset.NeedUpgrade(patched(t, p.pod, p.data))
				got[p.pod.Name] = string(c.Status) + " " + c.Message
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("patches (-want +got):\n%s", diff)
			}
		})
	}
}
