package display

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	world "github.com/topsops/gcu-operator/test/fixture"
	"github.com/topsops/gcu-operator/test/golden"
)

// mixed is a fleet of a driver and a toolkit on four nodes in two zones: some have the new driver, one
// is far behind, one lacks its toolkit, and one belongs to nobody.
func mixed() *Fleet {
	driver, toolkit := world.ComponentOf("driver"), world.ComponentOf("toolkit")
	driver.Spec.Template.Spec.Containers[0].Image, toolkit.Spec.Template.Spec.Containers[0].Image = "r/driver:1.6.2", "r/toolkit:1.6.0"
	driver.Spec.Template.Spec.NodeSelector, toolkit.Spec.Template.Spec.NodeSelector = map[string]string{"gcu": "yes"}, map[string]string{"gcu": "yes"}
	f := &Fleet{Resource: &topsv1.GcuResource{}, DaemonSets: []appsv1.DaemonSet{*driver, *toolkit}, Now: world.Epoch}
	f.Resource.Name = "fleet"
	for _, n := range []struct{ name, zone, kernel, driver, toolkit string }{
		{"a", "east", "5.15.0-91-generic", "1.6.2", "1.6.0"}, {"b", "east", "5.15.0-91-generic", "1.5.0", "1.6.0"},
		{"c", "west", "4.18.0-348.el8.x86_64", "1.4.1", ""}, {"d", "west", "5.15.0-91-generic", "1.6.2", "1.6.0@sha256:0f0f"},
	} {
		node := world.Node(n.name)
		node.Labels = map[string]string{"gcu": "yes", "zone": n.zone}
		node.Status.NodeInfo.KernelVersion = n.kernel
		f.Nodes = append(f.Nodes, *node)
		for ds, version := range map[*appsv1.DaemonSet]string{driver: n.driver, toolkit: n.toolkit} {
			if pod := world.PodOn(ds, n.name, world.OldHash); version != "" {
				pod.Spec.Containers = []corev1.Container{{Image: "r:5000/" + ds.Name + ":" + version}}
				f.Pods = append(f.Pods, *pod)
			}
		}
	}
	f.Nodes = append(f.Nodes, *world.Node("other"))
	return f
}

func TestGoldenVersions(t *testing.T) {
	for name, pools := range map[string]string{"versions": "", "versions.pools": "zone"} {
		t.Run("contract 97: "+name, func(t *testing.T) {
			v := VersionsOf(mixed(), pools)
			golden.Check(t, "golden/"+name+".nodes.txt", v.Text(Style{Now: now}))
			golden.Check(t, "golden/"+name+".out.yaml", inYAML(t, v))
			v.Nodes = nil
			golden.Check(t, "golden/"+name+".txt", v.Text(Style{Now: now}))
		})
	}
	if got := VersionsOf(&Fleet{Resource: &topsv1.GcuResource{}}, "").Text(Style{}); got != "no node runs a component of gr \n" {
		t.Errorf("without nodes: %q", got)
	}
}

// A component that is removed or renamed has the version of the pod that still runs.
func TestVersionsOfAComponentThatLeaves(t *testing.T) {
	f := mixed()
	former := world.ComponentOf("driver")
	former.UID, former.Name = "uid-former", "former"
	former.Spec.Template.Spec.NodeSelector = map[string]string{"gcu": "yes"}
	former.Spec.Template.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: topsv1.GateRemoved}}
	f.DaemonSets = append([]appsv1.DaemonSet{*former}, f.DaemonSets...)
	pod := world.PodOn(former, "a", world.OldHash)
	pod.Spec.Containers = []corev1.Container{{Image: "r/driver:1.5.9"}}
	for i := range f.Pods {
		if p := &f.Pods[i]; p.Spec.NodeName == "a" && p.Labels["app"] == "enflame-driver" {
			p.Spec.NodeName = ""
			p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"a"}}}}}}}}
		}
	}
	f.Pods = append(f.Pods, *pod)
	if got := VersionsOf(f, "").Nodes[0].Components["driver"]; got != "1.5.9" {
		t.Errorf("the driver of node a is %q", got)
	}
}
