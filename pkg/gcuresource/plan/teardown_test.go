package plan

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
	"github.com/topsops/gcu-operator/pkg/gcuresource/state"
	"github.com/topsops/gcu-operator/test/fixture"
	"github.com/topsops/gcu-operator/test/world"
)

func TestTeardown(t *testing.T) {
	spec := topsv1.GcuResourceSpec{NFD: &topsv1.NFDSpec{}, Driver: &topsv1.BaseFields{}, Exporter: &topsv1.BaseFields{}}
	forget := func(o *world.World, component string) {
		var left []state.Owned
		for _, owned := range o.Owned {
			if owned.Component != component {
				left = append(left, owned)
			}
		}
		o.Owned = left
	}
	// orphan takes the owner from the DaemonSet of a component, of whose pods nothing is read then.
	orphan := func(o *world.World, component string) *metav1.PartialObjectMetadata {
		c := o.Component(component)
		live := c.Live[c.DaemonSetRef()]
		live.OwnerReferences = nil
		c.DaemonSet, c.Pods = nil, nil
		return live
	}
	for _, tc := range []struct {
		name    string
		given   func(*world.World)
		delete  string
		message string
	}{
		{"contract 52: starts with the last component", func(*world.World) {},
			"DaemonSet kube-system/enflame-gcu-exporter, Service kube-system/enflame-gcu-exporter",
			"removing exporter: waiting for DaemonSet kube-system/enflame-gcu-exporter, Service kube-system/enflame-gcu-exporter, pods on node-1, node-2"},
		{"waits for the pods when the objects are gone", func(o *world.World) { forget(o, "exporter") },
			"", "removing exporter: waiting for pods on node-1, node-2"},
		{"names pods on offline nodes while it waits", func(o *world.World) { forget(o, "exporter"); o.Off("node-2") },
			"", "removing exporter: waiting for pods on node-1; 1 node not Ready and not waited for: node-2"},
		{"pods on offline nodes hold up nobody", func(o *world.World) {
			forget(o, "exporter")
			o.Off("node-1", "node-2")
		}, "DaemonSet kube-system/enflame-gcu-driver", "removing driver: waiting for DaemonSet kube-system/enflame-gcu-driver; " +
			"2 nodes not Ready and not waited for: node-1, node-2"},
		{"the CRD and the roles of nfd stay", func(o *world.World) {
			forget(o, "exporter")
			forget(o, "driver")
			o.Component("exporter").Pods, o.Component("driver").Pods, o.Component("nfd").Pods = nil, nil, nil
		}, "DaemonSet kube-system/node-feature-discovery-ds, ServiceAccount kube-system/nfd-service-account",
			"removing nfd: waiting for DaemonSet kube-system/node-feature-discovery-ds, ServiceAccount kube-system/nfd-service-account"},
		{"a component of a newer version goes first", func(o *world.World) {
			o.Owned = append(o.Owned, state.Owned{Ref: component.Ref{GroupVersionKind: component.DaemonSetKind, Name: "x"}, Component: "future"})
		}, "DaemonSet x", "removing future: waiting for DaemonSet x"},
		{"does not wait for pods of a workload that still is another component's", func(o *world.World) {
			for i := range o.Owned {
				if o.Owned[i].Ref == o.Component("exporter").DaemonSetRef() {
					o.Owned[i].Component = "driver"
				}
			}
		}, "Service kube-system/enflame-gcu-exporter", "removing exporter: waiting for Service kube-system/enflame-gcu-exporter"},
		{"does not go past a DaemonSet that lost its owner", func(o *world.World) { forget(o, "exporter"); orphan(o, "exporter") },
			"", "removing exporter: waiting for DaemonSet kube-system/enflame-gcu-exporter, which lost its owner (kubectl delete --cascade=orphan): delete it"},
		{"does not wait for a DaemonSet of others", func(o *world.World) {
			forget(o, "exporter")
			orphan(o, "exporter").Labels = nil
		}, "DaemonSet kube-system/enflame-gcu-driver", "removing driver: waiting for DaemonSet kube-system/enflame-gcu-driver, pods on node-1, node-2"},
		{"does not wait for a DaemonSet that another owns", func(o *world.World) {
			forget(o, "exporter")
			orphan(o, "exporter").OwnerReferences = fixture.ControlledBy("apps/v1", "Deployment", "x", "uid-x")
		}, "DaemonSet kube-system/enflame-gcu-driver", "removing driver: waiting for DaemonSet kube-system/enflame-gcu-driver, pods on node-1, node-2"},
		{"is done when nothing is left", func(o *world.World) {
			o.Owned = nil
			for i := range o.Components {
				o.Components[i].Pods = nil
			}
		}, "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			obs := world.New(t, world.NewGR(spec), 2)
			obs.Run("nfd", "driver", "exporter")
			tc.given(obs)
			down := DecideTeardown(obs.Observation)
			var names []string
			for _, o := range down.Delete {
				names = append(names, o.Ref.String())
			}
			if got := strings.Join(names, ", "); got != tc.delete {
				t.Errorf("deletes %q, want %q", got, tc.delete)
			}
			if down.Message != tc.message {
				t.Errorf("message %q, want %q", down.Message, tc.message)
			}
		})
	}
}
