package request

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/test/fixture"
)

func TestDecide(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*corev1.Pod)
		want   Reason
		says   string
	}{
		"accepts an outdated pod of a DaemonSet on this node": {change: func(*corev1.Pod) {}},
		"refuses a pod on another node": {
			change: func(p *corev1.Pod) { p.Spec.NodeName = "node-b" }, want: ReasonOtherNode, says: "send the request on the node it runs on"},
		"refuses a pod that has no node yet": {
			change: func(p *corev1.Pod) { p.Spec.NodeName = "" }, want: ReasonOtherNode},
		"refuses a pod that is being deleted": {
			change: func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} }, want: ReasonTerminating, says: "wait for its successor"},
		"refuses a pod without owner": {
			change: func(p *corev1.Pod) { p.OwnerReferences = nil }, want: ReasonNotDaemonSet, says: "only pods of a DaemonSet"},
		"refuses a pod of a ReplicaSet": {
			change: func(p *corev1.Pod) { p.OwnerReferences[0].Kind = "ReplicaSet" }, want: ReasonNotDaemonSet},
		"refuses a pod of another API's DaemonSet": {
			change: func(p *corev1.Pod) { p.OwnerReferences[0].APIVersion = "apps.kruise.io/v1alpha1" }, want: ReasonNotDaemonSet},
		"refuses a pod owned but not controlled by a DaemonSet": {
			change: func(p *corev1.Pod) { p.OwnerReferences[0].Controller = nil }, want: ReasonNotDaemonSet},
		"refuses a pod without the condition": {
			change: func(p *corev1.Pod) { p.Status.Conditions = nil }, want: ReasonNotNeeded, says: "update strategy OTA"},
		"refuses a pod whose condition is False": {
			change: func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }, want: ReasonNotNeeded, says: "nothing to upgrade"},
		"refuses a pod whose condition is Unknown": {
			change: func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionUnknown }, want: ReasonNotNeeded},
		"refuses a condition that names no revision": {
			change: func(p *corev1.Pod) { p.Status.Conditions[0].Message = "" }, want: ReasonNotNeeded, says: "does not name a revision"},
		"refuses a condition with an empty revision": {
			change: func(p *corev1.Pod) { p.Status.Conditions[0].Message = topsv1.PodNeedUpgradeMessagePrefix }, want: ReasonNotNeeded},
		"refuses a revision that is no label value": {
			change: func(p *corev1.Pod) { p.Status.Conditions[0].Message = topsv1.PodNeedUpgradeMessagePrefix + "a b\n" }, want: ReasonNotNeeded},
	} {
		t.Run(name, func(t *testing.T) {
			pod := fixture.OutdatedPod()
			test.change(pod)
			got, refusal := Decide(pod, "node-a")
			if test.want == "" {
				want := topsv1.UpgradeRequest{
					DaemonSet: topsv1.NamespacedRef{Namespace: "kube-system", Name: "driver", UID: "ds-uid"},
					Pod:       topsv1.NamespacedRef{Namespace: "kube-system", Name: "driver-x", UID: "pod-uid"},
					Revision:  "abc123",
				}
				if diff := cmp.Diff(want, got); diff != "" || refusal != nil {
					t.Errorf("request (-want +got):\n%s", diff)
				}
				return
			}
			if refusal == nil || refusal.Reason != test.want {
				t.Fatalf("refusal is %+v, want reason %s", refusal, test.want)
			}
			if !strings.Contains(refusal.Message, test.says) {
				t.Errorf("message %q does not say %q", refusal.Message, test.says)
			}
		})
	}
}

func TestValidateNames(t *testing.T) {
	long := strings.Repeat("a", 300)
	for name, test := range map[string]struct {
		namespace, pod string
		ok             bool
	}{
		"accepts usual names":                 {"kube-system", "driver-x7x2p", true},
		"accepts dots in a pod name":          {"default", "web.0", true},
		"refuses dots in a namespace":         {"kube.system", "a", false},
		"refuses an empty namespace":          {"", "a", false},
		"refuses an empty pod name":           {"a", "", false},
		"refuses upper case":                  {"a", "Pod", false},
		"refuses a slash":                     {"a", "b/c", false},
		"refuses climbing":                    {"..", "..", false},
		"refuses a line break":                {"a", "b\n", false},
		"refuses a NUL":                       {"a\x00", "b", false},
		"refuses a namespace that is too big": {long, "a", false},
		"refuses a pod name that is too big":  {"a", long, false},
	} {
		t.Run(name, func(t *testing.T) {
			refusal := ValidateNames(test.namespace, test.pod)
			if (refusal == nil) != test.ok {
				t.Fatalf("refusal is %v, want ok=%t", refusal, test.ok)
			}
			if refusal != nil && (refusal.Reason != ReasonMalformed || len(refusal.Message) > 400) {
				t.Errorf("refusal %+v is not a short one with reason Malformed", refusal)
			}
		})
	}
}
