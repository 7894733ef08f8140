package gcuresource

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
)

// told says in one line per component what a plan does.
func told(plan Plan) []string {
	var lines []string
	for _, s := range plan.Steps {
		line := s.Component + ":"
		for _, d := range s.Apply {
			line += " " + d.Ref.Kind
		}
		if s.Create {
			line += " (new)"
		}
		if s.Waits != "" {
			line += " " + s.Waits
		}
		if s.Failure != nil {
			line += " failed " + s.Failure.Reason
		}
		lines = append(lines, line)
	}
	for _, o := range plan.Delete {
		lines = append(lines, "delete "+o.Ref.String())
	}
	return lines
}

func TestDecide(t *testing.T) {
	three := topsv1.GcuResourceSpec{Driver: &topsv1.BaseFields{}, Toolkit: &topsv1.BaseFields{}, Exporter: &topsv1.BaseFields{}}
	for _, tc := range []struct {
		name  string
		spec  topsv1.GcuResourceSpec
		given func(*Observation)
		want  []string
	}{
		{"contract 51: creates only the first component, its DaemonSet last", topsv1.GcuResourceSpec{NFD: &topsv1.NFDSpec{}, GFD: &topsv1.BaseFields{}},
			func(*Observation) {},
			[]string{"nfd: ClusterRole ClusterRoleBinding CustomResourceDefinition ServiceAccount DaemonSet (new)", "gfd: (new) waiting for nfd"}},
		{"contract 51: a new DaemonSet without pods holds up the next", three,
			func(o *Observation) { o.create("driver") },
			[]string{"driver:", "toolkit: (new) waiting for driver", "exporter: (new) waiting for driver"}},
		{"contract 51: creates the next when the one before runs", three,
			func(o *Observation) { o.run("driver") },
			[]string{"driver:", "toolkit: DaemonSet (new)", "exporter: (new) waiting for toolkit"}},
		{"contract 51: one missing pod on a Ready node holds up the next", three,
			func(o *Observation) { o.run("driver"); o.component("driver").Pods = o.component("driver").Pods[1:] },
			[]string{"driver:", "toolkit: (new) waiting for driver", "exporter: (new) waiting for driver"}},
		{"a node that is not Ready holds up nobody", three,
			func(o *Observation) { o.run("driver"); o.broken("driver", "node-2", ""); o.off("node-2") },
			[]string{"driver:", "toolkit: DaemonSet (new)", "exporter: (new) waiting for toolkit"}},
		{"contract 51: a template the DaemonSet controller has not seen holds up the next", three,
			func(o *Observation) { o.run("driver"); o.component("driver").DaemonSet.Generation = 2 },
			[]string{"driver:", "toolkit: (new) waiting for driver", "exporter: (new) waiting for driver"}},
		{"a GCU node that is not labelled yet holds up the next", three,
			func(o *Observation) {
				o.run("driver")
				o.Nodes = append(o.Nodes, gcuNode("node-3"))
				delete(o.node("node-3").Labels, topsv1.LabelGcuPresent)
			},
			[]string{"driver:", "toolkit: (new) waiting for driver", "exporter: (new) waiting for driver"}},
		{"until a node has a GCU only the first component that needs one is created", three,
			func(o *Observation) { o.create("driver"); o.Nodes = nil },
			[]string{"driver:", "toolkit: (new) waiting for driver, which no node runs yet", "exporter: (new) waiting for driver, which no node runs yet"}},
		{"new templates reach all existing components at once, whatever runs", three,
			func(o *Observation) { o.create("driver", "toolkit", "exporter"); clear(o.Applied) },
			[]string{"driver: DaemonSet", "toolkit: DaemonSet", "exporter: Service DaemonSet"}},
		{"nothing to do when everything is as applied", three,
			func(o *Observation) { o.run("driver", "toolkit", "exporter") },
			[]string{"driver:", "toolkit:", "exporter:"}},
		{"an object that is gone comes back", three,
			func(o *Observation) {
				o.run("driver", "toolkit", "exporter")
				delete(o.component("exporter").Live, o.component("exporter").Objects[1].Ref)
			},
			[]string{"driver:", "toolkit:", "exporter: Service"}},
		{"a foreign object fails the component and holds up the next", three,
			func(o *Observation) {
				o.run("driver")
				c := o.component("toolkit")
				o.create("toolkit")
				c.DaemonSet = nil
				c.Live[c.perNodeRef()].OwnerReferences = nil
			},
			[]string{"driver:", "toolkit: failed ObjectConflict", "exporter: (new) waiting for toolkit"}},
		{"contract 24: what the spec no longer asks for is deleted", topsv1.GcuResourceSpec{Driver: &topsv1.BaseFields{}},
			func(o *Observation) {
				o.run("driver")
				o.Owned = append(o.Owned, Owned{Ref: component.Ref{GroupVersionKind: component.DaemonSetKind, Namespace: "kube-system", Name: "exp"}, Component: "exporter"})
			},
			[]string{"driver:", "delete DaemonSet kube-system/exp"}},
		{"a renamed component waits until the old one is deleted", topsv1.GcuResourceSpec{Driver: &topsv1.BaseFields{}},
			func(o *Observation) {
				o.Owned = []Owned{{Ref: component.Ref{GroupVersionKind: component.DaemonSetKind, Namespace: "kube-system", Name: "older"}, Component: "driver"}}
			},
			[]string{"driver: (new) waiting until DaemonSet kube-system/older is deleted", "delete DaemonSet kube-system/older"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			obs := newWorld(t, newGR(tc.spec), 2)
			tc.given(obs)
			if diff := cmp.Diff(tc.want, told(Decide(obs, noon))); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatNeedsAnApply(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(live *metav1.PartialObjectMetadata, last *Applied)
		want   bool
	}{
		{"nothing changed", func(*metav1.PartialObjectMetadata, *Applied) {}, false},
		{"a status write raises only the resourceVersion", func(l *metav1.PartialObjectMetadata, _ *Applied) { l.ResourceVersion = "99" }, false},
		{"the cache has not seen our last apply", func(_ *metav1.PartialObjectMetadata, a *Applied) { a.Generation = 2 }, false},
		{"somebody changed the spec", func(l *metav1.PartialObjectMetadata, _ *Applied) { l.Generation = 2 }, true},
		{"somebody changed an annotation of ours", func(l *metav1.PartialObjectMetadata, _ *Applied) {
			l.Annotations = map[string]string{topsv1.AnnotationOrder: "99"}
		}, true},
		{"somebody added an annotation", func(l *metav1.PartialObjectMetadata, _ *Applied) { l.Annotations["x"] = "y" }, false},
		{"somebody took a label of ours", func(l *metav1.PartialObjectMetadata, _ *Applied) { l.Labels = nil }, true},
		{"something else is to be applied", func(_ *metav1.PartialObjectMetadata, a *Applied) { a.Hash = "other" }, true},
		{"the object is another one", func(l *metav1.PartialObjectMetadata, _ *Applied) { l.UID = "another" }, true},
		{"a kind without generation changed", func(l *metav1.PartialObjectMetadata, a *Applied) {
			a.Generation, l.Generation, l.ResourceVersion = 0, 0, "99"
		}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			obs := newWorld(t, newGR(topsv1.GcuResourceSpec{Driver: &topsv1.BaseFields{}}), 1)
			obs.run("driver")
			c := obs.component("driver")
			d := c.Objects[0]
			live := metadataOf(d.Ref)
			live.Labels, live.Annotations, live.OwnerReferences = d.Object.GetLabels(), d.Object.GetAnnotations(), d.Object.GetOwnerReferences()
			live.UID, live.Generation, live.ResourceVersion = "u", 1, "5"
			last := Applied{Hash: d.Hash, Generation: 1, ResourceVersion: "5"}
			tc.change(live, &last)
			obs.Applied["u"] = last
			if got := !upToDate(&d, live, obs.Applied); got != tc.want {
				t.Errorf("needs an apply: got %v, want %v", got, tc.want)
			}
		})
	}
}

func TestTimeThatIsMissingSetsATimer(t *testing.T) {
	obs := newWorld(t, newGR(topsv1.GcuResourceSpec{Driver: &topsv1.BaseFields{}, GFD: &topsv1.BaseFields{}}), 1)
	obs.run("driver")
	obs.component("driver").DaemonSet.Spec.MinReadySeconds = 90
	plan := Decide(obs, noon)
	if plan.Wait != 30*time.Second || plan.Steps[1].Waits != "waiting for driver" {
		t.Errorf("got wait %s, step %+v", plan.Wait, plan.Steps[1])
	}
	if plan = Decide(obs, noon.Add(30*time.Second)); plan.Wait != 0 || plan.Steps[1].Waits != "" {
		t.Errorf("after the time: got wait %s, step %+v", plan.Wait, plan.Steps[1])
	}
}

func TestTeardown(t *testing.T) {
	spec := topsv1.GcuResourceSpec{NFD: &topsv1.NFDSpec{}, Driver: &topsv1.BaseFields{}, Exporter: &topsv1.BaseFields{}}
	forget := func(o *Observation, component string) {
		var left []Owned
		for _, owned := range o.Owned {
			if owned.Component != component {
				left = append(left, owned)
			}
		}
		o.Owned = left
	}
	for _, tc := range []struct {
		name    string
		given   func(*Observation)
		delete  string
		message string
	}{
		{"contract 52: starts with the last component", func(*Observation) {},
			"DaemonSet kube-system/enflame-gcu-exporter, Service kube-system/enflame-gcu-exporter",
			"removing exporter: waiting for DaemonSet kube-system/enflame-gcu-exporter, Service kube-system/enflame-gcu-exporter, pods on node-1, node-2"},
		{"waits for the pods when the objects are gone", func(o *Observation) { forget(o, "exporter") },
			"", "removing exporter: waiting for pods on node-1, node-2"},
		{"names pods on offline nodes while it waits", func(o *Observation) { forget(o, "exporter"); o.off("node-2") },
			"", "removing exporter: waiting for pods on node-1; 1 node not Ready and not waited for: node-2"},
		{"pods on offline nodes hold up nobody", func(o *Observation) {
			forget(o, "exporter")
			o.off("node-1", "node-2")
		}, "DaemonSet kube-system/enflame-gcu-driver", "removing driver: waiting for DaemonSet kube-system/enflame-gcu-driver; " +
			"2 nodes not Ready and not waited for: node-1, node-2"},
		{"the CRD of nfd stays", func(o *Observation) {
			forget(o, "exporter")
			forget(o, "driver")
			o.component("exporter").Pods, o.component("driver").Pods, o.component("nfd").Pods = nil, nil, nil
		}, "ClusterRole nfd-clusterrole, ClusterRoleBinding nfd-clusterrolebinding, DaemonSet kube-system/node-feature-discovery-ds, " +
			"ServiceAccount kube-system/nfd-service-account",
			"removing nfd: waiting for ClusterRole nfd-clusterrole, ClusterRoleBinding nfd-clusterrolebinding, " +
				"DaemonSet kube-system/node-feature-discovery-ds, ServiceAccount kube-system/nfd-service-account"},
		{"a component of a newer version goes first", func(o *Observation) {
			o.Owned = append(o.Owned, Owned{Ref: component.Ref{GroupVersionKind: component.DaemonSetKind, Name: "x"}, Component: "future"})
		}, "DaemonSet x", "removing future: waiting for DaemonSet x"},
		{"is done when nothing is left", func(o *Observation) {
			o.Owned = nil
			for i := range o.Components {
				o.Components[i].Pods = nil
			}
		}, "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			obs := newWorld(t, newGR(spec), 2)
			obs.run("nfd", "driver", "exporter")
			tc.given(obs)
			down := DecideTeardown(obs)
			if got := strings.Join(refNames(down.Delete), ", "); got != tc.delete {
				t.Errorf("deletes %q, want %q", got, tc.delete)
			}
			if down.Message != tc.message {
				t.Errorf("message %q, want %q", down.Message, tc.message)
			}
		})
	}
}

// grs returns n grs with an empty spec, the first deleting of them being deleted.
func grs(n, deleting int) []topsv1.GcuResource {
	list := make([]topsv1.GcuResource, n)
	for i := range list {
		if i < deleting {
			list[i].DeletionTimestamp = &metav1.Time{Time: noon}
		}
	}
	return list
}

func TestNodeLabels(t *testing.T) {
	const device = "feature.node.kubernetes.io/pci-1200_1e36.present"
	ours := map[string]string{topsv1.AnnotationOwnedLabels: topsv1.LabelGcuPresent}
	none, going, staying := grs(0, 0), grs(2, 2), grs(2, 1)
	for _, tc := range []struct {
		name        string
		labels      map[string]string
		annotations map[string]string
		grs         []topsv1.GcuResource
		want        labelChange
	}{
		{"contract 54: a node with a device is labelled", map[string]string{device: "true"}, nil, staying, labelSet},
		{"a node without a device is not", map[string]string{"feature.node.kubernetes.io/pci-10de.present": "true"}, nil, staying, labelKeep},
		{"a device label that is not true does not count", map[string]string{device: "false"}, nil, staying, labelKeep},
		{"no node is labelled without a gr", map[string]string{device: "true"}, nil, none, labelKeep},
		{"nor while every gr is being deleted", map[string]string{device: "true"}, nil, going, labelKeep},
		{"a label that is there is left alone", map[string]string{device: "true", topsv1.LabelGcuPresent: "true"}, nil, staying, labelKeep},
		{"also when it says false", map[string]string{device: "true", topsv1.LabelGcuPresent: "false"}, nil, staying, labelKeep},
		{"a foreign label stays when the last gr goes", map[string]string{topsv1.LabelGcuPresent: "true"}, nil, none, labelKeep},
		{"ours goes with the device", map[string]string{topsv1.LabelGcuPresent: "true"}, ours, grs(1, 0), labelRemove},
		{"ours goes with the last gr", map[string]string{device: "true", topsv1.LabelGcuPresent: "true"}, ours, none, labelRemove},
		{"ours stays while the last gr is torn down", map[string]string{device: "true", topsv1.LabelGcuPresent: "true"}, ours, going, labelKeep},
		{"ours that somebody took comes back", map[string]string{device: "true"}, ours, staying, labelSet},
		{"ours that somebody gave another value is his", map[string]string{device: "true", topsv1.LabelGcuPresent: "no"}, ours, staying, labelDisown},
	} {
		t.Run(tc.name, func(t *testing.T) {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: tc.labels, Annotations: tc.annotations}}
			if got := decideLabel(node, topsv1.LabelGcuPresent, wantedBy(tc.grs, node, topsv1.LabelGcuPresent)); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

func TestContractNodesWhoseCardsAreShared(t *testing.T) {
	sharing := func(deleting, off bool, nodes ...string) topsv1.GcuResource {
		gr := grs(1, 0)[0]
		if deleting {
			gr = grs(1, 1)[0]
		}
		gr.Spec.GcusharePlugin = &topsv1.GcusharePluginSpec{BaseFields: topsv1.BaseFields{NotDeploy: off}, GcushareNodes: nodes}
		return gr
	}
	for _, tc := range []struct {
		name string
		grs  []topsv1.GcuResource
		want []string
	}{
		{"contract 28: the nodes it names", []topsv1.GcuResource{sharing(false, false, "node-2", "gone")}, []string{"node-2"}},
		{"contract 28: all GCU nodes when it names none", []topsv1.GcuResource{sharing(false, false)}, []string{"node-1", "node-2", "node-3"}},
		{"contract 28: those of two grs together", []topsv1.GcuResource{sharing(false, false, "node-1"), sharing(false, false, "node-3")}, []string{"node-1", "node-3"}},
		{"contract 28: none without gcusharePlugin", grs(1, 0), nil},
		{"contract 28: none with notDeploy: true", []topsv1.GcuResource{sharing(false, true, "node-1")}, nil},
		{"contract 28: none while the gr is being deleted", []topsv1.GcuResource{sharing(true, false)}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got []string
			for _, node := range []*corev1.Node{gcuNode("node-1"), gcuNode("node-2"), gcuNode("node-3"), {ObjectMeta: metav1.ObjectMeta{Name: "cpu"}}} {
				if relabelled(node, tc.grs).Labels[topsv1.LabelGcushare] == "true" {
					got = append(got, node.Name)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("labelled nodes (-want +got):\n%s", diff)
			}
		})
	}
	node := relabelled(gcuNode("node-1"), []topsv1.GcuResource{sharing(false, false)})
	if same := relabelled(node, []topsv1.GcuResource{sharing(true, false)}); same != node {
		t.Errorf("contract 52: a label its pods still need goes: %v", same.Labels)
	}
	if after := relabelled(node, grs(1, 0)); after.Labels[topsv1.LabelGcushare] != "" || after.Annotations[topsv1.AnnotationOwnedLabels] != "" {
		t.Errorf("contract 28: our label stays when the plugin goes: %v %v", after.Labels, after.Annotations)
	}
}

func TestDeviceLabels(t *testing.T) {
	const prefix = "feature.node.kubernetes.io/"
	for label, want := range map[string]bool{
		prefix + "pci-1e36.present":                     true,
		prefix + "pci-1200_1e36.present":                true,
		prefix + "pci-1200_1e36_0001_1e36_0001.present": true,
		prefix + "pci-1e36_c033.present":                true,
		prefix + "pci-1200_1e36.sriov.capable":          false,
		prefix + "pci-1e361.present":                    false,
		prefix + "pci-0300_10de.present":                false,
		prefix + "pci-XXXX_1e36.present":                false,
		"example.com/pci-1e36.present":                  false,
		"x" + prefix + "pci-1e36.present":               false,
	} {
		if got := deviceLabel.MatchString(label); got != want {
			t.Errorf("%s: got %v, want %v", label, got, want)
		}
	}
}

func TestTheRecordOfOwnedLabelsKeepsOthers(t *testing.T) {
	if got := withRecord([]string{"z", "a"}, "m", true); got != "a,m,z" {
		t.Errorf("adding: %q", got)
	}
	if got := withRecord([]string{"a", "m"}, "m", false); got != "a" {
		t.Errorf("taking out: %q", got)
	}
	if got := withRecord([]string{"m"}, "m", false); got != "" {
		t.Errorf("taking out the last: %q", got)
	}
}
