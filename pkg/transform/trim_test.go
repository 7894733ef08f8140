package transform

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/nodeupgrade/operation"
)

func podOf(kind string) *corev1.Pod {
	yes := true
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "p", GenerateName: "p-", UID: "u", ResourceVersion: "7", Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"c": "d"},
			ManagedFields:   []metav1.ManagedFieldsEntry{{Manager: "kubelet"}},
			OwnerReferences: []metav1.OwnerReference{{Kind: kind, Name: "o", UID: "ou", Controller: &yes}},
		},
		Spec: corev1.PodSpec{NodeName: "n", Affinity: &corev1.Affinity{}, Containers: []corev1.Container{{Name: "main", Image: "app:1"}, {Name: "beside", Image: "beside:1"}}},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, PodIP: "10.0.0.1", StartTime: &metav1.Time{Time: time.Unix(1, 0)},
			Conditions: []corev1.PodCondition{
				{Type: topsv1.PodNeedUpgrade, Status: corev1.ConditionTrue}, {Type: topsv1.PodImageReady, Status: corev1.ConditionTrue}, {Type: corev1.PodReady, Status: corev1.ConditionTrue},
				{Type: corev1.PodScheduled, Status: corev1.ConditionTrue},
			},
			InitContainerStatuses: []corev1.ContainerStatus{{Name: "first", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}}},
			ContainerStatuses: []corev1.ContainerStatus{
				{Name: "beside", ImageID: "sha256:2", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}},
				{Name: "main", ImageID: "sha256:1", RestartCount: 4, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
					LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Message: "no driver"}}},
				{Name: "again", RestartCount: 1, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(time.Unix(1, 0))}},
					LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: "no driver", StartedAt: metav1.NewTime(time.Unix(2, 0)), FinishedAt: metav1.NewTime(time.Unix(62, 0))}}},
			},
		},
	}
}

func trimmed[T any](t *testing.T, object T) T {
	t.Helper()
	got, err := Trim()(object)
	if err != nil {
		t.Fatal(err)
	}
	return got.(T)
}

func TestTrimKeepsOfADaemonSetsPodWhereAndHowItIs(t *testing.T) {
	want := podOf("DaemonSet")
	want.GenerateName, want.Annotations, want.ManagedFields = "", nil, nil
	want.Spec = corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Image: "app:1"}}}
	want.Status.PodIP, want.Status.Conditions, want.Status.InitContainerStatuses = "", want.Status.Conditions[:3], nil
	want.Status.ContainerStatuses[0].ImageID, want.Status.ContainerStatuses[1].ImageID = "", ""
	want.Status.ContainerStatuses[1].LastTerminationState.Terminated.ExitCode = 0
	want.Status.ContainerStatuses[2].LastTerminationState.Terminated.Message = "" // it runs again
	if diff := cmp.Diff(want, trimmed(t, podOf("DaemonSet"))); diff != "" {
		t.Errorf("pod (-want +got):\n%s", diff)
	}
	if ran := daemonset.RanFor(trimmed(t, podOf("DaemonSet"))); ran != time.Minute {
		t.Errorf("a container ran for %s, want a minute: a crash loop would be over after its first half minute", ran)
	}
	if kept := trimmed(t, podOf("DaemonSet")).Status.StartTime; kept == nil || kept.Unix() != 1 {
		t.Errorf("it started at %v: whether that was before a restart of the runtime is not known", kept)
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

func TestTrimKeepsOfAGrsPodWhereAndHowItIs(t *testing.T) {
	pod := podOf("ReplicaSet")
	pod.Labels[topsv1.LabelGcuResource] = "gpu"
	got := trimmed(t, pod)
	if got.Labels[topsv1.LabelGcuResource] != "gpu" || got.Spec.NodeName != "n" || len(got.Status.ContainerStatuses) != 3 {
		t.Errorf("too little is left: %+v", got)
	}
}

func TestTrimKeepsOfDeploymentsAndJobsHowTheyAre(t *testing.T) {
	three := int32(3)
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "d", Generation: 4},
		Spec:       appsv1.DeploymentSpec{Replicas: &three, Template: corev1.PodTemplateSpec{Spec: podOf("").Spec}},
		Status:     appsv1.DeploymentStatus{AvailableReplicas: 3},
	}
	want := deployment.DeepCopy()
	want.Spec.Template = corev1.PodTemplateSpec{}
	if diff := cmp.Diff(want, trimmed(t, deployment)); diff != "" {
		t.Errorf("Deployment (-want +got):\n%s", diff)
	}
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "j"},
		Spec:       batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: podOf("").Spec}},
		Status:     batchv1.JobStatus{Conditions: []batchv1.JobCondition{{Type: batchv1.JobComplete}}},
	}
	wanted := job.DeepCopy()
	wanted.Spec = batchv1.JobSpec{}
	if diff := cmp.Diff(wanted, trimmed(t, job)); diff != "" {
		t.Errorf("Job (-want +got):\n%s", diff)
	}
}

func TestTrimLeavesWhatControllersReadOfANode(t *testing.T) {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"c": "d"}},
		Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: "k"}}, Unschedulable: true},
		Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{
				{Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse}, {Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
			NodeInfo: corev1.NodeSystemInfo{ContainerRuntimeVersion: "containerd://2.1.0", MachineID: "machine-1", KernelVersion: "5.15.0", KubeletVersion: "v1.33.1+k3s1"},
			Allocatable: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("96"), "enflame.com/gcu": resource.MustParse("8")},
			Images: []corev1.ContainerImage{{Names: []string{"app:1"}}},
		},
	}
	want := node.DeepCopy()
	want.Status = corev1.NodeStatus{Conditions: want.Status.Conditions[1:], NodeInfo: corev1.NodeSystemInfo{MachineID: "machine-1", KernelVersion: "5.15.0", KubeletVersion: "v1.33.1+k3s1"},
		Allocatable: corev1.ResourceList{"enflame.com/gcu": resource.MustParse("8")}}
	if diff := cmp.Diff(want, trimmed(t, node)); diff != "" {
		t.Errorf("node (-want +got):\n%s", diff)
	}
}

func TestTrimKeepsOfEndedOperationsHowTheyEnded(t *testing.T) {
	tasks := []topsv1.OperationTask{{Name: "n_driver_replace", State: topsv1.OperationTaskDone}}
	upgrade := func(phase topsv1.OperationPhase, held bool) *topsv1.NodeUpgrade {
		record := topsv1.OperationRecord{ID: "op", Phase: topsv1.OperationDone, Message: "m",
			Result: topsv1.OperationResult{Done: []string{"n_driver_replace"}, Fail: []string{"n_node_restart-runtime"}, Undo: []string{"n_node_soak"}}}
		return &topsv1.NodeUpgrade{Status: topsv1.NodeUpgradeStatus{History: []topsv1.OperationRecord{record, *record.DeepCopy()},
			Operation: &topsv1.OperationStatus{ID: "op", Phase: phase, Held: held, Tasks: tasks}}}
	}
	want := upgrade(topsv1.OperationDone, false)
	want.Status.Operation.Tasks = nil // what it did is in the history
	if diff := cmp.Diff(want, trimmed(t, upgrade(topsv1.OperationDone, false))); diff != "" {
		t.Errorf("an operation that ended (-want +got):\n%s", diff)
	}
	for _, goesOn := range []*topsv1.NodeUpgrade{upgrade(topsv1.OperationRunning, false), upgrade(topsv1.OperationFailed, true)} {
		if got := trimmed(t, goesOn); len(got.Status.Operation.Tasks) != 1 {
			t.Errorf("the tasks of an operation that is %s are gone", got.Status.Operation.Phase)
		}
	}
}

// TestTrimKeepsWhatPoliciesOfVersionsCompare: without it every version is allowed, and no kernel.
func TestTrimKeepsWhatPoliciesOfVersionsCompare(t *testing.T) {
	if got := daemonset.Version(&trimmed(t, podOf("DaemonSet")).Spec); got != "1" {
		t.Errorf("version %q of a pod", got)
	}
	node := &corev1.Node{Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{KernelVersion: "5.15.0"}}}
	if got := trimmed(t, node).Status.NodeInfo.KernelVersion; got != "5.15.0" {
		t.Errorf("kernel %q of a node", got)
	}
}

func TestTrimSharesTheContainersOfPodsOfOneVersion(t *testing.T) {
	transform := Trim()
	var first *corev1.Container
	for range 2 {
		trimmed, err := transform(podOf("DaemonSet"))
		if err != nil {
			t.Fatal(err)
		}
		container := &trimmed.(*corev1.Pod).Spec.Containers[0]
		if first != nil && container != first {
			t.Error("each pod has its own")
		}
		first = container
		runtime.GC()
	}
}

// TestTrimForgetsTheContainersThatNoPodHas: a user who may write pods gives one a long image again and again.
func TestTrimForgetsTheContainersThatNoPodHas(t *testing.T) {
	const writes, size, allowed = 200, 500_000, 20_000_000
	transform := Trim()
	inUse := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before, grown := inUse(), uint64(0)
	for n := range writes {
		pod := podOf("DaemonSet")
		pod.Spec.Containers[0].Image = fmt.Sprint(strings.Repeat("a", size), n)
		pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: daemonset.VariableOfResources, Value: "a.com/x"}}
		if _, err := transform(pod); err != nil {
			t.Fatal(err)
		}
	}
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if grown = max(inUse(), before) - before; grown < allowed {
			break
		}
	}
	if grown >= allowed {
		t.Errorf("%d images of %d bytes that no pod has any more take %d bytes", writes, size, grown)
	}
	runtime.KeepAlive(transform)
}

// TestTrimKeepsWhatTheEndsOfOperationsShow: without the tasks that it ran, no operation has left a node unverified.
func TestTrimKeepsWhatTheEndsOfOperationsShow(t *testing.T) {
	upgrade := &topsv1.NodeUpgrade{Status: topsv1.NodeUpgradeStatus{History: []topsv1.OperationRecord{{ID: "op", Phase: topsv1.OperationFailed, Revision: "r", Touched: true,
		EndTime: metav1.NewTime(time.Unix(2, 0)), Result: topsv1.OperationResult{Done: []string{"n_driver_replace"}, Fail: []string{"n_driver_verify"}}}}}}
	kept := trimmed(t, upgrade.DeepCopy())
	if !operation.Unverified(kept, "driver", &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(time.Unix(1, 0))}}) {
		t.Error("the driver counts as verified")
	}
	if got := observed.FailedTask(kept, "r"); got != "n_driver_verify" {
		t.Errorf("task %q failed", got)
	}
}
