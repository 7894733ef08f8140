package nodeupgrade

import (
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/nodeupgrade/operation"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

// world lets the DaemonSet controller, the kubelet and the node agent act once.
func (s *stage) world() {
	s.t.Helper()
	var pods corev1.PodList
	s.must(s.admin.List(s.ctx, &pods, client.InNamespace(s.namespace)))
	has := map[string]bool{}
	pluginReady := false
	for i := range pods.Items {
		pod := &pods.Items[i]
		component := pod.Labels["app"]
		if pod.DeletionTimestamp != nil {
			s.kill(pod)
			continue
		}
		has[component] = true
		s.becomeReady(pod)
		pluginReady = pluginReady || component == plugin && isReady(pod)
		if component == driver && isReady(pod) {
			s.host.DriverVersion = pod.Labels[appsv1.ControllerRevisionHashLabelKey]
		}
	}
	closed := operation.TaintedFor(s.readNode()) != ""
	for _, c := range s.components {
		if !has[c] && (!closed || c != plugin && c != exporter) {
			s.createPod(c)
		}
	}
	s.heartbeat(pluginReady)
	s.agent()
}

// createPod creates the pod of a component, as the DaemonSet controller does.
func (s *stage) createPod(component string) {
	s.t.Helper()
	s.created[component]++
	s.must(s.admin.Create(s.ctx, s.podOf(component)))
}

// podOf returns a pod of the newest revision of a component on the node.
func (s *stage) podOf(component string) *corev1.Pod {
	s.t.Helper()
	ds, yes := s.daemonSet(component), true
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, GenerateName: strings.ToLower(component) + "-",
		Labels:          map[string]string{"app": component, appsv1.ControllerRevisionHashLabelKey: s.revision[component]},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: ds.Name, UID: ds.UID, Controller: &yes}}},
		Spec: corev1.PodSpec{NodeName: s.node, Containers: ds.Spec.Template.Spec.Containers}}
}

func isReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// becomeReady makes a pod Ready, as the kubelet does.
func (s *stage) becomeReady(pod *corev1.Pod) {
	s.t.Helper()
	revision := pod.Labels[appsv1.ControllerRevisionHashLabelKey]
	if isReady(pod) || revision == "" {
		return
	}
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(s.now)})
	s.must(s.admin.Status().Update(s.ctx, pod))
}

// heartbeat updates the status of the node.
func (s *stage) heartbeat(pluginReady bool) {
	s.t.Helper()
	node := s.readNode()
	offers := resource.MustParse("0")
	if pluginReady {
		offers = resource.MustParse("8")
	}
	if now := node.Status.Allocatable[accelerator]; len(node.Status.Conditions) > 0 && now.Equal(offers) {
		return
	}
	node.Status.Allocatable = corev1.ResourceList{accelerator: offers}
	node.Status.Capacity = node.Status.Allocatable
	if len(node.Status.Conditions) == 0 {
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(s.now.Add(-time.Hour))}}
	}
	s.must(s.admin.Status().Update(s.ctx, node))
}

// agent carries out the tasks of the host, and reports.
func (s *stage) agent() {
	s.t.Helper()
	if s.silent {
		return
	}
	nu := s.upgrade()
	before := nu.DeepCopy()
	for _, asked := range nu.RequestedTasks() {
		t, err := upgradeplan.ParseTask(asked.Name)
		s.must(err)
		switch t.Action {
		case upgradeplan.ActionRestartRuntime:
			s.host.Runtime.Default = "enflame"
		case upgradeplan.ActionPrepull, upgradeplan.ActionVerify:
		default:
			continue
		}
		state := topsv1.HostTaskDone
		if forced := s.results[t.Target+"_"+t.Action]; forced != "" {
			state = forced
		}
		op := nu.Status.Operation.ID
		s.host.Results = slices.DeleteFunc(s.host.Results, func(r topsv1.HostTaskResult) bool { return r.Operation == op && r.Task == asked.Name })
		s.host.Results = append(s.host.Results, topsv1.HostTaskResult{Operation: op, Task: asked.Name, Attempt: asked.Attempts, State: state})
	}
	s.host.Time = metav1.NewTime(s.now)
	nu.Status.Host = s.host.DeepCopy()
	s.must(s.admin.Status().Patch(s.ctx, nu, client.MergeFrom(before), client.FieldOwner("gcu-node-agent")))
}
