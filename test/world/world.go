// Package world makes up what the gcuresource controller observes, for tests of what is
// decided and told of it.
package world

import (
	"fmt"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
	"github.com/topsops/gcu-operator/pkg/gcuresource/state"
)

// Noon is the time of every decision test.
var Noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// NewGR returns a gr as the API server would store it, with the given spec.
func NewGR(spec topsv1.GcuResourceSpec) *topsv1.GcuResource {
	return &topsv1.GcuResource{
		ObjectMeta: metav1.ObjectMeta{Name: "gpu", UID: "gr-uid", Generation: 1, Annotations: map[string]string{}},
		Spec:       spec,
	}
}

// OnNodes asks for every component that runs on nodes and may be together.
func OnNodes() topsv1.GcuResourceSpec {
	return topsv1.GcuResourceSpec{
		NFD: &topsv1.NFDSpec{}, Driver: &topsv1.BaseFields{}, Toolkit: &topsv1.BaseFields{},
		DevicePlugin: &topsv1.BaseFields{}, Exporter: &topsv1.BaseFields{}, GFD: &topsv1.BaseFields{},
	}
}

// World is what is observed of a gr, to be changed by a test.
type World struct {
	*state.Observation
	t testing.TB
}

// New observes a gr of which only exists what an administrator installs, on n Ready GCU nodes node-1…
func New(t testing.TB, gr *topsv1.GcuResource, n int) *World {
	t.Helper()
	w := &World{&state.Observation{Resource: gr, Applied: map[types.UID]state.Applied{}}, t}
	for _, r := range Render(t, gr) {
		c := state.Component{Rendered: r, Live: map[component.Ref]*metav1.PartialObjectMetadata{}}
		for _, d := range r.Objects {
			if d.Ref.Installed() {
				w.exist(&c, d)
			}
		}
		w.Components = append(w.Components, c)
	}
	for i := 1; i <= n; i++ {
		w.Nodes = append(w.Nodes, GCUNode(fmt.Sprintf("node-%d", i)))
	}
	return w
}

// Copied returns another world that observes the same.
func (w *World) Copied() *World {
	observation := *w.Observation
	observation.Components = slices.Clone(w.Components)
	return &World{&observation, w.t}
}

// Render returns the components of a gr.
func Render(t testing.TB, gr *topsv1.GcuResource) []component.Rendered {
	t.Helper()
	rendered, err := component.Render(gr, gr.Name+"-1")
	if err != nil {
		t.Fatal(err)
	}
	return rendered
}

// GCUNode returns a Ready node that has a GCU.
func GCUNode(name string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			topsv1.LabelGcuPresent: "true", "feature.node.kubernetes.io/pci-1e36.present": "true"}},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
}

// Node returns a node by its name.
func (w *World) Node(name string) *corev1.Node {
	for _, n := range w.Nodes {
		if n.Name == name {
			return n
		}
	}
	w.t.Fatal("no node " + name)
	return nil
}

// Fail lets the Jobs of a component, created from what a hash stands for unless it is empty, have failed.
func (w *World) Fail(name, hash string) {
	for _, job := range w.Component(name).Jobs {
		job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionTrue, Reason: "BackoffLimitExceeded"}}
		if hash != "" {
			job.Annotations[topsv1.AnnotationCreatedFrom] = hash
		}
	}
}

// Guard adds a Ready node of the control plane that has a GCU, and to which admission denies the label of a GCU node.
func (w *World) Guard(name string) {
	node := GCUNode(name)
	delete(node.Labels, topsv1.LabelGcuPresent)
	node.Labels["node-role.kubernetes.io/control-plane"] = ""
	w.Nodes = append(w.Nodes, node)
}

// Off makes nodes not Ready.
func (w *World) Off(names ...string) {
	for _, name := range names {
		w.Node(name).Status.Conditions[0].Status = corev1.ConditionUnknown
	}
}

// Component returns a component by its name.
func (w *World) Component(name string) *state.Component {
	for i := range w.Components {
		if w.Components[i].Name == name {
			return &w.Components[i]
		}
	}
	w.t.Fatal("no component " + name)
	return nil
}

// Create lets the objects of components exist as rendered, without pods.
func (w *World) Create(components ...string) {
	for _, name := range components {
		c := w.Component(name)
		for _, d := range c.Objects {
			w.exist(c, d)
		}
		if c.DaemonSet != nil {
			c.Revisions = []*appsv1.ControllerRevision{Revision(c.DaemonSet, "old", 1)}
		}
	}
}

func (w *World) exist(c *state.Component, d component.Desired) {
	uid := types.UID("uid-" + d.Ref.String())
	object := d.Object.DeepCopy()
	object.SetUID(uid)
	object.SetResourceVersion("5")
	if d.Ref.GroupVersionKind == component.JobKind {
		object.SetAnnotations(map[string]string{topsv1.AnnotationCreatedFrom: d.Hash})
	}
	applied := state.Applied{Hash: d.Hash, ResourceVersion: "5"}
	if d.Ref.Workload() {
		object.SetGeneration(1)
		applied.Generation = 1
	}
	if err := c.SetLive(w.Resource, d.Ref, object); err != nil {
		w.t.Fatal(err)
	}
	switch d.Ref.GroupVersionKind {
	case component.DaemonSetKind:
		c.DaemonSet.Status.ObservedGeneration = 1
	case component.DeploymentKind:
		c.Deployments[d.Ref.Name].Status = appsv1.DeploymentStatus{ObservedGeneration: 1, Replicas: 1, UpdatedReplicas: 1}
	}
	if !d.Ref.Installed() {
		w.Applied[uid] = applied
	}
	if !d.Ref.Kept() {
		w.Owned = append(w.Owned, state.Owned{Ref: d.Ref, UID: uid, Component: c.Name})
	}
}

// Run creates components with an available pod at revision old on every node,
// all replicas available and all Jobs complete.
func (w *World) Run(components ...string) {
	w.Create(components...)
	for _, name := range components {
		c := w.Component(name)
		for _, d := range c.Deployments {
			d.Status.AvailableReplicas = 1
		}
		for _, job := range c.Jobs {
			job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
		}
		if c.DaemonSet == nil {
			continue
		}
		for _, node := range w.Nodes {
			w.Pod(name, node.Name, "old")
		}
	}
}

// Pod adds an available pod.
func (w *World) Pod(component, node, hash string) *corev1.Pod {
	c := w.Component(component)
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: c.PerNode.Name + "-" + node, Labels: map[string]string{"controller-revision-hash": hash},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: c.PerNode.Name,
				UID: c.DaemonSet.UID, Controller: ptr.To(true)}}},
		Spec: corev1.PodSpec{NodeName: node},
		Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue,
			LastTransitionTime: metav1.NewTime(Noon.Add(-time.Minute))}}},
	}
	c.Pods = append(c.Pods, p)
	return p
}

// Broken makes the pod of a component on a node not Ready, for the given reason.
func (w *World) Broken(component, node, reason string) {
	for _, p := range w.Component(component).Pods {
		if p.Spec.NodeName == node {
			p.Status.Conditions[0].Status = corev1.ConditionFalse
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", RestartCount: 4,
				State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}}}
		}
	}
}

// NewTemplate makes a revision "new" the newest of components; nodes have it already.
func (w *World) NewTemplate(component string, nodes ...string) {
	c := w.Component(component)
	c.Revisions = append(c.Revisions, Revision(c.DaemonSet, "new", 2))
	for _, p := range c.Pods {
		for _, node := range nodes {
			if p.Spec.NodeName == node {
				p.Labels["controller-revision-hash"] = "new"
			}
		}
	}
}

// Revision returns a revision of the template of a DaemonSet.
func Revision(ds *appsv1.DaemonSet, hash string, number int64) *appsv1.ControllerRevision {
	return &appsv1.ControllerRevision{Revision: number, ObjectMeta: metav1.ObjectMeta{
		Name: ds.Name + "-" + hash, Labels: map[string]string{"controller-revision-hash": hash},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: ds.Name, UID: ds.UID, Controller: ptr.To(true)}}}}
}

// Action returns the condition of an action, without its time.
func Action(status topsv1.GcuResourceStatus, name string) topsv1.ActionCondition {
	for _, c := range status.Conditions {
		if c.Action == name {
			c.LastUpdateTime = metav1.Time{}
			return c
		}
	}
	return topsv1.ActionCondition{}
}

// Standard returns a standard condition as "status reason: message".
func Standard(status topsv1.GcuResourceStatus, name string) string {
	for _, c := range status.StandardConditions {
		if c.Type == name {
			return fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message)
		}
	}
	return ""
}

// DriverAt is a spec with a driver of one version.
func DriverAt(version string) topsv1.GcuResourceSpec {
	return topsv1.GcuResourceSpec{Driver: &topsv1.BaseFields{Version: version}}
}

// Lose lets an object of a component not exist.
func (w *World) Lose(name, kind, object string) {
	c := w.Component(name)
	for _, d := range c.Objects {
		if d.Ref.Kind == kind && d.Ref.Name == object {
			delete(c.Live, d.Ref)
		}
	}
	switch kind {
	case "Deployment":
		delete(c.Deployments, object)
	case "Job":
		delete(c.Jobs, object)
	}
}
