package gcuresource

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
)

// noon is the time of every decision test.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// nfdCRDName is the CRD that stays when its gr goes.
const nfdCRDName = "nodefeaturerules.nfd.k8s-sigs.io"

// newGR returns a gr as the API server would store it, with the given spec.
func newGR(spec topsv1.GcuResourceSpec) *topsv1.GcuResource {
	return &topsv1.GcuResource{
		ObjectMeta: metav1.ObjectMeta{Name: "gpu", UID: "gr-uid", Generation: 1, Annotations: map[string]string{}},
		Spec:       spec,
	}
}

// onNodes asks for every component that runs on nodes and may be together.
func onNodes() topsv1.GcuResourceSpec {
	return topsv1.GcuResourceSpec{
		NFD: &topsv1.NFDSpec{}, Driver: &topsv1.BaseFields{}, Toolkit: &topsv1.BaseFields{},
		DevicePlugin: &topsv1.BaseFields{}, Exporter: &topsv1.BaseFields{}, GFD: &topsv1.BaseFields{},
	}
}

func render(t testing.TB, gr *topsv1.GcuResource) []component.Rendered {
	t.Helper()
	revision, err := revisionOf(gr)
	if err != nil {
		t.Fatal(err)
	}
	rendered, err := component.Render(gr, revision)
	if err != nil {
		t.Fatal(err)
	}
	return rendered
}

// example reads a blueprint of the examples folder.
func example(t testing.TB, name string) *topsv1.GcuResource {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "..", "examples", name))
	if err != nil {
		t.Fatal(err)
	}
	gr := &topsv1.GcuResource{}
	if err := yaml.UnmarshalStrict(raw, gr); err != nil {
		t.Fatalf("decoding %s: %v", name, err)
	}
	return gr
}

// newWorld observes a gr of which nothing exists, on n Ready GCU nodes node-1…
func newWorld(t testing.TB, gr *topsv1.GcuResource, n int) *Observation {
	t.Helper()
	obs := &Observation{Resource: gr, Applied: map[types.UID]Applied{}}
	for _, r := range render(t, gr) {
		obs.Components = append(obs.Components, Component{Rendered: r, Live: map[component.Ref]*metav1.PartialObjectMetadata{}})
	}
	for i := 1; i <= n; i++ {
		obs.Nodes = append(obs.Nodes, gcuNode(fmt.Sprintf("node-%d", i)))
	}
	return obs
}

func gcuNode(name string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			topsv1.LabelGcuPresent: "true", "feature.node.kubernetes.io/pci-1e36.present": "true"}},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
}

func (obs *Observation) node(name string) *corev1.Node {
	for _, n := range obs.Nodes {
		if n.Name == name {
			return n
		}
	}
	panic("no node " + name)
}

func (obs *Observation) off(names ...string) {
	for _, name := range names {
		obs.node(name).Status.Conditions[0].Status = corev1.ConditionUnknown
	}
}

func (obs *Observation) component(name string) *Component {
	for i := range obs.Components {
		if obs.Components[i].Name == name {
			return &obs.Components[i]
		}
	}
	panic("no component " + name)
}

// create lets the objects of components exist as rendered, without pods.
func (obs *Observation) create(components ...string) {
	for _, name := range components {
		c := obs.component(name)
		for _, d := range c.Objects {
			obs.exist(c, d)
		}
		if c.DaemonSet != nil {
			c.Revisions = []*appsv1.ControllerRevision{revision(c.DaemonSet, "old", 1)}
		}
	}
}

func (obs *Observation) exist(c *Component, d component.Desired) {
	uid := types.UID("uid-" + d.Ref.String())
	object := d.Object.DeepCopy()
	object.SetUID(uid)
	object.SetResourceVersion("5")
	applied := Applied{Hash: d.Hash, ResourceVersion: "5"}
	if d.Ref.Workload() {
		object.SetGeneration(1)
		applied.Generation = 1
	}
	live, err := typed(d.Ref, object)
	if err != nil {
		panic(err)
	}
	switch o := live.(type) {
	case *appsv1.DaemonSet:
		o.Status.ObservedGeneration = 1
	case *appsv1.Deployment:
		o.Status = appsv1.DeploymentStatus{ObservedGeneration: 1, Replicas: 1, UpdatedReplicas: 1}
	}
	c.setLive(obs.Resource, d.Ref, live)
	obs.Applied[uid] = applied
	if !d.Ref.Kept() {
		obs.Owned = append(obs.Owned, Owned{Ref: d.Ref, UID: uid, Component: c.Name})
	}
}

// run creates components with an available pod at revision old on every node,
// all replicas available and all Jobs complete.
func (obs *Observation) run(components ...string) {
	obs.create(components...)
	for _, name := range components {
		c := obs.component(name)
		for _, d := range c.Deployments {
			d.Status.AvailableReplicas = 1
		}
		for _, job := range c.Jobs {
			job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
		}
		if c.DaemonSet == nil {
			continue
		}
		for _, node := range obs.Nodes {
			obs.pod(name, node.Name, "old")
		}
	}
}

// pod adds an available pod.
func (obs *Observation) pod(component, node, hash string) *corev1.Pod {
	c := obs.component(component)
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: c.PerNode.Name + "-" + node, Labels: map[string]string{"controller-revision-hash": hash},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: c.PerNode.Name,
				UID: c.DaemonSet.UID, Controller: ptr.To(true)}}},
		Spec: corev1.PodSpec{NodeName: node},
		Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue,
			LastTransitionTime: metav1.NewTime(noon.Add(-time.Minute))}}},
	}
	c.Pods = append(c.Pods, p)
	return p
}

// broken makes the pod of a component on a node not Ready, for the given reason.
func (obs *Observation) broken(component, node, reason string) {
	for _, p := range obs.component(component).Pods {
		if p.Spec.NodeName == node {
			p.Status.Conditions[0].Status = corev1.ConditionFalse
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", RestartCount: 4,
				State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}}}
		}
	}
}

// newTemplate makes a revision "new" the newest of components; nodes have it already.
func (obs *Observation) newTemplate(component string, nodes ...string) {
	c := obs.component(component)
	c.Revisions = append(c.Revisions, revision(c.DaemonSet, "new", 2))
	for _, p := range c.Pods {
		for _, node := range nodes {
			if p.Spec.NodeName == node {
				p.Labels["controller-revision-hash"] = "new"
			}
		}
	}
}

func revision(ds *appsv1.DaemonSet, hash string, number int64) *appsv1.ControllerRevision {
	return &appsv1.ControllerRevision{Revision: number, ObjectMeta: metav1.ObjectMeta{
		Name: ds.Name + "-" + hash, Labels: map[string]string{"controller-revision-hash": hash},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: ds.Name, UID: ds.UID, Controller: ptr.To(true)}}}}
}

// next is the status after one pass at noon.
func (obs *Observation) next() topsv1.GcuResourceStatus {
	return Describe(obs, Decide(obs, noon), noon)
}

func action(status topsv1.GcuResourceStatus, name string) topsv1.ActionCondition {
	for _, c := range status.Conditions {
		if c.Action == name {
			c.LastUpdateTime = metav1.Time{}
			return c
		}
	}
	return topsv1.ActionCondition{}
}

func standard(status topsv1.GcuResourceStatus, name string) string {
	for _, c := range status.StandardConditions {
		if c.Type == name {
			return fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message)
		}
	}
	return ""
}

// words is "component=status" for each component.
func words(status topsv1.GcuResourceStatus) []string {
	var list []string
	for _, rs := range status.ResourceStatuses {
		list = append(list, rs.Name+"="+rs.Status)
	}
	return list
}
