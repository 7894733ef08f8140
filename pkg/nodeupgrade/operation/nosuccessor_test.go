package operation

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

const tainted = "the node has taint repair:NoSchedule, which the DaemonSet does not tolerate"

// bar keeps new pods of components off the node.
func bar(components ...string) func(*Facts) {
	return func(f *Facts) {
		for i := range f.Members {
			if slices.Contains(components, f.Members[i].Component) {
				f.Members[i].NoSuccessor = tainted
			}
		}
	}
}

// TestATaintThatComesDuringAnOperationKeepsThePods: a pod is deleted only where another one
// is created in its place. The node waits and is given back, which does not count against the
// version, and goes on when the taint is gone.
func TestATaintThatComesDuringAnOperationKeepsThePods(t *testing.T) {
	for _, tc := range []struct {
		name, at string
		with     []func(*Facts)
		want     string
	}{
		{"between the driver and the toolkit", "toolkit_replace", []func(*Facts){bar("toolkit")}, "Running toolkit_replace NoSuccessor"},
		{"for longer than the deadline", "toolkit_replace", []func(*Facts){bar("toolkit"), later(10 * time.Minute)}, "Releasing then Deferred toolkit_replace NoSuccessor"},
		{"for another component", "toolkit_replace", []func(*Facts){bar("exporter")}, "Running toolkit_replace InProgress DeletePod"},
		{"right after the pod was deleted", "toolkit_replace", []func(*Facts){bar("toolkit"), gone("toolkit")}, "Running toolkit_replace NoSuccessor"},
		{"before the driver", "driver_replace", []func(*Facts){bar("driver")}, "Running driver_replace NoSuccessor"},
		{"for a user of the device, before the device is closed", "driver_replace", []func(*Facts){bar("exporter")}, "Running driver_replace NoSuccessor"},
		{"for a user of the device, once it is closed", "driver_replace", []func(*Facts){closed, bar("exporter")}, "Running driver_replace NoSuccessor"},
		{"for a user of the device that has gone", "driver_replace", []func(*Facts){closed, bar("exporter"), gone("exporter")}, "Running driver_replace DeviceInUse DeletePod"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := decides(t, reach(t, tc.at, everything...), tc.want, tc.with...)
			if says := d.Record.Operation.Message; strings.Contains(tc.want, "NoSuccessor") && (!strings.Contains(says, tainted) || !strings.Contains(says, "ns/")) {
				t.Errorf("it says %q: neither what is wrong nor with which DaemonSet", says)
			}
		})
	}
}

// The node would be emptied for nothing, and again on each retry.
func TestAUserOfTheDeviceThatWouldNotComeBackIsNamedBeforeTheNodeIsTouched(t *testing.T) {
	for _, tc := range []struct {
		name    string
		changed []string
		with    func(*Facts)
		want    string
	}{
		{"it runs", everything, bar("exporter"), "Running node_precheck PrecheckFailed"},
		{"it does not run", everything, func(f *Facts) { bar("exporter")(f); gone("exporter")(f) }, "Running driver_prepull InProgress"},
		{"the driver stays", []string{upgradeplan.TargetToolkit}, bar("exporter"), "Running toolkit_prepull InProgress"},
		{"it does not use the device", driverOnly, bar("nfd"), "Running driver_prepull InProgress"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := reach(t, "node_precheck", tc.changed...)
			tc.with(&f)
			f.Record = newMachine(t).Next(f).Record // all pods have to leave, or not
			d := newMachine(t).Next(f)
			if got := summaryOf(d); got != tc.want {
				t.Errorf("%s, want %s: %s", got, tc.want, d.Record.Operation.Message)
			}
			if says := d.Record.Operation.Message; strings.HasSuffix(tc.want, "Failed") && (!strings.Contains(says, tainted) || !strings.Contains(says, "ns/exporter")) {
				t.Errorf("it says %q: neither what is wrong nor with which DaemonSet", says)
			}
		})
	}
}

func gone(component string) func(*Facts) {
	return func(f *Facts) {
		i := slices.IndexFunc(f.Members, func(m Member) bool { return m.Component == component })
		f.Members[i].Pod = nil
	}
}

func closed(f *Facts) { f.Node.Taint = "op" }
