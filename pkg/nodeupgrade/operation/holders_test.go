package operation

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// holding has processes of the node hold a device open, all of which the agent sees.
func holding(processes ...topsv1.DeviceHolder) func(*Facts) {
	return func(f *Facts) { f.Host.DeviceHolders, f.Host.DeviceHoldersVisible = processes, ptr.To(true) }
}

func unseen(f *Facts) { f.Host.DeviceHoldersVisible = ptr.To(false) }

func unknown(f *Facts) { f.Host.DeviceHoldersVisible = nil }

// stays has the pod of a process be one that the drain leaves.
func stays(f *Facts) { f.StayingPods = map[string]string{train.PodUID: "ns/train"} }

// lost has the pod of a process be one that the API server does not have.
func lost(f *Facts) { f.StayingPods = map[string]string{train.PodUID: ""} }

func unchecked(f *Facts) { f.Operation.Before = nil }

func stopped(f *Facts) { closed(f); gone("devicePlugin")(f); gone("exporter")(f) }

func crashing(f *Facts) {
	driver := pod(f, "driver")
	driver.Revision, driver.Available, driver.CrashLooping, driver.TerminationMessage = "v2", false, true, "module enflame is in use"
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
		{"holds it when it is of a pod that the drain leaves", "node_precheck", driverOnly, []func(*Facts){unchecked, holding(train), stays}, "Running node_precheck PrecheckFailed"},
		{"or of a pod that is gone", "node_precheck", driverOnly, []func(*Facts){unchecked, holding(train), lost}, "Running node_precheck PrecheckFailed"},
		{"a plain container holds it when the restart stops it", "node_precheck", toolkitOnly, []func(*Facts){unchecked, stopsAll, holding(python)}, "Running node_precheck PrecheckFailed"},
		{"not when the restart leaves it", "node_precheck", toolkitOnly, []func(*Facts){unchecked, keepsAll, holding(python)}, "Running node_precheck InProgress"},
		{"a process of the host is not stopped by the restart", "node_precheck", toolkitOnly, []func(*Facts){unchecked, stopsAll, holding(efsmi)}, "Running node_precheck InProgress"},
		{"not when the agent may not see it", "node_precheck", driverOnly, []func(*Facts){unchecked, unseen}, "Running node_precheck InProgress"},
		{"not when the agent knows nothing of it", "node_precheck", driverOnly, []func(*Facts){unchecked, unknown}, "Running node_precheck InProgress"},
		{"keeps the driver, once the users of the device are stopped", "driver_replace", driverOnly, []func(*Facts){stopped, holding(python)}, "Running driver_replace DeviceInUse"},
		{"which are stopped first", "driver_replace", driverOnly, []func(*Facts){closed, holding(python)}, "Running driver_replace DeviceInUse DeletePod DeletePod"},
		{"and is no fault of the version", "driver_replace", driverOnly, []func(*Facts){stopped, holding(python), later(10 * time.Minute)},
			"Releasing then Deferred driver_replace DeviceInUse"},
		{"of a pod does not keep it", "driver_replace", driverOnly, []func(*Facts){stopped, holding(train)}, "Running driver_replace InProgress DeletePod"},
		{"unless the drain leaves the pod", "driver_replace", driverOnly, []func(*Facts){stopped, holding(train), stays}, "Running driver_replace DeviceInUse"},
		{"or the pod is gone", "driver_replace", driverOnly, []func(*Facts){stopped, holding(train), lost}, "Running driver_replace DeviceInUse"},
		{"nor one in an old report", "driver_replace", driverOnly, []func(*Facts){stopped, holding(python), silent}, "Running driver_replace InProgress DeletePod"},
		{"nor one that a person accepts by skipping the precheck", "driver_replace", driverOnly, []func(*Facts){stopped, holding(python), func(f *Facts) {
			f.Operation.Tasks[taskAt(f, "node_precheck")].State = topsv1.OperationTaskSkipped
		}}, "Running driver_replace InProgress DeletePod"},
		{"nor one that cannot be seen", "driver_replace", driverOnly, []func(*Facts){stopped, unseen}, "Running driver_replace InProgress DeletePod"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			decides(t, reach(t, tc.at, tc.changed...), tc.want, tc.with...)
		})
	}
}

func TestAProcessThatHasADeviceOpenIsNamed(t *testing.T) {
	const (
		pythonHas = "process 4711 (python3, uid 1000, docker container 3f2a9c1b2d3e) has /dev/gcu0 open"
		crash     = "pod driver restarts repeatedly: module enflame is in use"
		late      = "n1_driver_replace took more than 10m0s: DaemonSet ns/driver has no pod on the node yet"
		blind     = "; a process outside of pods may have a card open: the node agent could not look at every process (it may lack the capability SYS_PTRACE)"
	)
	for _, tc := range []struct {
		name, at string
		with     []func(*Facts)
		want     string
	}{
		{"by the precheck", "node_precheck", []func(*Facts){unchecked, holding(python)}, pythonHas + ": stop it"},
		{"with others, not with those of pods", "node_precheck", []func(*Facts){unchecked, holding(python, efsmi, train)},
			pythonHas + ", process 4712 (efsmi, uid 0) has /dev/gcuctl open: stop them"},
		{"with its pod, when the drain leaves that", "node_precheck", []func(*Facts){unchecked, holding(train), stays},
			"process 4713 (train, uid 0, pod ns/train, which the drain leaves) has /dev/gcu1 open: stop it"},
		{"with the UID of its pod, when that is gone", "node_precheck", []func(*Facts){unchecked, holding(train), lost},
			"process 4713 (train, uid 0, pod pod, which the API server does not have) has /dev/gcu1 open: stop it"},
		{"when there are many", "node_precheck", []func(*Facts){unchecked, holding(efsmi, efsmi, efsmi, efsmi, efsmi, efsmi)},
			"process 4712 (efsmi, uid 0) has /dev/gcuctl open, process 4712 (efsmi, uid 0) has /dev/gcuctl open, process 4712 (efsmi, uid 0) has /dev/gcuctl open, " +
				"process 4712 (efsmi, uid 0) has /dev/gcuctl open, process 4712 (efsmi, uid 0) has /dev/gcuctl open and 1 more: stop them"},
		{"before the driver is replaced", "driver_replace", []func(*Facts){stopped, holding(python)}, pythonHas + ": stop it"},
		{"once, when it stays", "driver_replace", []func(*Facts){stopped, holding(python), later(10 * time.Minute)},
			"n1_driver_replace took more than 10m0s: " + pythonHas + ": stop it"},
		{"when the new driver crashes", "driver_replace", []func(*Facts){crashing, holding(python)}, crash + "; " + pythonHas},
		{"and that it may not be seen", "driver_replace", []func(*Facts){crashing, unseen}, crash + blind},
		{"not when there is none", "driver_replace", []func(*Facts){crashing, holding()}, crash},
		{"nor from an agent that knows nothing of it", "driver_replace", []func(*Facts){crashing, unknown}, crash},
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

// What cannot be seen is said before the node takes its slot, where it matters.
func TestWhatTheAgentCannotSeeIsSaidBeforeTheNodeTakesItsSlot(t *testing.T) {
	const blind = "; a process outside of pods may have a card open: the node agent could not look at every process (it may lack the capability SYS_PTRACE)"
	for _, tc := range []struct {
		name    string
		changed []string
		with    []func(*Facts)
		want    string
	}{
		{"for a new driver", driverOnly, []func(*Facts){unseen}, blind},
		{"for a restart that stops all containers", toolkitOnly, []func(*Facts){stopsAll, unseen}, blind},
		{"not for one that stops none", toolkitOnly, []func(*Facts){keepsAll, unseen}, ""},
		{"not when it sees all", driverOnly, []func(*Facts){holding()}, ""},
		{"nor from an agent that knows nothing of it", driverOnly, []func(*Facts){unknown}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := prepared(t, tc.changed...)
			f.Host = f.Host.DeepCopy()
			for _, change := range tc.with {
				change(&f)
			}
			if diff := cmp.Diff("prepared; waits for its slot"+tc.want, newMachine(t).Next(f).Record.Operation.Message); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestThePodsThatADrainLeavesAreReadUntilTheDriverIsReplaced(t *testing.T) {
	for _, tc := range []struct {
		name, at string
		changed  []string
		with     func(*Facts)
		want     bool
	}{
		{"in the precheck", "node_precheck", driverOnly, holding(train), true},
		{"before the driver is replaced", "driver_replace", driverOnly, holding(train), true},
		{"not afterwards", "driver_verify", driverOnly, holding(train), false},
		{"not for a toolkit", "node_precheck", toolkitOnly, holding(train), false},
		{"not while no pod has a device open", "node_precheck", driverOnly, holding(python), false},
		{"not for an operation that is not wanted", "node_precheck", driverOnly, func(f *Facts) { holding(train)(f); f.Wanted = nil }, false},
		{"not without a report", "node_precheck", driverOnly, func(f *Facts) { f.Host = nil }, false},
	} {
		f := reach(t, tc.at, tc.changed...)
		tc.with(&f)
		if got := NeedsStayingPods(f); got != tc.want {
			t.Errorf("%s: %t", tc.name, got)
		}
	}
}
