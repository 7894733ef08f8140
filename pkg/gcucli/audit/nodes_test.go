package audit

import (
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// week is a week in minutes.
const week = 7 * 24 * 60

// newPod is a pod at the target of input, ready since a minute, or not ready since then.
func newPod(node string, created, changed int, ready corev1.ConditionStatus) corev1.Pod {
	return corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "gfd-" + node, CreationTimestamp: minute(created), Labels: map[string]string{"controller-revision-hash": "new"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "gfd", Controller: ptr.To(true)}}},
		Spec:   corev1.PodSpec{NodeName: node},
		Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready, LastTransitionTime: minute(changed)}}}}
}

// reportOf is the report of the newest upgrade of input, which began at minute 0 and was complete at minute 30, with pods
// in the place of its NodeUpgrades, and more in its record.
func reportOf(pods []corev1.Pod, more ...topsv1.RolloutRecordEntry) *Report {
	in := input()
	in.Fleet.NodeUpgrades, in.Fleet.Pods, in.Fleet.Now = nil, pods, minute(2*week).Time
	in.Fleet.Rollout.Status.Record = append(in.Fleet.Rollout.Status.Record, more...)
	u, _ := Find(Upgrades(in.Fleet.Rollout.Status.Record), "", "")
	return Of(in, u)
}

func TestWhatAPodTellsOfAnUpgradeThatEnded(t *testing.T) {
	halted := topsv1.RolloutRecordEntry{Time: minute(week), Event: topsv1.RecordHalted, Revision: "r2", Nodes: 1}
	resumed := topsv1.RolloutRecordEntry{Time: minute(week), Event: topsv1.RecordResumed, Revision: "r2", Nodes: 1}
	for _, tt := range []struct {
		name string
		pod  corev1.Pod
		more []topsv1.RolloutRecordEntry
		// result and took are "" if it is not work of the upgrade.
		result, took, missing string
	}{
		{"it was replaced in the upgrade", newPod("a", 4, 6, corev1.ConditionTrue), nil, "Done", "2m0s", "a pod says when it became ready last"},
		{"it was ready with the end", newPod("a", 28, 30, corev1.ConditionTrue), nil, "Done", "2m0s", ""},
		{"it was deleted by hand a week later", newPod("a", week, week+1, corev1.ConditionTrue), nil, "", "", "1 pod created after the end of the upgrade"},
		{"it was created after the end, and a halt came", newPod("a", week, week+1, corev1.ConditionTrue), []topsv1.RolloutRecordEntry{halted}, "", "", "1 pod created after the end of the upgrade"},
		{"it was created after the upgrade was resumed", newPod("a", week, week+1, corev1.ConditionTrue), []topsv1.RolloutRecordEntry{resumed}, "Done", "1m0s", ""},
		{"it was not ready for a while after the end", newPod("a", 4, week, corev1.ConditionTrue), nil, "Done", "not known", "when the replacement of 1 pod ended"},
		{"it is not ready since the end", newPod("a", 4, week, corev1.ConditionFalse), nil, "Unknown", "not known", "when the replacement of 1 pod ended"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := reportOf([]corev1.Pod{tt.pod}, tt.more...)
			if missing := strings.Join(r.Missing, "\n"); !strings.Contains(missing, tt.missing) {
				t.Errorf("%q is not in %q", tt.missing, missing)
			}
			if tt.result == "" {
				if len(r.Nodes) > 0 {
					t.Errorf("it is work of the upgrade: %+v", r.Nodes)
				}
				return
			}
			if len(r.Nodes) != 1 || r.Nodes[0].Result != tt.result || r.Nodes[0].took(r.Time) != tt.took {
				t.Fatalf("the work is %+v", r.Nodes)
			}
			if known := r.Nodes[0].Ended != nil; known != (tt.took != "not known") {
				t.Errorf("it ended at %v", r.Nodes[0].Ended)
			}
		})
	}
}

// What is not known is said in every format, and does not stretch the timeline.
func TestAnEndThatIsNotKnown(t *testing.T) {
	r := reportOf([]corev1.Pod{newPod("a", 15, week, corev1.ConditionTrue)})
	if text := r.Markdown(); !strings.Contains(text, "| a | kube-system/gfd | 2026-03-01 12:15:00 UTC | not known | Done |") {
		t.Errorf("Markdown:\n%s", text)
	}
	html, err := r.HTML()
	if err != nil || !strings.Contains(html, `<span class="ended-unknown" style="left:50.00%;width:0.00%"></span>`) || !strings.Contains(html, "<td>not known</td>") {
		t.Errorf("HTML: %v\n%s", err, html)
	}
	text, err := json.Marshal(r.Nodes[0])
	if err != nil || strings.Contains(string(text), "ended") {
		t.Errorf("JSON: %v %s", err, text)
	}
}

func TestTheOfflineNodesAreNamed(t *testing.T) {
	in := input()
	record := in.Fleet.Rollout.Status.Record
	record[len(record)-1].Message = "2 nodes offline: upgraded when Ready again"
	u, _ := Find(Upgrades(record), "", "")
	if text := Of(in, u).Markdown(); !strings.Contains(text, "| State | complete except offline nodes (2 nodes offline: upgraded when Ready again) |") {
		t.Errorf("the report is\n%s", text)
	}
}
