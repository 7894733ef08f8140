package daemonset

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func ago(d time.Duration) metav1.Time { return metav1.NewTime(epoch.Add(-d)) }

func podWith(conditions ...corev1.PodCondition) *corev1.Pod {
	return &corev1.Pod{Status: corev1.PodStatus{Conditions: conditions}}
}

func podReady(status corev1.ConditionStatus, since time.Duration) corev1.PodCondition {
	return corev1.PodCondition{Type: corev1.PodReady, Status: status, LastTransitionTime: ago(since)}
}

func TestNodeReady(t *testing.T) {
	created := ago(time.Hour)
	ready := func(status corev1.ConditionStatus) []corev1.NodeCondition {
		return []corev1.NodeCondition{
			{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionTrue, LastTransitionTime: ago(time.Second)},
			{Type: corev1.NodeReady, Status: status, LastTransitionTime: ago(time.Minute)},
		}
	}
	tests := []struct {
		name       string
		conditions []corev1.NodeCondition
		ready      bool
		since      metav1.Time
	}{
		{"True is ready, since it became so", ready(corev1.ConditionTrue), true, ago(time.Minute)},
		{"False is not ready", ready(corev1.ConditionFalse), false, ago(time.Minute)},
		{"Unknown is not ready: its kubelet is silent", ready(corev1.ConditionUnknown), false, ago(time.Minute)},
		{"a node that never said so is not ready since it was created", nil, false, created},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: created}, Status: corev1.NodeStatus{Conditions: tt.conditions}}
			if ready, since := NodeReady(node); ready != tt.ready || !since.Equal(&tt.since) {
				t.Errorf("NodeReady = %v since %s, want %v since %s", ready, since, tt.ready, tt.since)
			}
		})
	}
}

func TestAvailability(t *testing.T) {
	deleting := podWith(podReady(corev1.ConditionTrue, time.Hour))
	deleting.DeletionTimestamp = &metav1.Time{Time: epoch}
	timeless := corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue}
	tests := []struct {
		name            string
		pod             *corev1.Pod
		minReadySeconds int32
		available       bool
		wait            time.Duration
	}{
		{"a Ready pod is available at once without minReadySeconds", podWith(podReady(corev1.ConditionTrue, 0)), 0, true, 0},
		{"so is one that became Ready ahead of our clock", podWith(podReady(corev1.ConditionTrue, -time.Minute)), 0, true, 0},
		{"one that does not say since when it is Ready is, too", podWith(timeless), 0, true, 0},
		{"but not under minReadySeconds: then nobody knows, and waiting does not help", podWith(timeless), 30, false, 0},
		{"a pod Ready ahead of our clock has all of minReadySeconds and the rest before it", podWith(podReady(corev1.ConditionTrue, -time.Minute)), 30, false, 90 * time.Second},
		{"a pod Ready for less than minReadySeconds is not, for the rest of them", podWith(podReady(corev1.ConditionTrue, 20*time.Second)), 30, false, 10 * time.Second},
		{"a pod Ready for exactly minReadySeconds is available", podWith(podReady(corev1.ConditionTrue, 30*time.Second)), 30, true, 0},
		{"a pod Ready for longer is available", podWith(podReady(corev1.ConditionTrue, time.Hour)), 30, true, 0},
		{"a pod that is not Ready is not available, and time alone does not help", podWith(podReady(corev1.ConditionFalse, time.Hour)), 30, false, 0},
		{"a pod of an unknown state is not available", podWith(podReady(corev1.ConditionUnknown, time.Hour)), 0, false, 0},
		{"a pod that does not say is not available", podWith(corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}), 0, false, 0},
		{"a pod being deleted is not available though it is still Ready", deleting, 0, false, 0},
		{"containers being ready is not the pod being Ready", podWith(corev1.PodCondition{Type: corev1.ContainersReady, Status: corev1.ConditionTrue}), 0, false, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if available, wait := Availability(tt.pod, tt.minReadySeconds, epoch); available != tt.available || wait != tt.wait {
				t.Errorf("Availability = %v, %s, want %v, %s", available, wait, tt.available, tt.wait)
			}
		})
	}
}

func container(name, waitingFor string, restarts int32) corev1.ContainerStatus {
	c := corev1.ContainerStatus{Name: name, RestartCount: restarts}
	if waitingFor != "" {
		c.State.Waiting = &corev1.ContainerStateWaiting{Reason: waitingFor}
	}
	return c
}

func TestCrashLooping(t *testing.T) {
	const backOff = "CrashLoopBackOff"
	tests := []struct {
		name   string
		status corev1.PodStatus
		want   string
	}{
		{"a back-off after three restarts is a crash loop", corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{container("driver", backOff, 3)}}, "driver"},
		{"a back-off after two says nothing yet", corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{container("driver", backOff, 2)}}, ""},
		{"many restarts of a container that runs are no crash loop", corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{container("driver", "", 30)}}, ""},
		{"an image that cannot be pulled is no crash loop", corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{container("driver", "ImagePullBackOff", 9)}}, ""},
		{"an init container counts", corev1.PodStatus{
			InitContainerStatuses: []corev1.ContainerStatus{container("load", backOff, 5)},
			ContainerStatuses:     []corev1.ContainerStatus{container("driver", "PodInitializing", 0)}}, "load"},
		{"the container that loops is named, not the first", corev1.PodStatus{
			ContainerStatuses: []corev1.ContainerStatus{container("driver", "", 0), container("sidecar", backOff, 4)}}, "sidecar"},
		{"a pod without containers does not loop", corev1.PodStatus{}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			name, looping := CrashLooping(&corev1.Pod{Status: tt.status})
			if name != tt.want || looping != (tt.want != "") {
				t.Errorf("CrashLooping = %q, %v, want %q", name, looping, tt.want)
			}
		})
	}
}

func TestLastWords(t *testing.T) {
	tests := []struct {
		name            string
		reason, message string
		want            string
	}{
		{"the last line of a log", "CrashLoopBackOff", "loading\nversion 2 cannot be loaded\n", "version 2 cannot be loaded"},
		{"of a container that runs are not asked for", "", "version 2 cannot be loaded", ""},
		{"there are none", "CrashLoopBackOff", " \n", ""},
		{"a long line is cut between characters", "CrashLoopBackOff", strings.Repeat("驱", 101), strings.Repeat("驱", 100) + "…"},
		{"one byte too long", "CrashLoopBackOff", "x" + strings.Repeat("驱", 100), "x" + strings.Repeat("驱", 99) + "…"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := container("driver", tt.reason, 3)
			c.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{Message: tt.message}
			if got := TerminationMessage(&corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{c}}}); got != tt.want {
				t.Errorf("TerminationMessage = %q, want %q", got, tt.want)
			}
		})
	}
	if got := TerminationMessage(&corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{container("driver", "CrashLoopBackOff", 3)}}}); got != "" {
		t.Errorf("of a container of which nothing is known: %q", got)
	}
}

func TestNeedUpgradeIsNilWhenThePodDoesNotSay(t *testing.T) {
	if got := NeedUpgrade(podWith(podReady(corev1.ConditionTrue, 0))); got != nil {
		t.Errorf("NeedUpgrade = %v, want nil", got)
	}
	want := corev1.PodCondition{Type: "PodNeedUpgrade", Status: corev1.ConditionFalse}
	if diff := cmp.Diff(&want, NeedUpgrade(podWith(podReady(corev1.ConditionTrue, 0), want))); diff != "" {
		t.Errorf("NeedUpgrade (-want +got):\n%s", diff)
	}
}

func TestHowLongAContainerRan(t *testing.T) {
	ran := func(d time.Duration) corev1.ContainerStatus {
		return corev1.ContainerStatus{LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{StartedAt: metav1.NewTime(epoch), FinishedAt: metav1.NewTime(epoch.Add(d))}}}
	}
	pod := &corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{}}}}
	if got := RanFor(pod); got != 0 {
		t.Errorf("ran for %s without an end", got)
	}
	pod.Status = corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{ran(time.Minute)}, ContainerStatuses: []corev1.ContainerStatus{ran(20 * time.Second), {}}}
	if got := RanFor(pod); got != time.Minute {
		t.Errorf("ran for %s, want a minute", got)
	}
}
