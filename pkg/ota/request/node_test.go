package request

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/test/fixture"
)

// add puts a DaemonSet and a pod of it on the node; an outdated one is under OTA.
func (n *Node) add(ds *appsv1.DaemonSet, outdated bool) {
	pod := fixture.OutdatedPod()
	pod.Namespace, pod.Name, pod.UID = ds.Namespace, ds.Name+"-x", "pod-of-"+ds.UID
	pod.OwnerReferences = fixture.ControlledBy("apps/v1", "DaemonSet", ds.Name, ds.UID)
	if outdated {
		fixture.Annotate(ds, topsv1.AnnotationUpdateStrategy, "OTA")
	} else {
		ds.Annotations, pod.Status.Conditions = nil, nil
	}
	n.Pods.Items = append(n.Pods.Items, *pod)
	n.DaemonSets = append(n.DaemonSets, DaemonSetOf(ds))
}

// tenantsDaemonSet is one in the namespace of a tenant, with the label of a component.
func tenantsDaemonSet(name, component string) *appsv1.DaemonSet {
	ds := fixture.DaemonSet(name)
	ds.Namespace, ds.UID, ds.Labels = "a-tenant", types.UID("tenant-"+name), map[string]string{topsv1.LabelComponent: component}
	return ds
}

func TestADaemonSetInAnotherNamespaceBlocksNoComponent(t *testing.T) {
	for name, add := range map[string]func(*Node){
		"none":                          func(*Node) {},
		"one with the label":            func(n *Node) { n.add(tenantsDaemonSet("x", "driver"), false) },
		"one with the label and name":   func(n *Node) { n.add(tenantsDaemonSet("enflame-driver", "driver"), false) },
		"one under OTA with both":       func(n *Node) { n.add(tenantsDaemonSet("enflame-driver", "driver"), true) },
		"one under OTA named as driver": func(n *Node) { n.add(tenantsDaemonSet("driver", "toolkit"), true) },
		"a pod that names its DaemonSet": func(n *Node) {
			pod := n.Pods.Items[0].DeepCopy()
			pod.Namespace, pod.UID = "a-tenant", "forged"
			n.Pods.Items = append([]corev1.Pod{*pod}, n.Pods.Items...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			node := &Node{Name: "node-a"}
			node.add(fixture.ComponentOf("driver"), true)
			add(node)
			for _, wanted := range []Wanted{{Component: "driver"}, {Component: "enflame-driver"}, {Component: "driver", Rollback: true}, {Component: "enflame-driver", Rollback: true}} {
				o, refusal := Operation{Wanted: wanted}.Begin(nil, nil, node, "", false, time.Time{})
				if refusal != nil || len(o.Parts) != 1 || o.Parts[0].Pod.Namespace != "kube-system" || o.Parts[0].Component != "driver" {
					t.Errorf("%+v: %+v, refused with %v", wanted, o.Parts, refusal)
				}
			}
		})
	}
}

func TestOnlyADaemonSetOfAGcuResourceHasAComponent(t *testing.T) {
	node := &Node{Name: "node-a"}
	node.add(fixture.ComponentOf("driver"), false)
	node.add(tenantsDaemonSet("labeled", "toolkit"), false)
	node.add(tenantsDaemonSet("under-ota", "exporter"), true)
	var shown []string
	for _, p := range node.Placed() {
		shown = append(shown, p.DaemonSet.Component)
	}
	if diff := cmp.Diff([]string{"driver", "under-ota"}, shown); diff != "" {
		t.Errorf("components (-want +got):\n%s", diff)
	}
}

func TestOfTwoDaemonSetsOfOneNameNeitherIsChosen(t *testing.T) {
	ours, others := &Node{Name: "node-a"}, &Node{Name: "node-a"}
	for _, gr := range []types.UID{"gr-1", "gr-2"} {
		ds := fixture.ComponentOf("driver")
		ds.UID, ds.OwnerReferences = "driver-of-"+gr, fixture.ControlledBy(topsv1.GroupVersion.String(), topsv1.GcuResourceKind, string(gr), gr)
		ours.add(ds, true)
		alone := tenantsDaemonSet("driver", "")
		alone.Namespace, alone.UID = string(gr), gr
		others.add(alone, true)
	}
	for _, node := range []*Node{ours, others} {
		if _, refusal := (Operation{Wanted: Wanted{Component: "driver"}}).Begin(nil, nil, node, "", false, time.Time{}); refusal == nil || refusal.Reason != ReasonAmbiguous {
			t.Errorf("refused with %v, want %s", refusal, ReasonAmbiguous)
		}
	}
}
