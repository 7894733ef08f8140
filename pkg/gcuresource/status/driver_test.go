package status

import (
	"testing"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/test/world"
)

// plugin is a gr with the device plugin, all of whose pods are available on three nodes.
func plugin(t *testing.T) *world.World {
	t.Helper()
	obs := world.New(t, world.NewGR(topsv1.GcuResourceSpec{Toolkit: &topsv1.BaseFields{}, DevicePlugin: &topsv1.BaseFields{}, GFD: &topsv1.BaseFields{}}), 3)
	obs.Run("toolkit", "devicePlugin", "gfd")
	return obs
}

func TestContractMissingDriver(t *testing.T) {
	const missing = "no driver is loaded on node-1, node-3: you should install the driver on the node in advance, or use the GcuResource " +
		"to install the driver (build the driver image, and set spec.driver.notDeploy to false)"
	given := func(obs *world.World) *world.World {
		obs.Report("node-1", world.NoDriver)
		obs.Report("node-2")
		obs.Offer("node-2", "enflame.com/gcu", "8")
		obs.Report("node-3", world.NoDriver)
		return obs
	}
	t.Run("contract 84: a gr that runs without a driver says so", func(t *testing.T) {
		got := next(given(plugin(t)))
		if degraded := world.Standard(got, ConditionDegraded); got.Phase != "Running" || degraded != "True DriverMissing: "+missing {
			t.Errorf("%s, Degraded %s", got.Phase, degraded)
		}
		list := Events(&topsv1.GcuResourceStatus{Phase: "Running"}, &got)
		if want := (Event{"Warning", "DriverMissing", missing}); len(list) != 1 || list[0] != want {
			t.Errorf("events %v", list)
		}
	})
	t.Run("contract 84: it is the first cause of a component that waits", func(t *testing.T) {
		obs := given(plugin(t))
		obs.Broken("devicePlugin", "node-3", "CreateContainerError")
		got := next(obs)
		const waits = missing + "; waiting for pods on 1 of 3 nodes: node-3 (main: CreateContainerError)"
		if m := got.ResourceStatuses[1].Message; got.Phase != "deploying" || m != waits {
			t.Errorf("%s: %q", got.Phase, m)
		}
		if ready := world.Standard(got, ConditionReady); ready != "False Deploying: 2 of 3 components run; devicePlugin: "+waits {
			t.Errorf("Ready %s", ready)
		}
	})
	t.Run("nfd needs none", func(t *testing.T) {
		obs := world.New(t, world.NewGR(topsv1.GcuResourceSpec{NFD: &topsv1.NFDSpec{}}), 3)
		obs.Run("nfd")
		if degraded := world.Standard(next(given(obs)), ConditionDegraded); degraded != "False AsExpected: nothing is wrong" {
			t.Errorf("Degraded %s", degraded)
		}
	})
}

func TestANodeThatAdmissionKeepsFromTheLabelIsNamed(t *testing.T) {
	const why = "node-4 has a GCU and is of the control plane, where components need the label " +
		"node-restriction.kubernetes.io/gcu-components=allowed: set it, or leave the node without components"
	obs := plugin(t)
	obs.Guard("node-4")
	got := next(obs)
	if degraded := world.Standard(got, ConditionDegraded); got.Phase != "Running" || degraded != "True NodeNotAllowed: "+why {
		t.Errorf("%s, Degraded %s", got.Phase, degraded)
	}
	obs.Node("node-4").Labels[topsv1.LabelGcuPresent] = "true"
	if degraded := world.Standard(next(obs), ConditionDegraded); degraded != "False AsExpected: nothing is wrong" {
		t.Errorf("a node that somebody labeled: Degraded %s", degraded)
	}
}
