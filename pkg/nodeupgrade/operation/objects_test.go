package operation

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/drain/cordon"
)

var noon = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

func TestNodeOf(t *testing.T) {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "u", ResourceVersion: "7", Annotations: map[string]string{topsv1.AnnotationCordonedBy: "op"}},
		Spec:       corev1.NodeSpec{Unschedulable: true, Taints: []corev1.Taint{{Key: "other", Value: "x"}, {Key: topsv1.TaintDriverUpgrade, Value: "op", Effect: corev1.TaintEffectNoSchedule}}},
		Status: corev1.NodeStatus{
			Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(noon)}},
			Allocatable: corev1.ResourceList{"cpu": resource.MustParse("4"), "enflame.com/gcu": resource.MustParse("8")},
		},
	}
	want := Node{Name: "n1", UID: "u", Taint: "op", Ready: true, Since: noon, Allocatable: map[string]int64{"enflame.com/gcu": 8},
		Cordon: cordon.NodeFacts{Name: "n1", ResourceVersion: "7", Unschedulable: true, Mark: "op"}}
	got := NodeOf(node, func(resource string) bool { return strings.HasPrefix(resource, "enflame.com/") }, nil, noon)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestMemberOf(t *testing.T) {
	ds := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "driver", UID: "ds"},
		Spec: appsv1.DaemonSetSpec{UpdateStrategy: appsv1.DaemonSetUpdateStrategy{Type: appsv1.OnDeleteDaemonSetStrategyType}}}
	owned := func(uid types.UID, change func(*corev1.Pod)) *corev1.Pod {
		yes := true
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: string(uid), UID: uid, ResourceVersion: "5", CreationTimestamp: metav1.NewTime(noon),
			Labels:          map[string]string{appsv1.ControllerRevisionHashLabelKey: "v1"},
			OwnerReferences: []metav1.OwnerReference{{Kind: "DaemonSet", APIVersion: "apps/v1", Name: "driver", UID: "ds", Controller: &yes}}},
			Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(noon.Add(time.Minute))}}}}
		if change != nil {
			change(p)
		}
		return p
	}
	seen := func(uid types.UID) *Pod {
		return &Pod{NamedPod: topsv1.NamedPod{NamespacedRef: topsv1.NamespacedRef{Namespace: "ns", Name: string(uid), UID: uid}, ResourceVersion: "5"},
			Revision: "v1", Created: noon, Available: true, Since: noon.Add(time.Minute)}
	}
	terminating := func(p *corev1.Pod) { now := metav1.NewTime(noon); p.DeletionTimestamp = &now }
	gone := seen("old")
	gone.Terminating, gone.Available = true, false
	restarted := seen("a")
	restarted.Since, restarted.Restarted = noon.Add(time.Hour), true
	for _, tc := range []struct {
		name string
		pods []*corev1.Pod
		want *Pod
	}{
		{"a DaemonSet may have no pod here", nil, nil},
		{"a pod of the same name and another owner is none of its pods", []*corev1.Pod{owned("a", func(p *corev1.Pod) { p.OwnerReferences[0].UID = "before" })}, nil},
		{"its pod is seen with its version", []*corev1.Pod{owned("a", nil)}, seen("a")},
		{"while one terminates it is that one", []*corev1.Pod{owned("a", nil), owned("old", terminating)}, gone},
		{"a restart of a container counts like a change of readiness", []*corev1.Pod{owned("a", func(p *corev1.Pod) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{RestartCount: 1, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(noon.Add(time.Hour))}}}}
		})}, restarted},
	} {
		t.Run(tc.name, func(t *testing.T) {
			want := Member{Component: "driver", DaemonSet: "ns/driver", UID: "ds", Newest: "v2", Pod: tc.want}
			if diff := cmp.Diff(want, MemberOf("driver", ds, "v2", nil, tc.pods, nil, noon.Add(2*time.Hour))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAMemberIsOfTheGroupThatControlsIt(t *testing.T) {
	ds := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{
		{APIVersion: topsv1.GroupVersion.String(), Kind: topsv1.GcuResourceKind, Name: "big", Controller: ptr.To(true)}}}}
	if got := MemberOf("devicePlugin", ds, "v2", nil, nil, nil, noon).Group; got != "big" {
		t.Errorf("it is of %q", got)
	}
}

// TestMembersOfANodeThatKeepsTheirPodsAway: neither our cordon nor our taint does.
func TestMembersOfANodeThatKeepsTheirPodsAway(t *testing.T) {
	ds := &appsv1.DaemonSet{Spec: appsv1.DaemonSetSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{NodeSelector: map[string]string{"gcu": "true"}}}}}
	node := func(label string, taints ...corev1.Taint) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"gcu": label}}, Spec: corev1.NodeSpec{Unschedulable: true, Taints: append(taints,
			corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule},
			corev1.Taint{Key: topsv1.TaintDriverUpgrade, Value: "op", Effect: corev1.TaintEffectNoSchedule})}}
	}
	for _, tc := range []struct {
		name string
		node *corev1.Node
		want string
	}{
		{"one that our operation cordoned and closed", node("true"), ""},
		{"one with a taint that came later", node("true", corev1.Taint{Key: "repair", Effect: corev1.TaintEffectNoSchedule}), tainted},
		{"one whose pods leave", node("true", corev1.Taint{Key: "repair", Effect: corev1.TaintEffectNoExecute}), "the node has taint repair:NoExecute, which the DaemonSet does not tolerate"},
		{"one that is no longer selected", node("false"), "the node does not match the node selector or affinity of the DaemonSet"},
		{"one that does not exist", nil, ""},
	} {
		if got := MemberOf("driver", ds, "v2", tc.node, nil, nil, noon).NoSuccessor; got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}

func TestTimesOfANodesClockCountFromWhenTheyAreSeen(t *testing.T) {
	for _, skew := range []time.Duration{-3 * time.Minute, 0, 3 * time.Minute} {
		seen, now := &daemonset.StateTimes{}, noon
		stamp := func() metav1.Time { return metav1.NewTime(now.Add(skew)) }
		upgrade := &topsv1.NodeUpgrade{ObjectMeta: metav1.ObjectMeta{UID: "nu"}, Status: topsv1.NodeUpgradeStatus{Host: &topsv1.HostReport{Time: stamp()}}}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "pod"}, Status: corev1.PodStatus{
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: stamp()}}}}
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{UID: "node"}, Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: stamp()}}}}
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{UID: "lease"}, Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To("other"),
			LeaseDurationSeconds: ptr.To(int32(60)), RenewTime: &metav1.MicroTime{Time: stamp().Time}}}
		look := func() (host time.Time, member *Pod, ofNode time.Time, holder string) {
			return HostSince(upgrade, seen, now), podOf(pod, 60, seen, now), NodeOf(node, func(string) bool { return false }, seen, now).Since,
				OtherUpgrader(&corev1.Node{}, lease, seen, now)
		}
		host, member, ofNode, holder := look()
		if !host.Equal(noon) || member.Available || !member.Since.Equal(noon) || !ofNode.Equal(noon) || holder != "other" {
			t.Errorf("skew %s: report since %s, pod %+v, node since %s, held by %q; want all since %s", skew, host, member, ofNode, holder, noon)
		}
		now = noon.Add(61 * time.Second)
		if host, member, ofNode, holder = look(); !host.Equal(noon) || !member.Available || !ofNode.Equal(noon) || holder != "" {
			t.Errorf("skew %s: a minute later report since %s, pod %+v, node since %s, held by %q", skew, host, member, ofNode, holder)
		}
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: stamp()}}}}
		upgrade.Status.Host.Time = stamp()
		if host, member, _, _ = look(); !host.Equal(now) || !member.Since.Equal(now) {
			t.Errorf("skew %s: after a restart and a report, report since %s, pod since %s, want %s", skew, host, member.Since, now)
		}
	}
}
