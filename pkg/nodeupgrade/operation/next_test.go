package operation

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

func newMachine(t *testing.T) *Machine {
	t.Helper()
	m, err := New(upgradeplan.DefaultBook())
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func sameRecord(a, b Record) bool {
	return reflect.DeepEqual(a.Operation, b.Operation) && len(a.History) == len(b.History) &&
		(len(a.History) == 0 || reflect.DeepEqual(a.History, b.History))
}

var (
	everything = []string{upgradeplan.TargetDriver, upgradeplan.TargetToolkit, upgradeplan.TargetExporter, upgradeplan.TargetNFD}
	driverOnly = []string{upgradeplan.TargetDriver}
)

// reach runs an operation without faults until a task (target_action) is recorded as current,
// and returns the facts at that point, before any effect.
func reach(t *testing.T, task string, changed ...string) Facts {
	t.Helper()
	w := newWorld(t, 7)
	w.workload, w.host.stops = 1, true
	if !slices.Contains(changed, upgradeplan.TargetToolkit) {
		w.host.runtime = topsv1.DefaultRuntime
	}
	for _, c := range changed {
		w.member(c).newest = "v2"
	}
	w.offer("op", changed...)
	w.nu.Spec.Operation.Purpose = topsv1.PurposeUpgrade
	machine := newMachine(t)
	for range 500 {
		w.now = w.now.Add(3 * time.Second)
		w.agent(func() bool { return false })
		w.kubelet()
		seen := w.facts()
		d := machine.Next(seen)
		w.store(d.Record, w.nuAt)
		if op := d.Record.Operation; op != nil && (op.Task == theNode+"_"+task || string(op.Phase) == task) {
			return w.facts()
		}
		for _, e := range d.Effects {
			w.apply(e)
		}
	}
	t.Fatalf("task %s is not reached", task)
	return Facts{}
}

// decides changes facts, and decides. want is the summary of the decision.
func decides(t *testing.T, f Facts, want string, changes ...func(*Facts)) Decision {
	t.Helper()
	for _, change := range changes {
		change(&f)
	}
	d := newMachine(t).Next(f)
	if got := summaryOf(d); got != want {
		t.Errorf("%s, want %s: %s", got, want, d.Record.Operation.Message)
	}
	return d
}

// summaryOf formats a decision in one line: phase, outcome, whether the node is held, current
// task, reason, effects.
func summaryOf(d Decision) string {
	op := d.Record.Operation
	if op == nil {
		return "none"
	}
	parts := []string{string(op.Phase)}
	if op.Outcome != "" {
		parts = append(parts, "then "+string(op.Outcome))
	}
	if op.Held {
		parts = append(parts, "held")
	}
	parts = append(parts, strings.TrimPrefix(op.Task, theNode+"_"), op.Reason)
	for _, e := range d.Effects {
		kind := string(e.Kind)
		if e.All {
			kind += "All"
		}
		parts = append(parts, kind)
	}
	return strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p == "" }), " ")
}

func later(d time.Duration) func(*Facts) {
	return func(f *Facts) {
		f.Now = f.Now.Add(d)
		if f.Host != nil {
			f.HostSince = f.Now
		}
	}
}

func newestDriver(revision string) func(*Facts) {
	return func(f *Facts) {
		f.Members[slices.IndexFunc(f.Members, func(m Member) bool { return m.Component == "driver" })].Newest = revision
	}
}

func pod(f *Facts, component string) *Pod {
	i := slices.IndexFunc(f.Members, func(m Member) bool { return m.Component == component })
	return f.Members[i].Pod
}

func override(value string) func(*Facts) {
	return func(f *Facts) { f.Override = value }
}

// denied is a denial of the deletion of a component's pod.
func denied(f *Facts, component string) map[types.UID]Denial {
	return map[types.UID]Denial{pod(f, component).UID: {Retry: f.Now.Add(time.Hour), Message: "by a webhook"}}
}

// retried is a replacement that a person repeats: the pod has the new version, and may not be deleted.
func retried(component string) func(*Facts) {
	return func(f *Facts) {
		i := slices.IndexFunc(f.Members, func(m Member) bool { return m.Component == component })
		p := f.Members[i].Pod
		p.Revision = "v2"
		rec := &f.Operation.Tasks[taskAt(f, component+"_replace")]
		rec.Pod, rec.Again, f.Operation.Touched = &p.NamedPod, p.UID, true
		f.Denied, f.Node.Taint = denied(f, component), "op"
		f.Members = slices.DeleteFunc(f.Members, func(m Member) bool { return m.Component == "devicePlugin" || m.Component == "exporter" })
	}
}

// deleting is the deletion of a component's pod, which may have been done.
func deleting(component string) func(*Facts) {
	return func(f *Facts) {
		named := pod(f, component).NamedPod
		f.Operation.Tasks[taskAt(f, component+"_replace")].Pod, f.Operation.Touched = &named, true
	}
}

// stepped makes a pass with the facts.
func stepped(f *Facts) {
	machine, err := New(upgradeplan.DefaultBook())
	if err != nil {
		panic(err)
	}
	f.Record = machine.Next(*f).Record
}

func offline(f *Facts) { f.Node.Ready, f.Node.Since = false, f.Now }

func result(task string, state topsv1.HostTaskState) func(*Facts) {
	return func(f *Facts) {
		f.Host.Results = append(slices.DeleteFunc(f.Host.Results, func(r topsv1.HostTaskResult) bool { return r.Task == theNode+"_"+task }),
			topsv1.HostTaskResult{Operation: "op", Task: theNode + "_" + task, Attempt: 1, State: state})
	}
}

func TestNext(t *testing.T) {
	for _, tc := range []struct {
		name    string
		at      string
		changed []string
		with    []func(*Facts)
		want    string
	}{
		{"a silent agent holds the node before it is touched", "node_precheck", everything,
			[]func(*Facts){func(f *Facts) { f.Operation.Before = nil; f.HostSince = f.Now.Add(-time.Hour) }}, "Running node_precheck PrecheckFailed"},
		{"an agent that never reported holds it too", "node_precheck", everything,
			[]func(*Facts){func(f *Facts) { f.Operation.Before = nil; f.Host = nil }}, "Running node_precheck PrecheckFailed"},
		{"somebody else at work on the node holds it", "node_precheck", everything,
			[]func(*Facts){func(f *Facts) { f.Operation.Before = nil; f.Node.OtherUpgrader = "kured" }}, "Running node_precheck PrecheckFailed"},
		{"a node that cannot be emptied is not cordoned", "node_precheck", everything,
			[]func(*Facts){func(f *Facts) {
				f.Operation.Before, f.Drained = nil, Drained{Stuck: true, Message: "the policy keeps a pod"}
			}}, "Running node_precheck PrecheckFailed"},
		{"which pods leave is looked at again when a restart stops all of them", "node_precheck", everything,
			[]func(*Facts){func(f *Facts) { f.Operation.Before, f.Operation.DrainAll = nil, false }}, "Running node_precheck InProgress"},
		{"a disk whose space is not known holds it", "node_precheck", everything,
			[]func(*Facts){func(f *Facts) {
				f.Operation.Before, f.Wanted.MinFreeDiskBytes, f.Host.FreeDiskBytes = nil, 1, nil
			}}, "Running node_precheck PrecheckFailed"},
		{"what a node lacks for too long defers it", "node_precheck", everything,
			[]func(*Facts){func(f *Facts) { f.Operation.Before = nil; f.Host = nil }, later(2 * time.Minute)}, "Releasing then Deferred node_precheck PrecheckFailed"},
		{"a node that passes at the deadline is not deferred", "node_precheck", everything,
			[]func(*Facts){func(f *Facts) { f.Operation.Before = nil }, later(2 * time.Minute)}, "Running node_precheck InProgress"},
		{"images that are there let the node be cordoned", "driver_prepull", everything,
			[]func(*Facts){result("driver_prepull", "Done"), result("toolkit_prepull", "Done"), result("exporter_prepull", "Done"), result("nfd_prepull", "Done")}, "Running node_cordon InProgress Cordon"},
		{"an image that cannot be pulled defers the node", "driver_prepull", everything,
			[]func(*Facts){result("driver_prepull", "Failed"), later(15 * time.Minute)}, "Releasing then Deferred driver_prepull PrepullFailed"},
		{"a cordon of a person is as good as ours", "node_cordon", everything,
			[]func(*Facts){func(f *Facts) { f.Node.Cordon.Unschedulable, f.Node.Cordon.SetByOther = true, true }}, "Running node_evict InProgress EvictAll"},
		{"a node that another operation cordoned is waited for", "node_cordon", everything,
			[]func(*Facts){func(f *Facts) { f.Node.Cordon.Unschedulable, f.Node.Cordon.Mark = true, "other" }}, "Running node_cordon CordonHeld"},
		{"for ten minutes", "node_cordon", everything,
			[]func(*Facts){func(f *Facts) { f.Node.Cordon.Unschedulable, f.Node.Cordon.Mark = true, "other" }, later(10 * time.Minute)}, "Releasing then Deferred node_cordon CordonHeld"},
		{"all pods leave when a restart of the runtime stops them", "node_evict", everything, nil, "Running node_evict InProgress EvictAll"},
		{"pods that use the accelerator leave for a driver", "node_evict", driverOnly, nil, "Running node_evict InProgress Evict"},
		{"once the driver is replaced the node stays cordoned if it cannot be emptied again", "driver_verify", everything,
			[]func(*Facts){func(f *Facts) { f.Drained = Drained{Message: "one is left"} }, stepped, later(5 * time.Minute)}, "Failed held node_evict DrainTimeout"},
		{"unless a person skipped its verification", "driver_verify", everything,
			[]func(*Facts){func(f *Facts) {
				f.Operation.Tasks[taskAt(f, "driver_verify")].State = topsv1.OperationTaskSkipped
				f.Drained = Drained{Message: "one is left"}
			}, stepped, later(5 * time.Minute)}, "Releasing then Deferred node_evict DrainTimeout"},
		{"even if its verification was skipped before it was replaced", "driver_replace", everything,
			[]func(*Facts){func(f *Facts) {
				f.Operation.Tasks[taskAt(f, "driver_verify")].State = topsv1.OperationTaskSkipped
				f.Operation.Tasks[taskAt(f, "driver_replace")].Pod, f.Operation.Touched = &topsv1.NamedPod{}, true
				f.Drained = Drained{Message: "one is left"}
			}, stepped, later(5 * time.Minute)}, "Failed held node_evict DrainTimeout"},
		{"a driver that a person retries stays replaced though its deletion is denied", "driver_replace", everything, []func(*Facts){retried("driver"), func(f *Facts) {
			f.Drained = Drained{Message: "one is left"}
		}, stepped, later(5 * time.Minute)}, "Failed held node_evict DrainTimeout"},
		{"also when the drain has ended", "driver_replace", everything, []func(*Facts){retried("driver"), stepped, later(10 * time.Minute)},
			"Failed held driver_replace ProgressDeadline"},
		{"a driver whose deletion is denied was not replaced", "driver_replace", everything,
			[]func(*Facts){func(f *Facts) {
				f.Operation.Tasks[taskAt(f, "driver_replace")].Pod, f.Operation.Touched = &pod(f, "driver").NamedPod, true
				f.Drained, f.Denied = Drained{Message: "one is left"}, denied(f, "driver")
			}, stepped, later(5 * time.Minute)}, "Releasing then Deferred node_evict DrainTimeout"},
		{"a drain that does not end is no fault of the version", "node_evict", everything, []func(*Facts){later(5 * time.Minute)}, "Releasing then Deferred node_evict DrainTimeout"},
		{"pods that were evicted have their grace period", "node_evict", driverOnly,
			[]func(*Facts){func(f *Facts) { f.Drained = Drained{Ending: true, Message: "terminating: ns/a"} }, later(90 * time.Minute)}, "Running node_evict InProgress Evict"},
		{"as long as the operation may take", "node_evict", driverOnly,
			[]func(*Facts){func(f *Facts) { f.Drained = Drained{Ending: true, Message: "terminating: ns/a"} }, later(2 * time.Hour)}, "Releasing then Deferred node_evict OperationDeadline"},
		{"also after the driver was replaced and verified", "node_evict", everything,
			[]func(*Facts){func(f *Facts) {
				for _, task := range []string{"driver_replace", "driver_verify"} {
					f.Operation.Tasks[taskAt(f, task)].State = topsv1.OperationTaskDone
				}
				f.Operation.Touched, f.Drained = true, Drained{Ending: true, Message: "terminating: ns/a"}
			}, later(2 * time.Hour)}, "Releasing then Deferred node_evict OperationDeadline"},
		{"also pods behind the taint", "driver_replace", driverOnly,
			[]func(*Facts){func(f *Facts) { f.Node.Taint, f.Drained = "op", Drained{Ending: true, Message: "terminating: ns/a"} }, later(90 * time.Minute)},
			"Running driver_replace DeviceInUse Evict"},
		{"but a new driver has no more time because a pod ends", "driver_replace", driverOnly,
			[]func(*Facts){func(f *Facts) {
				f.Drained = Drained{Ending: true, Message: "terminating: ns/a"}
				pod(f, "driver").Revision, pod(f, "driver").Available = "v2", false
			}, stepped, later(10 * time.Minute)}, "Failed held driver_replace ProgressDeadline"},
		{"a node that somebody uncordoned is cordoned again", "node_evict", everything,
			[]func(*Facts){func(f *Facts) { f.Node.Cordon.Unschedulable = false }}, "Running node_cordon InProgress Cordon"},
		{"the device is closed before its users are stopped", "driver_replace", everything, nil, "Running driver_replace InProgress TaintDevice"},
		{"a pod that came in the moment of the cordon leaves first", "driver_replace", driverOnly,
			[]func(*Facts){func(f *Facts) { f.Drained = Drained{Message: "one is left"} }}, "Running driver_replace DrainTimeout Evict"},
		{"a pod that leaves behind the taint is named as using the device", "driver_replace", driverOnly,
			[]func(*Facts){func(f *Facts) { f.Node.Taint, f.Drained = "op", Drained{Message: "to be evicted: ns/monitor"} }}, "Running driver_replace DeviceInUse Evict"},
		{"a pod behind the taint that does not leave is no fault of the version", "driver_replace", driverOnly,
			[]func(*Facts){func(f *Facts) { f.Node.Taint, f.Drained = "op", Drained{Message: "a budget refuses"} }, later(10 * time.Minute)},
			"Releasing then Deferred driver_replace DeviceInUse"},
		{"users of the device are stopped before the driver", "driver_replace", everything,
			[]func(*Facts){func(f *Facts) { f.Node.Taint = "op" }}, "Running driver_replace DeviceInUse DeletePod DeletePod"},
		{"users that do not go are no fault of the version", "driver_replace", everything,
			[]func(*Facts){func(f *Facts) {
				f.Node.Taint = "op"
				pod(f, "devicePlugin").Terminating, pod(f, "exporter").Terminating = true, true
			}, later(10 * time.Minute)},
			"Releasing then Deferred driver_replace DeviceInUse"},
		{"a DaemonSet that replaces its pods by itself is left alone", "driver_replace", everything,
			[]func(*Facts){func(f *Facts) {
				f.Node.Taint = "op"
				for i := range f.Members {
					f.Members[i].Uncontrolled = true
				}
			}}, "Running driver_replace InProgress"},
		{"so are the pods of one that use the device", "driver_replace", everything,
			[]func(*Facts){func(f *Facts) {
				f.Node.Taint = "op"
				f.Members[slices.IndexFunc(f.Members, func(m Member) bool { return m.Component == "exporter" })].Uncontrolled = true
			}}, "Running driver_replace DeviceInUse DeletePod"},
		{"another DaemonSet of the same component is not the target", "driver_replace", everything,
			[]func(*Facts){func(f *Facts) {
				f.Members[slices.IndexFunc(f.Members, func(m Member) bool { return m.Component == "driver" })].UID = "other"
			}}, "Running driver_replace InProgress"},
		{"a drain that waits for somebody says so", "node_evict", driverOnly,
			[]func(*Facts){func(f *Facts) { f.Drained = Drained{Stuck: true, Message: "a budget refuses"} }}, "Running node_evict DrainBlocked Evict"},
		{"the device stays closed until the driver was verified", "driver_verify", driverOnly, nil, "Running driver_verify InProgress"},
		{"and is open for its users before they are replaced", "devicePlugin_replace", driverOnly, nil, "Running devicePlugin_replace InProgress UntaintDevice"},
		{"a user of the device from before the driver is replaced", "devicePlugin_replace", driverOnly,
			[]func(*Facts){func(f *Facts) {
				old := &Pod{Revision: "v1", Available: true, Created: f.Now.Add(-time.Hour)}
				old.UID, old.ResourceVersion = "old", "100000"
				f.Members[slices.IndexFunc(f.Members, func(m Member) bool { return m.Component == "devicePlugin" })].Pod = old
			}}, "Running devicePlugin_replace InProgress UntaintDevice DeletePod"},
		{"a new driver that restarts again and again fails", "driver_verify", everything,
			[]func(*Facts){func(f *Facts) {
				f.Operation.Tasks[taskAt(f, "driver_replace")].State = topsv1.OperationTaskRunning
				pod(f, "driver").Available, pod(f, "driver").CrashLooping = false, true
			}}, "Failed held driver_replace CrashLoop"},
		{"a driver that is the old one again is replaced again", "driver_verify", everything,
			[]func(*Facts){func(f *Facts) { pod(f, "driver").Revision = "v1" }}, "Running driver_replace InProgress DeletePod"},
		{"a verification needs a look from after the replacement", "driver_verify", everything, nil, "Running driver_verify InProgress"},
		{"evidence that is missing fails at the deadline", "driver_verify", everything, []func(*Facts){later(5 * time.Minute)}, "Failed held driver_verify VerifyFailed"},
		{"a card that is missing fails", "driver_verify", everything,
			[]func(*Facts){result("driver_verify", "Done"), func(f *Facts) { *f.Host.Devices = 7 }, later(5 * time.Minute)}, "Failed held driver_verify VerifyFailed"},
		{"a card that was missing before does not blame the version", "driver_verify", everything,
			[]func(*Facts){result("driver_verify", "Done"), func(f *Facts) { *f.Host.Devices, f.Operation.Before.Devices = 7, 7 }}, "Running toolkit_replace InProgress DeletePod"},
		{"another driver than wanted is not the driver", "driver_verify", everything,
			[]func(*Facts){result("driver_verify", "Done"), func(f *Facts) { f.Wanted.DriverVersion = "9" }}, "Running driver_verify InProgress"},
		{"a restart that failed fails the node", "node_restart-runtime", everything, []func(*Facts){result("node_restart-runtime", "Failed")}, "Failed held node_restart-runtime RestartFailed"},
		{"a restart left to the administrator is said", "node_restart-runtime", everything, []func(*Facts){result("node_restart-runtime", "Waiting")},
			"Running node_restart-runtime LeftToAdministrator"},
		{"and is no fault of the version", "node_restart-runtime", everything, []func(*Facts){result("node_restart-runtime", "Waiting"), later(7 * time.Minute)},
			"Releasing then Deferred node_restart-runtime LeftToAdministrator"},
		{"a node that is full again is emptied before the restart", "toolkit_replace", []string{upgradeplan.TargetToolkit},
			[]func(*Facts){func(f *Facts) { f.Drained = Drained{Message: "one is left"} }}, "Running node_evict InProgress EvictAll"},
		{"what is allocatable must be as before", "node_soak", everything,
			[]func(*Facts){later(time.Minute), func(f *Facts) { f.Node.Allocatable["enflame.com/gcu"] = 7 }}, "Running allocatable_verify InProgress"},
		{"a pod that is gone during the soak is not soaked", "node_soak", everything,
			[]func(*Facts){func(f *Facts) { pod(f, "toolkit").Available = false }, later(20 * time.Minute)}, "Failed held node_soak SoakFailed"},
		{"a restart during the soak begins it anew", "node_soak", everything,
			[]func(*Facts){later(time.Minute), func(f *Facts) { pod(f, "driver").Since = f.Now.Add(-time.Second) }}, "Running node_soak InProgress"},
		{"after the soak the node is given back", "node_soak", everything, []func(*Facts){later(time.Minute)}, "Releasing then Done node_soak Succeeded"},
		{"done means that every pod is still at its target", "node_soak", everything,
			[]func(*Facts){later(time.Minute), func(f *Facts) { pod(f, "nfd").Revision = "v1" }}, "Running nfd_replace InProgress DeletePod"},
		{"a node that is offline is left alone", "node_evict", everything, []func(*Facts){offline}, "Running node_evict NodeOffline"},
		{"one that is lost before it was touched is no fault of the version", "node_evict", everything, []func(*Facts){offline, later(15 * time.Minute)}, "Releasing then Deferred node_evict NodeLost"},
		{"one that is lost afterwards is", "driver_verify", everything, []func(*Facts){offline, later(15 * time.Minute)}, "Failed held driver_verify NodeLost"},
		{"a rollback that fails puts the node into quarantine", "driver_verify", everything,
			[]func(*Facts){func(f *Facts) {
				f.Operation.Purpose, f.Wanted.Purpose = topsv1.PurposeRollback, topsv1.PurposeRollback
			}, later(5 * time.Minute)}, "Quarantined held driver_verify VerifyFailed"},
		{"the time a node was away is not the task's", "driver_verify", everything,
			[]func(*Facts){later(6 * time.Minute), func(f *Facts) { f.Node.Since = f.Now }}, "Running driver_verify InProgress"},
		{"every operation has an end", "node_restart-runtime", everything, []func(*Facts){later(3 * time.Hour), func(f *Facts) { f.Node.Since = f.Now }}, "Failed held node_restart-runtime OperationDeadline"},
		{"a newer revision ends the operation", "node_evict", everything,
			[]func(*Facts){newestDriver("v3")}, "Releasing then Aborted node_evict TargetChanged"},
		{"which keeps a node whose driver may be on its way and is not verified", "driver_replace", everything,
			[]func(*Facts){deleting("driver"), newestDriver("v3"), func(f *Facts) {
				i := slices.IndexFunc(f.Members, func(m Member) bool { return m.Component == "driver" })
				f.Members[i].Pod = nil
			}}, "Aborted held driver_replace TargetChanged"},
		{"but none whose driver may not leave", "driver_replace", everything,
			[]func(*Facts){deleting("driver"), newestDriver("v3"), func(f *Facts) { f.Denied = denied(f, "driver") }}, "Releasing then Aborted driver_replace TargetChanged"},
		{"nor one that it has not touched", "node_precheck", everything,
			[]func(*Facts){func(f *Facts) {
				p := pod(f, "driver")
				p.Revision, p.Available = "v2", true
			}, stepped, func(f *Facts) {
				f.Members[slices.IndexFunc(f.Members, func(m Member) bool { return m.Component == "toolkit" })].Newest = "v3"
			}}, "Releasing then Aborted node_precheck TargetChanged"},
		{"the driver of an earlier revision is verified first", "driver_verify", everything, []func(*Facts){newestDriver("v3")}, "Running driver_verify InProgress"},
		{"another Node object of the name is not meant", "node_evict", everything, []func(*Facts){func(f *Facts) { f.Node.UID = "other" }}, "Releasing then Aborted node_evict NodeReplaced"},
		{"an abort gives the node back", "node_evict", everything, []func(*Facts){func(f *Facts) { f.Wanted.Abort = true }}, "Releasing then Aborted node_evict Aborted Uncordon"},
		{"so does a rollout that is over", "node_evict", everything, []func(*Facts){func(f *Facts) { f.Wanted = nil }}, "Releasing then Aborted node_evict Withdrawn Uncordon"},
		{"so does another operation", "node_evict", everything, []func(*Facts){func(f *Facts) { f.Wanted.ID = "next" }}, "Releasing then Aborted node_evict Superseded Uncordon"},
		{"an abort leaves the cordon of a person", "node_evict", everything,
			[]func(*Facts){func(f *Facts) { f.Wanted.Abort = true; f.Node.Cordon.Mark = ""; f.Node.Cordon.SetByOther = true }}, "Aborted Aborted"},
		{"a restart that may come any moment is waited for", "node_restart-runtime", everything,
			[]func(*Facts){func(f *Facts) { f.Wanted.Abort = true }}, "Releasing then Aborted node_restart-runtime Aborted"},
		{"a skipped task is not waited for", "driver_verify", everything, []func(*Facts){override("skip:n1_driver_verify")}, "Running toolkit_replace InProgress DeletePod"},
		{"a cordon is not skipped", "node_cordon", everything, []func(*Facts){override("skip:n1_node_cordon")}, "Running node_cordon InProgress Cordon"},
		{"a bad override changes nothing", "node_evict", everything, []func(*Facts){override("skip it")}, "Running node_evict InProgress EvictAll"},
		{"an undo changes nothing", "driver_verify", everything, []func(*Facts){override("undo:n1_driver_replace")}, "Running driver_verify InProgress"},
		{"a task that is retried replaces its pod again", "driver_verify", everything, []func(*Facts){override("retry:n1_driver_replace")}, "Running driver_replace InProgress DeletePod"},
		{"a node without an operation is left alone", "Done", everything, nil, "Done Succeeded"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			decides(t, reach(t, tc.at, tc.changed...), tc.want, tc.with...)
		})
	}
}

func TestAFailedAgentReportIsReported(t *testing.T) {
	const full = "could not record it in the state directory: no space left on device"
	for _, tc := range []struct{ name, message, want string }{
		{"the agent says why", full, full},
		{"it says nothing", "", "the node agent has not reported since"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := reach(t, "driver_verify", everything...)
			f.Host.Results = append(f.Host.Results, topsv1.HostTaskResult{Operation: "op", Task: theNode + "_driver_verify", Attempt: 1,
				State: topsv1.HostTaskRunning, Reason: "NotRecorded", Message: tc.message})
			if got := newMachine(t).Next(f).Record.Operation.Message; got != tc.want {
				t.Errorf("it says %q", got)
			}
		})
	}
}

func taskAt(f *Facts, task string) int {
	return slices.IndexFunc(f.Operation.Tasks, func(t topsv1.OperationTask) bool { return t.Name == theNode+"_"+task })
}

func TestACrashLoopReportsTheMessageOfTheContainer(t *testing.T) {
	for words, want := range map[string]string{
		"":                           "pod driver restarts repeatedly",
		"version 2 cannot be loaded": "pod driver restarts repeatedly: version 2 cannot be loaded",
	} {
		f := reach(t, "driver_verify", everything...)
		f.Operation.Tasks[taskAt(&f, "driver_replace")].State = topsv1.OperationTaskRunning
		driver := pod(&f, "driver")
		driver.Name, driver.Available, driver.CrashLooping, driver.TerminationMessage = "driver", false, true, words
		d := newMachine(t).Next(f)
		if got := d.Record.Operation.Message; got != want {
			t.Errorf("it says %q, want %q", got, want)
		}
	}
}
