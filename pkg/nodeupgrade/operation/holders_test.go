package operation

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

// holding has processes of the node hold a device open, all of which the agent sees.
func holding(processes ...topsv1.DeviceHolder) func(*Facts) {
	return func(f *Facts) { f.Host.DeviceHolders, f.Host.DeviceHoldersVisible = processes, ptr.To(true) }
}

func unseen(f *Facts) { f.Host.DeviceHoldersVisible = ptr.To(false) }

func unchecked(f *Facts) { f.Record.Operation.Before = nil }

func stopped(f *Facts) { closed(f); gone("devicePlugin")(f); gone("exporter")(f) }

func crashing(f *Facts) {
	driver := pod(f, "driver")
	driver.Revision, driver.Available, driver.CrashLooping, driver.LastWords = "v2", false, true, "module enflame is in use"
	driver.Name = "driver"
}

func silent(f *Facts) { f.HostSince = f.Now.Add(-time.Hour) }

var (
	python = topsv1.DeviceHolder{PID: 4711, Command: "python3", UID: 1000, Device: "/dev/gcu0", Container: "docker://3f2a9c1b2d3e4f5061728394a5b6c7d8e9fa0b1c2d3e4f5061728394a5b6c7d8"}
	efsmi  = topsv1.DeviceHolder{PID: 4712, Command: "efsmi", Device: "/dev/gcuctl"}
	train  = topsv1.DeviceHolder{PID: 4713, Command: "train", Device: "/dev/gcu1", PodUID: "pod"}
)

// TestAProcessOutsideOfPodsThatHasADeviceOpen: the drain does not reach it, and the driver
// cannot be removed meanwhile. It is named before the node is touched, and looked for again
// before the driver's pod is deleted.
func TestAProcessOutsideOfPodsThatHasADeviceOpen(t *testing.T) {
	for _, tc := range []struct {
		name, at string
		changed  []string
		with     []func(*Facts)
		want     string
	}{
		{"holds the node before it is touched", "node_precheck", driverOnly, []func(*Facts){unchecked, holding(python)}, "Running node_precheck PrecheckFailed"},
		{"also after it has passed", "driver_prepull", driverOnly, []func(*Facts){result("driver_prepull", "Done"), holding(python)}, "Running node_precheck PrecheckFailed"},
		{"not when it is of a pod, which the drain sees", "node_precheck", driverOnly, []func(*Facts){unchecked, holding(train)}, "Running node_precheck InProgress"},
		{"not when the driver stays", "node_precheck", []string{upgradeplan.TargetToolkit}, []func(*Facts){unchecked, holding(python)}, "Running node_precheck InProgress"},
		{"not when the agent may not see it", "node_precheck", driverOnly, []func(*Facts){unchecked, unseen}, "Running node_precheck InProgress"},
		{"not when the agent knows nothing of it", "node_precheck", driverOnly, []func(*Facts){unchecked}, "Running node_precheck InProgress"},
		{"keeps the driver, once the users of the device are stopped", "driver_replace", driverOnly, []func(*Facts){stopped, holding(python)}, "Running driver_replace DeviceInUse"},
		{"which are stopped first", "driver_replace", driverOnly, []func(*Facts){closed, holding(python)}, "Running driver_replace DeviceInUse DeletePod DeletePod"},
		{"and is no fault of the version", "driver_replace", driverOnly, []func(*Facts){stopped, holding(python), later(10 * time.Minute)},
			"Releasing then Deferred driver_replace DeviceInUse"},
		{"of a pod does not keep it", "driver_replace", driverOnly, []func(*Facts){stopped, holding(train)}, "Running driver_replace InProgress DeletePod"},
		{"nor one in an old report", "driver_replace", driverOnly, []func(*Facts){stopped, holding(python), silent}, "Running driver_replace InProgress DeletePod"},
		{"nor one that a person accepts by skipping the precheck", "driver_replace", driverOnly, []func(*Facts){stopped, holding(python), func(f *Facts) {
			f.Record.Operation.Tasks[taskAt(f, "node_precheck")].State = topsv1.OperationTaskSkipped
		}}, "Running driver_replace InProgress DeletePod"},
		{"nor one that cannot be seen", "driver_replace", driverOnly, []func(*Facts){stopped, unseen}, "Running driver_replace InProgress DeletePod"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := reach(t, tc.at, tc.changed...)
			for _, change := range tc.with {
				change(&f)
			}
			d := newMachine(t).Next(f)
			if diff := cmp.Diff(tc.want, summaryOf(d)); diff != "" {
				t.Errorf("%s\n%s", diff, d.Record.Operation.Message)
			}
		})
	}
}

func TestAProcessThatHasADeviceOpenIsNamed(t *testing.T) {
	const (
		pythonHas = "process 4711 (python3, uid 1000, docker container 3f2a9c1b2d3e) has /dev/gcu0 open"
		crash     = "pod driver restarts again and again: module enflame is in use"
		late      = "n1_driver_replace took more than 10m0s: DaemonSet ns/driver has no pod on the node yet"
		blind     = "; a process outside of pods may have a card open: the node agent lacks the capability to see it"
	)
	for _, tc := range []struct {
		name, at string
		with     []func(*Facts)
		want     string
	}{
		{"by the precheck", "node_precheck", []func(*Facts){unchecked, holding(python)}, pythonHas + ": stop it"},
		{"with others, not with those of pods", "node_precheck", []func(*Facts){unchecked, holding(python, efsmi, train)},
			pythonHas + ", process 4712 (efsmi, uid 0) has /dev/gcuctl open: stop them"},
		{"when there are many", "node_precheck", []func(*Facts){unchecked, holding(efsmi, efsmi, efsmi, efsmi, efsmi, efsmi)},
			"process 4712 (efsmi, uid 0) has /dev/gcuctl open, process 4712 (efsmi, uid 0) has /dev/gcuctl open, process 4712 (efsmi, uid 0) has /dev/gcuctl open, " +
				"process 4712 (efsmi, uid 0) has /dev/gcuctl open, process 4712 (efsmi, uid 0) has /dev/gcuctl open and 1 more: stop them"},
		{"before the driver is replaced", "driver_replace", []func(*Facts){stopped, holding(python)}, pythonHas + ": stop it"},
		{"once, when it stays", "driver_replace", []func(*Facts){stopped, holding(python), later(10 * time.Minute)},
			"n1_driver_replace took more than 10m0s: " + pythonHas + ": stop it"},
		{"when the new driver crashes", "driver_replace", []func(*Facts){crashing, holding(python)}, crash + "; " + pythonHas},
		{"and that it may not be seen", "driver_replace", []func(*Facts){crashing, unseen}, crash + blind},
		{"not when there is none", "driver_replace", []func(*Facts){crashing, holding()}, crash},
		{"nor from an agent that knows nothing of it", "driver_replace", []func(*Facts){crashing}, crash},
		{"when the new driver does not come in time", "driver_replace", []func(*Facts){gone("driver"), unseen, later(10 * time.Minute)}, late + blind},
		{"not while it may still come", "driver_replace", []func(*Facts){gone("driver"), unseen}, "DaemonSet ns/driver has no pod on the node yet"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := reach(t, tc.at, driverOnly...)
			for _, change := range tc.with {
				change(&f)
			}
			if diff := cmp.Diff(tc.want, newMachine(t).Next(f).Record.Operation.Message); diff != "" {
				t.Error(diff)
			}
		})
	}
}
