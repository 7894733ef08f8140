package transform

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/test/fixture"
)

// anyPod is a pod of a device plugin in any state. Times are minutes apart, so that few are the same.
type anyPod struct{ *rand.Rand }

func (r anyPod) time() metav1.Time { return fixture.Ago(time.Duration(r.IntN(60)) * time.Minute) }

func (r anyPod) container(name string) corev1.ContainerStatus {
	c := corev1.ContainerStatus{Name: name, RestartCount: int32(r.IntN(5)), ImageID: "sha256:1"}
	if r.IntN(3) == 0 {
		c.RestartCount = 0
	}
	if c.RestartCount > 0 {
		c.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 1, Message: "no driver", StartedAt: r.time(), FinishedAt: r.time()}
	}
	switch r.IntN(3) {
	case 0:
		c.State.Waiting = &corev1.ContainerStateWaiting{Reason: []string{"CrashLoopBackOff", "ContainerCreating"}[r.IntN(2)], Message: "back-off"}
	default:
		c.State.Running = &corev1.ContainerStateRunning{StartedAt: r.time()}
	}
	return c
}

func (r anyPod) pod() *corev1.Pod {
	ds := fixture.ComponentOf("devicePlugin")
	pod := fixture.PodOn(ds, "a", []string{fixture.OldHash, fixture.NewHash}[r.IntN(2)])
	pod.CreationTimestamp, pod.Annotations = r.time(), map[string]string{"a": "b"}
	pod.Spec.Containers = []corev1.Container{{Name: "main", Image: "plugin:1"}, {Name: "beside", Image: "beside:1"}}
	if r.IntN(2) == 0 {
		pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "A", Value: "b"}, {Name: daemonset.VariableOfResources, Value: []string{"a.com/x", "b.com/y"}[r.IntN(2)]}}
	}
	if r.IntN(8) == 0 {
		pod.Spec.NodeName, pod.Spec.SchedulingGates = "", []corev1.PodSchedulingGate{{Name: []string{topsv1.GateAwaitingUpgrade, topsv1.GateRemoved}[r.IntN(2)]}}
	}
	if r.IntN(8) == 0 {
		pod.DeletionTimestamp = new(r.time())
	}
	pod.Status.Phase = []corev1.PodPhase{corev1.PodRunning, corev1.PodPending, corev1.PodFailed}[r.IntN(3)]
	if r.IntN(4) > 0 {
		pod.Status.StartTime = new(r.time())
	}
	pod.Status.Conditions = nil
	for _, kind := range []corev1.PodConditionType{corev1.PodScheduled, corev1.PodInitialized, corev1.PodReadyToStartContainers, corev1.ContainersReady, corev1.PodReady, topsv1.PodNeedUpgrade, topsv1.PodImageReady} {
		if r.IntN(4) > 0 {
			pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: kind, LastTransitionTime: r.time(),
				Status: []corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionTrue, corev1.ConditionFalse}[r.IntN(3)]})
		}
	}
	for range r.IntN(2) {
		pod.Status.InitContainerStatuses = append(pod.Status.InitContainerStatuses, r.container("init"))
	}
	for i := range r.IntN(3) {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, r.container(fmt.Sprint("main-", i)))
	}
	return pod
}

func (r anyPod) node() *corev1.Node {
	node := fixture.Node("a")
	node.Status.NodeInfo = corev1.NodeSystemInfo{MachineID: "m", KernelVersion: "5", OSImage: "linux"}
	node.Status.Conditions[0].LastTransitionTime = r.time()
	node.Status.Conditions = append([]corev1.NodeCondition{{Type: corev1.NodeDiskPressure, LastTransitionTime: r.time()}}, node.Status.Conditions...)
	node.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
	for _, name := range []corev1.ResourceName{"enflame.com/gcu", "a.com/x", "b.com/y"} {
		if r.IntN(3) == 0 {
			node.Status.Allocatable[name] = resource.MustParse("8")
		}
	}
	return node
}

func (r anyPod) upgrade() *topsv1.NodeUpgrade {
	upgrade, devices := fixture.NodeUpgrade("a"), int32(8)
	upgrade.Status.Host = &topsv1.HostReport{Time: fixture.Ago(0), Devices: &devices, Runtime: &topsv1.RuntimeReport{
		Engine: []string{"docker", "containerd"}[r.IntN(2)], Default: topsv1.DefaultRuntime, StartTime: new(r.time())}}
	if r.IntN(2) == 0 {
		upgrade.Status.Host.Runtime.DefaultSince = new(r.time())
	}
	return upgrade
}

// TestTrimKeepsWhatADecisionReads: a field that is read and not kept is zero in production, and not in the tests of the packages
// that read it.
func TestTrimKeepsWhatADecisionReads(t *testing.T) {
	seen := map[string]int{}
	for seed := range uint64(3000) {
		r := anyPod{rand.New(rand.NewPCG(seed, 1))}
		ds := fixture.ComponentOf("devicePlugin")
		ds.Spec.MinReadySeconds = int32(r.IntN(2) * 600)
		s := &observed.State{Group: observed.GroupOf(ds), Rollout: &topsv1.DaemonRollout{}, Policy: &topsv1.UpgradePolicy{},
			Members: []observed.Member{{DaemonSet: ds, Revisions: fixture.RevisionsOf(ds, fixture.OldHash, fixture.NewHash)}}}
		node, pod, upgrade := r.node(), r.pod(), r.upgrade()
		read := func(node *corev1.Node, pod *corev1.Pod, upgrade *topsv1.NodeUpgrade) any {
			observed.SetNode(s, node.Name, node, upgrade, []*corev1.Pod{pod})
			return s.RolloutNode(node.Name, "r", observed.Zones{}, fixture.Epoch)
		}
		whole := read(node.DeepCopy(), pod.DeepCopy(), upgrade.DeepCopy())
		if diff := cmp.Diff(whole, read(trimmed(t, node), trimmed(t, pod), trimmed(t, upgrade)), cmpopts.IgnoreUnexported(rollout.Node{})); diff != "" {
			t.Fatalf("seed %d: a decision reads (-of what is whole +of what is kept):\n%s", seed, diff)
		}
		is := fmt.Sprintf("%+v", whole)
		for _, what := range []string{"NoCards:true", "NoCards:false", "OffersNone:true", "CrashLooping:main", "Ran:0s", "Gated:true", "Placeholder:true"} {
			if strings.Contains(is, what) {
				seen[what]++
			}
		}
	}
	if len(seen) != 7 {
		t.Errorf("it happened only that %v", seen)
	}
}
