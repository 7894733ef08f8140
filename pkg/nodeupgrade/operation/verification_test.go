package operation

import (
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

// A person may restart the engine when nobody waits for it: its plugin, created before, goes on
// without cards.
func TestAPluginThatStartedBeforeTheEngineHasNoCards(t *testing.T) {
	began := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	at := func(seconds int) *metav1.Time {
		return ptr.To(metav1.NewTime(began.Add(time.Duration(seconds) * time.Second)))
	}
	type world struct {
		component string
		host      *topsv1.HostReport
		node      *corev1.Node
		pod       *corev1.Pod
	}
	docker := func(w *world) { w.host.Runtime.Engine = "docker" }
	container := func(s corev1.ContainerState) func(*world) {
		return func(w *world) { w.pod.Status.ContainerStatuses = []corev1.ContainerStatus{{State: s}} }
	}
	running := func(seconds int) func(*world) {
		return container(corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: *at(seconds)}})
	}
	sandbox := func(status corev1.ConditionStatus, seconds int) func(*world) {
		return func(w *world) {
			w.pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReadyToStartContainers, Status: status, LastTransitionTime: *at(seconds)}}
		}
	}
	for _, tt := range []struct {
		name   string
		change []func(*world)
		want   bool
	}{
		{"it started before, and the node offers nothing", nil, true},
		{"the other plugin", []func(*world){func(w *world) { w.component = "gcusharePlugin" }}, true},
		{"another component", []func(*world){func(w *world) { w.component = "exporter" }}, false},
		{"it started later", []func(*world){func(w *world) { w.pod.Status.StartTime = at(1) }}, false},
		{"or may have", []func(*world){func(w *world) { w.pod.Status.StartTime = at(0) }}, false},
		{"it has not started", []func(*world){func(w *world) { w.pod.Status.StartTime = nil }}, false},
		{"the node offers cards", []func(*world){func(w *world) {
			w.node.Status.Allocatable = corev1.ResourceList{"enflame.com/gcu": resource.MustParse("1")}
		}}, false},
		{"it offers them under a name of the user", []func(*world){func(w *world) {
			w.pod.Spec.Containers = []corev1.Container{{Env: []corev1.EnvVar{{Name: "CUSTOM_REGISTER_RESOURCE", Value: "a.com/x, b.com/y"}}}}
			w.node.Status.Allocatable["b.com/y"] = resource.MustParse("8")
		}}, false},
		{"it offers what is not the plugin's", []func(*world){func(w *world) { w.node.Status.Allocatable["b.com/y"] = resource.MustParse("8") }}, true},
		{"it has none", []func(*world){func(w *world) { w.host.Devices = ptr.To[int32](0) }}, false},
		{"nobody counted them", []func(*world){func(w *world) { w.host.Devices = nil }}, false},
		{"the runtime is still wrong", []func(*world){func(w *world) { w.host.Runtime.Default = "runc" }}, false},
		{"an agent that does not say when the engine began", []func(*world){func(w *world) { w.host.Runtime.StartTime = nil }}, false},
		{"no agent", []func(*world){func(w *world) { w.host = nil }}, false},
		{"its container has run since before a restart of docker", []func(*world){docker, running(-1)}, true},
		{"docker started its container again", []func(*world){docker, running(1)}, false},
		{"its container does not run under docker", []func(*world){docker, container(corev1.ContainerState{})}, false},
		{"containerd started its container again, in the same sandbox", []func(*world){running(1), sandbox(corev1.ConditionTrue, -50)}, true},
		{"its sandbox was made again after the node booted", []func(*world){sandbox(corev1.ConditionTrue, 1)}, false},
		{"a sandbox that the kubelet noticed after the restart, with a container from before", []func(*world){running(-1), sandbox(corev1.ConditionTrue, 1)}, true},
		{"one with a container from after", []func(*world){running(1), sandbox(corev1.ConditionTrue, 1)}, false},
		{"one with a container that has no start", []func(*world){container(corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}), sandbox(corev1.ConditionTrue, 1)}, false},
		{"its sandbox is to be made again", []func(*world){sandbox(corev1.ConditionFalse, -50)}, false},
		{"so is that of a container from before", []func(*world){running(-1), sandbox(corev1.ConditionFalse, -50)}, false},
	} {
		w := world{component: "devicePlugin", node: &corev1.Node{}, pod: &corev1.Pod{Status: corev1.PodStatus{StartTime: at(-60)}},
			host: &topsv1.HostReport{Devices: ptr.To[int32](8), Runtime: &topsv1.RuntimeReport{Engine: "containerd", Default: "enflame", StartTime: at(0)}}}
		w.node.Status.Allocatable = corev1.ResourceList{"enflame.com/gcu": resource.MustParse("0"), corev1.ResourceCPU: resource.MustParse("4")}
		for _, change := range tt.change {
			change(&w)
		}
		u := &topsv1.NodeUpgrade{Status: topsv1.NodeUpgradeStatus{Host: w.host}}
		if got := HasNoCards(u, w.node, w.component, w.pod, at(0).Time); got != tt.want {
			t.Errorf("%s: %t", tt.name, got)
		}
	}
}

// An agent that saw the default runtime change knows which pods have no cards, whatever the node offers and
// whichever group they are of.
func TestAPodThatStartedBeforeTheDefaultRuntimeWasRightHasNoCards(t *testing.T) {
	right := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	at := func(minutes int) *metav1.Time {
		return ptr.To(metav1.NewTime(right.Add(time.Duration(minutes) * time.Minute)))
	}
	offering := &corev1.Node{Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{"enflame.com/gcu": resource.MustParse("8")}}}
	for _, tt := range []struct {
		name      string
		component string
		started   *metav1.Time
		change    func(*topsv1.HostReport)
		want      bool
	}{
		{"the exporter started before", "exporter", at(-1), nil, true},
		{"so did gfd", "gfd", at(-1), nil, true},
		{"so did the plugin, though the node offers cards", "devicePlugin", at(-1), nil, true},
		{"so did the toolkit, which needs none", "toolkit", at(-1), nil, false},
		{"it started between that and another restart", "exporter", at(1), nil, false},
		{"it has not started", "exporter", nil, nil, false},
		{"the agent does not know", "exporter", at(-1), func(h *topsv1.HostReport) { h.Runtime.DefaultSince = nil }, false},
		{"by the clock of the agent that is in the future", "exporter", at(-1), func(h *topsv1.HostReport) { h.Time, h.Runtime.DefaultSince = *at(1), at(2) }, false},
		{"by our clock that is in the future", "exporter", at(-1), func(h *topsv1.HostReport) { h.Time, h.Runtime.DefaultSince = *at(5), at(4) }, false},
		{"the default is wrong again", "exporter", at(-1), func(h *topsv1.HostReport) { h.Runtime.Default = "runc" }, false},
		{"the node has no cards", "exporter", at(-1), func(h *topsv1.HostReport) { h.Devices = nil }, false},
	} {
		host := &topsv1.HostReport{Time: *at(3), Devices: ptr.To[int32](8),
			Runtime: &topsv1.RuntimeReport{Engine: "containerd", Default: "enflame", StartTime: at(2), DefaultSince: at(0)}}
		if tt.change != nil {
			tt.change(host)
		}
		u := &topsv1.NodeUpgrade{Status: topsv1.NodeUpgradeStatus{Host: host}}
		if got := HasNoCards(u, offering, tt.component, &corev1.Pod{Status: corev1.PodStatus{StartTime: tt.started}}, at(3).Time); got != tt.want {
			t.Errorf("%s: %t", tt.name, got)
		}
	}
}

// The exporter and gfd get the device in the same way as the plugin; what shows that they have none is
// that the plugin has none.
func TestPodsBesideAPluginWithoutCardsHaveNone(t *testing.T) {
	users, err := usersOfDevice(upgradeplan.DefaultBook())
	if err != nil {
		t.Fatal(err)
	}
	began := metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	u := &topsv1.NodeUpgrade{Status: topsv1.NodeUpgradeStatus{Host: &topsv1.HostReport{Runtime: &topsv1.RuntimeReport{Engine: "containerd", StartTime: &began}}}}
	for component, uses := range map[string]bool{"driver": false, "toolkit": false, "nfd": false, "devicePlugin": true, "gcusharePlugin": true, "exporter": true, "gfd": true} {
		if slices.Contains(users, component) != uses {
			t.Errorf("the book has users %v, want %s among them: %t", users, component, uses)
		}
		for started, old := range map[time.Duration]bool{-time.Minute: true, time.Minute: false} {
			pod := &corev1.Pod{Status: corev1.PodStatus{StartTime: ptr.To(metav1.NewTime(began.Add(started)))}}
			if got := StartedWithoutCards(u, component, pod); got != (uses && old) {
				t.Errorf("%s that started %s after the engine: %t", component, started, got)
			}
		}
	}
}

// setOf returns a DaemonSet that was created at a time.
func setOf(created time.Time) *appsv1.DaemonSet {
	return &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{UID: "set", CreationTimestamp: metav1.NewTime(created)}}
}

// The end of an operation is by the clock of a manager, which may be hours from that of the API server, by which a DaemonSet is created:
// the targets of the operation say which one it was for.
func TestADriverIsNotProvenByTheClockOfAManager(t *testing.T) {
	end := time.Date(2030, 1, 1, 9, 40, 0, 0, time.UTC)
	record := topsv1.OperationRecord{ID: "op", Phase: topsv1.OperationAborted, Touched: true, EndTime: metav1.NewTime(end), Result: topsv1.OperationResult{Done: []string{"n1_driver_replace"}}}
	target := func(uid types.UID, leaving ...topsv1.DaemonSetRevision) topsv1.OperationTarget {
		return topsv1.OperationTarget{Component: "driver", DaemonSet: topsv1.NamespacedRef{UID: uid}, Leaving: leaving}
	}
	for name, tc := range map[string]struct {
		asked   *topsv1.NodeOperation
		created time.Time
		want    bool
	}{
		"the manager was behind":                       {&topsv1.NodeOperation{ID: "op", Targets: []topsv1.OperationTarget{target("set")}}, end.Add(140 * time.Minute), true},
		"the manager was ahead":                        {&topsv1.NodeOperation{ID: "op", Targets: []topsv1.OperationTarget{target("former")}}, end.Add(-time.Minute), false},
		"it is the one that was to leave":              {&topsv1.NodeOperation{ID: "op", Targets: []topsv1.OperationTarget{target("other", topsv1.DaemonSetRevision{DaemonSet: topsv1.NamespacedRef{UID: "set"}})}}, end.Add(time.Hour), true},
		"it is no longer known, and it is older":       {nil, end.Add(-time.Minute), true},
		"it is no longer known, and it is newer":       {nil, end.Add(time.Minute), false},
		"another operation is wanted, and it is newer": {&topsv1.NodeOperation{ID: "next", Targets: []topsv1.OperationTarget{target("set")}}, end.Add(time.Minute), false},
	} {
		u := &topsv1.NodeUpgrade{Spec: topsv1.NodeUpgradeSpec{Operation: tc.asked}, Status: topsv1.NodeUpgradeStatus{History: []topsv1.OperationRecord{record}}}
		if got := Unverified(u, "driver", setOf(tc.created)); got != tc.want {
			t.Errorf("%s: unverified %t", name, got)
		}
	}
}
