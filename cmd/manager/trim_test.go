package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func podOf(kind string) *corev1.Pod {
	yes := true
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "p", UID: "u", ResourceVersion: "7", Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"c": "d"},
			ManagedFields:   []metav1.ManagedFieldsEntry{{Manager: "kubelet"}},
			OwnerReferences: []metav1.OwnerReference{{Kind: kind, Name: "o", UID: "ou", Controller: &yes}},
		},
		Spec: corev1.PodSpec{NodeName: "n", Affinity: &corev1.Affinity{}, Containers: []corev1.Container{{Name: "main", Image: "app:1"}}},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, PodIP: "10.0.0.1", Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
			ContainerStatuses: []corev1.ContainerStatus{{Name: "main", ImageID: "sha256:1", RestartCount: 4,
				State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}}},
		},
	}
}

func trimmed[T any](t *testing.T, object T) T {
	t.Helper()
	got, err := trim()(object)
	if err != nil {
		t.Fatal(err)
	}
	return got.(T)
}

func TestTrimKeepsOfADaemonSetsPodWhereAndHowItIs(t *testing.T) {
	want := podOf("DaemonSet")
	want.Annotations, want.ManagedFields = nil, nil
	want.Spec = corev1.PodSpec{NodeName: "n"}
	want.Status.PodIP, want.Status.ContainerStatuses[0].ImageID = "", ""
	if diff := cmp.Diff(want, trimmed(t, podOf("DaemonSet"))); diff != "" {
		t.Errorf("pod (-want +got):\n%s", diff)
	}
	unbound := podOf("DaemonSet")
	unbound.Spec.NodeName = ""
	if trimmed(t, unbound).Spec.Affinity == nil {
		t.Error("the affinity is gone, which names the node of a pod that is not bound")
	}
}

func TestTrimKeepsOfAnyOtherPodTheName(t *testing.T) {
	want := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "p", UID: "u", ResourceVersion: "7", OwnerReferences: podOf("ReplicaSet").OwnerReferences}}
	if diff := cmp.Diff(want, trimmed(t, podOf("ReplicaSet"))); diff != "" {
		t.Errorf("pod (-want +got):\n%s", diff)
	}
}

func TestTrimLeavesWhatControllersReadOfANode(t *testing.T) {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"c": "d"}},
		Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: "k"}}, Unschedulable: true},
		Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
			NodeInfo:   corev1.NodeSystemInfo{ContainerRuntimeVersion: "containerd://2.1.0"},
			Images:     []corev1.ContainerImage{{Names: []string{"app:1"}}},
		},
	}
	want := node.DeepCopy()
	want.Status.Images = nil
	if diff := cmp.Diff(want, trimmed(t, node)); diff != "" {
		t.Errorf("node (-want +got):\n%s", diff)
	}
}
