package state_test

import (
	"testing"
	"time"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcuresource/plan"
	"github.com/topsops/gcu-operator/test/world"
)

// The first deployment of a plugin, on nodes whose container engines the toolkit has just
// configured. Pods of the world are available for a minute.
func TestAPluginIsFirstCreatedWhenContainersGetCards(t *testing.T) {
	const leftTo = "docker must be restarted: run on the node: systemctl restart docker"
	waits := func(nodes string) string {
		return "waiting until docker or containerd is restarted on one of these nodes: " + nodes
	}
	runc, fleet := []func(*topsv1.NodeUpgrade){world.Runc}, topsv1.GcuResourceSpec{Toolkit: &topsv1.BaseFields{}, DevicePlugin: &topsv1.BaseFields{}}
	reports := func(all ...[]func(*topsv1.NodeUpgrade)) func(*world.World) {
		return func(o *world.World) {
			o.Run("toolkit")
			for i, changes := range all {
				o.Report(o.Nodes[i].Name, changes...)
			}
		}
	}
	operates := func(phase topsv1.OperationPhase, reason string, more ...func(*topsv1.NodeUpgrade)) []func(*topsv1.NodeUpgrade) {
		return append([]func(*topsv1.NodeUpgrade){world.Runc, world.Operates(phase, reason, leftTo)}, more...)
	}
	for _, tc := range []struct {
		name  string
		spec  topsv1.GcuResourceSpec
		given func(*world.World)
		later time.Duration
		want  string
		wait  time.Duration
	}{
		{"all need the restart, and nobody has ordered it yet", fleet, reports(runc, runc, runc), 0, waits("node-1, node-2, node-3"), 4 * time.Minute},
		{"nobody ordered it in time", fleet, reports(runc, runc, runc), 4 * time.Minute, "", 0},
		{"an operation is under way, however long", fleet, reports(operates("Running", "InProgress"), runc, runc), time.Hour, waits("node-1"), 0},
		{"an operation that is not granted is not waited for for ever", fleet,
			reports(operates("Running", "Prepared", world.Ungranted)), time.Hour, "", 0},
		{"the first node is restarted", fleet, reports(nil, operates("Running", "InProgress"), runc), 0, "", 0},
		{"left to the administrator", fleet, reports(operates("Running", "LeftToAdministrator"), operates("Deferred", "LeftToAdministrator"),
			operates("Running", "LeftToAdministrator")), 0, "", 0},
		{"one failed, another one is not ordered yet", fleet, reports(operates("Failed", "RestartFailed"), runc, operates("Aborted", "Superseded")), 0, waits("node-2"), 4 * time.Minute},
		{"an earlier operation succeeded", fleet, reports(operates("Done", "Done"), operates("Quarantined", "x"), operates("Deferred", "x")), 0, waits("node-1"), 4 * time.Minute},
		{"a node that is not Ready is not waited for", fleet, func(o *world.World) { reports(runc, runc, runc)(o); o.Off("node-1", "node-3") }, 0, waits("node-2"), 4 * time.Minute},
		{"nor one that the toolkit does not run on", fleet, func(o *world.World) {
			reports(runc, runc, runc)(o)
			o.Node("node-1").Labels = nil
			o.Component("toolkit").Pods = o.Component("toolkit").Pods[1:]
		}, 0, waits("node-2, node-3"), 4 * time.Minute},
		{"no agent reports", fleet, reports(), 0, "", 0},
		{"an agent that has not found the engine", fleet, reports([]func(*topsv1.NodeUpgrade){func(u *topsv1.NodeUpgrade) { u.Status.Host.Runtime = nil }}), 0, "", 0},
		{"the plugin of shared cards waits too", topsv1.GcuResourceSpec{Toolkit: &topsv1.BaseFields{}, GcusharePlugin: &topsv1.GcusharePluginSpec{}},
			reports(runc), 0, waits("node-1"), 4 * time.Minute},
		{"another component does not", topsv1.GcuResourceSpec{Toolkit: &topsv1.BaseFields{}, Exporter: &topsv1.BaseFields{}}, reports(runc), 0, "", 0},
		{"nor a gr without toolkit", topsv1.GcuResourceSpec{NFD: &topsv1.NFDSpec{}, DevicePlugin: &topsv1.BaseFields{}},
			func(o *world.World) { o.Run("nfd"); o.Report("node-1", world.Runc) }, 0, "", 0},
		{"nor a plugin that exists", fleet, func(o *world.World) { reports(runc, runc, runc)(o); o.Create("devicePlugin") }, 0, "", 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			obs := world.New(t, world.NewGR(tc.spec), 3)
			tc.given(obs)
			decided := plan.Decide(obs.Observation, world.Noon.Add(tc.later))
			if got := decided.Steps[1]; got.Waits != tc.want || (len(got.Apply) == 0) != (tc.want != "" || got.Health.Exists) {
				t.Errorf("it waits %q and applies %d objects, want %q", got.Waits, len(got.Apply), tc.want)
			}
			if decided.Wait != tc.wait {
				t.Errorf("the next look is after %s, want %s", decided.Wait, tc.wait)
			}
		})
	}
}
