package operation

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

// That the node offers no cards with a device plugin which another gr has yet to replace, and offered none before,
// says nothing about the version of the operation. A node that stayed cordoned for it could not get another plugin.
func TestAnOperationDoesNotFailByThePluginOfAnotherGroup(t *testing.T) {
	const failed, deferred = "Failed held allocatable_verify VerifyFailed", "Releasing then Deferred allocatable_verify VerifyFailed"
	outdated := func(f *Facts) { pod(f, upgradeplan.TargetDevicePlugin).Revision = "v0" }
	broken := func(f *Facts) { pod(f, upgradeplan.TargetDevicePlugin).Available = false }
	offeredBefore := func(f *Facts) { f.Operation.Before.Allocatable["enflame.com/gcu"] = 8 }
	uncounted := func(f *Facts) { f.Operation.Before.Allocatable = nil }
	newer := func(f *Facts) {
		i := slices.IndexFunc(f.Members, func(m Member) bool { return m.Component == upgradeplan.TargetDevicePlugin })
		f.Members[i].Newest = "v3"
	}
	for _, tt := range []struct {
		name string
		with []func(*Facts)
		want string
	}{
		{"a plugin that works otherwise lacks what the operation was to bring", nil, failed},
		{"one that is outdated is for its own gr to replace", []func(*Facts){outdated}, deferred},
		{"but the node offered cards with it before", []func(*Facts){outdated, offeredBefore}, failed},
		{"what the operation brings may break one that is not outdated", []func(*Facts){broken}, failed},
		{"a newer revision is for its own gr to bring", []func(*Facts){newer}, deferred},
		{"before the runtime was restarted none could work", []func(*Facts){broken, uncounted}, failed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := reach(t, "allocatable_verify", toolkitOnly...)
			f.Node.Allocatable["enflame.com/gcu"], f.Operation.Before.Allocatable["enflame.com/gcu"] = 0, 0
			pod(&f, upgradeplan.TargetDevicePlugin).Available = true
			pod(&f, upgradeplan.TargetDevicePlugin).Created = f.Operation.StartTime.Add(time.Second)
			for _, change := range tt.with {
				change(&f)
			}
			later(5*time.Minute - time.Second)(&f)
			if got := summaryOf(newMachine(t).Next(f)); got != "Running allocatable_verify InProgress" {
				t.Errorf("before the deadline: %s", got)
			}
			later(time.Second)(&f)
			d := newMachine(t).Next(f)
			if got := summaryOf(d); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
			if text, names := d.Record.Operation.Message, pod(&f, upgradeplan.TargetDevicePlugin).Name; strings.Contains(text, names) != (tt.want == deferred) {
				t.Errorf("%q names pod %s: %t", text, names, tt.want != deferred)
			}
		})
	}
}

// What it replaces itself is of its version.
func TestAnOperationFailsByThePluginThatItReplaces(t *testing.T) {
	f := reach(t, "node_soak", upgradeplan.TargetToolkit, upgradeplan.TargetDevicePlugin)
	f.Node.Allocatable["enflame.com/gcu"], f.Operation.Before.Allocatable["enflame.com/gcu"] = 0, 0
	f.Members[slices.IndexFunc(f.Members, func(m Member) bool { return m.Component == upgradeplan.TargetDevicePlugin })].Newest = "v3"
	later(time.Minute)(&f)
	f.Record = newMachine(t).Next(f).Record
	later(5 * time.Minute)(&f)
	if got, want := summaryOf(newMachine(t).Next(f)), "Failed held allocatable_verify VerifyFailed"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// ofAnother leaves the device plugin to another gr than the one of the operation.
func ofAnother(f *Facts) {
	of := func(task string) bool { return strings.Contains(task, "_"+upgradeplan.TargetDevicePlugin+"_") }
	f.Wanted.Targets = slices.DeleteFunc(f.Wanted.Targets, func(t topsv1.OperationTarget) bool { return t.Component == upgradeplan.TargetDevicePlugin })
	for i, stage := range f.Wanted.Job {
		f.Wanted.Job[i] = slices.DeleteFunc(stage, func(name topsv1.TaskName) bool { return of(string(name)) })
	}
	f.Wanted.Job = slices.DeleteFunc(f.Wanted.Job, func(stage topsv1.JobStage) bool { return len(stage) == 0 })
	f.Operation.Tasks = slices.DeleteFunc(f.Operation.Tasks, func(rec topsv1.OperationTask) bool { return of(rec.Name) })
}

// ofOwnGroup lets the gr of the operation deploy the device plugin, which the operation does not replace.
func ofOwnGroup(f *Facts) {
	f.Operation.Rollout = "gcu-system/big"
	f.Members[slices.IndexFunc(f.Members, func(m Member) bool { return m.Component == upgradeplan.TargetDevicePlugin })].Group = "big"
}

// afterOne adds an operation that replaced the driver to the history.
func afterOne(id string, phase topsv1.OperationPhase, reason string) func(*Facts) {
	return func(f *Facts) {
		f.History = append(f.History, topsv1.OperationRecord{ID: id, Phase: phase, Reason: reason, Touched: true,
			Result: topsv1.OperationResult{Done: []string{"n1_driver_replace"}}})
	}
}

// A device plugin that failed by itself before the operation says nothing about the version of the operation, whatever its
// pods say. One that had worked, and fails since, does.
func TestAnOperationDoesNotFailByAPluginThatFailedBefore(t *testing.T) {
	const failed, deferred = "Failed held allocatable_verify VerifyFailed", "Releasing then Deferred allocatable_verify VerifyFailed"
	plugin := func(f *Facts) *Pod { return pod(f, upgradeplan.TargetDevicePlugin) }
	before := func(f *Facts) *topsv1.NodeBefore { return f.Operation.Before }
	uncounted := func(f *Facts) { before(f).Allocatable = nil }
	tookOver := func(f *Facts) { f.Operation.CordonedBy, f.Node.Cordon.Mark = "earlier", "earlier" }
	for _, tt := range []struct {
		name string
		with []func(*Facts)
		want string
	}{
		{"the driver may have broken one that had worked", nil, failed},
		{"one that had failed is for its own gr to replace", []func(*Facts){uncounted}, deferred},
		{"one that is outdated, too", []func(*Facts){uncounted, func(f *Facts) { plugin(f).Revision = "v0" }}, deferred},
		{"also on a node that another operation had cordoned", []func(*Facts){uncounted, tookOver}, deferred},
		{"it has just been Ready", []func(*Facts){uncounted, func(f *Facts) { plugin(f).Available, plugin(f).Since = true, f.Now.Add(6*time.Minute-time.Second) }}, deferred},
		{"it stays Ready, and offers nothing", []func(*Facts){uncounted, func(f *Facts) { plugin(f).Available = true }}, failed},
		{"it had offered none, and stayed available", []func(*Facts){func(f *Facts) { before(f).Allocatable["enflame.com/gcu"] = 0 }}, failed},
		{"it worked with the driver before", []func(*Facts){uncounted, func(f *Facts) { f.History = []topsv1.OperationRecord{doneAfter(plugin(f))} }}, failed},
		{"it had no driver to work with", []func(*Facts){uncounted, func(f *Facts) { before(f).DriverVersion = "" }}, failed},
		{"it is of the gr of the operation", []func(*Facts){uncounted, ofOwnGroup}, failed},
		{"an earlier operation may have broken it", []func(*Facts){uncounted, afterOne("v2", topsv1.OperationAborted, ReasonSuperseded)}, failed},
		{"an earlier operation was deferred for it", []func(*Facts){uncounted, afterOne("v2", topsv1.OperationDeferred, ReasonVerifyFailed)}, deferred},
		{"it had no cards to work with", []func(*Facts){uncounted, func(f *Facts) { before(f).Devices = 0 }}, failed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := reach(t, "node_soak", driverOnly...)
			ofAnother(&f)
			plugin(&f).Available, plugin(&f).Since, f.Node.Allocatable["enflame.com/gcu"] = false, f.Now, 0
			for _, change := range tt.with {
				change(&f)
			}
			later(time.Minute)(&f)
			f.Record = newMachine(t).Next(f).Record
			later(5 * time.Minute)(&f)
			d := newMachine(t).Next(f)
			if got := summaryOf(d); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
			if text, names := d.Record.Operation.Message, plugin(&f).Name; strings.Contains(text, names) != (tt.want == deferred) {
				t.Errorf("%q names pod %s: %t", text, names, tt.want != deferred)
			}
			if text := d.Record.Operation.Message; strings.Contains(text, "offered none before") {
				t.Errorf("%q is not known: it may have offered cards in good moments", text)
			}
		})
	}
}

// What a node offers by a plugin of another gr that fails is no measure, not in its good moments either. Whether one that has just
// started fails is not known yet.
func TestCardsOfAPluginThatFailsAreNotCounted(t *testing.T) {
	plugin := func(f *Facts) *Pod { return pod(f, upgradeplan.TargetDevicePlugin) }
	since := func(ago time.Duration, available bool) func(*Facts) {
		return func(f *Facts) { plugin(f).Available, plugin(f).Since = available, f.Now.Add(-ago) }
	}
	fails := since(time.Hour, false)
	restarted := func(f *Facts) { plugin(f).Restarted = true }
	leaves := func(f *Facts) { plugin(f).Terminating = true }
	crashLoops := func(f *Facts) { plugin(f).CrashLooping, plugin(f).Restarted = true, true }
	took := func(cards map[string]int64) func(*Facts) {
		return func(f *Facts) {
			f.Operation.CordonedBy = "earlier"
			f.Operation.Before = &topsv1.NodeBefore{DriverVersion: "v1", Devices: 8, Allocatable: cards}
		}
	}
	counted := map[string]int64{"enflame.com/gcu": 8}
	for _, tt := range []struct {
		name string
		with []func(*Facts)
		// restarts: the pod restarts all the time.
		restarts bool
		// waits is for how long the precheck waits; counted is whether the cards are.
		waits   time.Duration
		counted bool
	}{
		{name: "one that has long been available", with: []func(*Facts){since(time.Minute, true)}, counted: true},
		{name: "one that has just become available", with: []func(*Facts){since(20*time.Second, true)}, waits: 40 * time.Second, counted: true},
		{name: "one that fails", with: []func(*Facts){fails}},
		{name: "one that starts slowly", with: []func(*Facts){since(20*time.Second, false)}, waits: 90 * time.Second, counted: true},
		{name: "one that has become available long after it restarted", with: []func(*Facts){restarted, since(time.Minute, true)}, counted: true},
		{name: "one that started again, and takes its time to be available", with: []func(*Facts){restarted, since(time.Minute, false)}, waits: 90 * time.Second, counted: true},
		{name: "a start that cannot matter without cards", with: []func(*Facts){since(0, false), func(f *Facts) { f.Host.Devices = ptr.To(int32(0)) }}, counted: true},
		{name: "nor without a runtime", with: []func(*Facts){since(0, false), func(f *Facts) { f.Host.Runtime.Default = "runc" }}, counted: true},
		{name: "nor on a node whose cards an earlier operation counted", with: []func(*Facts){since(0, false), took(counted)}, counted: true},
		{name: "one that leaves", with: []func(*Facts){since(time.Hour, false), leaves}, waits: 90 * time.Second, counted: true},
		{name: "one that crash-looped and leaves", with: []func(*Facts){since(0, false), crashLoops, leaves}, waits: 90 * time.Second, counted: true},
		{name: "one that crash-loops next to one that starts", with: []func(*Facts){since(0, false), crashLoops, func(f *Facts) {
			f.Members = append(f.Members, Member{Component: upgradeplan.TargetGcusharePlugin, Pod: &Pod{Since: f.Now, NamedPod: plugin(f).NamedPod}})
		}}, waits: 90 * time.Second, counted: true},
		{name: "one that restarts", with: []func(*Facts){since(0, true)}, restarts: true, waits: 90 * time.Second},
		{name: "one that crash-loops", with: []func(*Facts){since(0, false), crashLoops}},
		{name: "it has no driver to work with", with: []func(*Facts){fails, func(f *Facts) { f.Host.DriverVersion = "" }}, counted: true},
		{name: "it has no runtime to work with", with: []func(*Facts){fails, func(f *Facts) { f.Host.Runtime.Default = "runc" }}, counted: true},
		{name: "another one on the node works", with: []func(*Facts){fails, func(f *Facts) {
			f.Members = append(f.Members, Member{Component: upgradeplan.TargetGcusharePlugin, Pod: &Pod{Available: true, Since: f.Now.Add(-time.Hour)}})
		}}, counted: true},
		{name: "an earlier operation counted them", with: []func(*Facts){fails, took(counted)}, counted: true},
		{name: "an earlier operation did not", with: []func(*Facts){fails, took(nil), func(f *Facts) { f.Host.DriverVersion = "" }}},
		{name: "it is of the gr of the operation", with: []func(*Facts){fails, ofOwnGroup}, counted: true},
		{name: "an operation with the same component was aborted", with: []func(*Facts){fails, afterOne("v2", topsv1.OperationAborted, ReasonSuperseded)}, counted: true},
		{name: "then it was verified", with: []func(*Facts){fails, afterOne("v2", topsv1.OperationAborted, ReasonSuperseded), afterOne("again", topsv1.OperationDone, ReasonSucceeded)}},
		{name: "an operation was deferred for the plugin", with: []func(*Facts){fails, afterOne("v2", topsv1.OperationDeferred, ReasonVerifyFailed)}},
		{name: "an operation with other components was aborted", with: []func(*Facts){fails, afterOne("v2", topsv1.OperationAborted, ReasonSuperseded), func(f *Facts) {
			f.History[0].Result.Done[0] = "n1_toolkit_replace"
		}}},
		{name: "the operation from which it has the cordon failed", with: []func(*Facts){fails, took(nil), afterOne("earlier", topsv1.OperationFailed, ReasonVerifyFailed)}},
		{name: "one before that was aborted", with: []func(*Facts){fails, took(nil), afterOne("v2", topsv1.OperationAborted, ReasonSuperseded), afterOne("earlier", topsv1.OperationFailed, ReasonVerifyFailed)}, counted: true},
		{name: "its gr has another version by now", with: []func(*Facts){fails, took(counted), func(f *Facts) { plugin(f).Revision = "v0" }}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := reach(t, "node_precheck", driverOnly...)
			ofAnother(&f)
			unchecked(&f)
			f.Drained.Empty = true
			for _, change := range tt.with {
				change(&f)
			}
			waited := time.Duration(0)
			d := newMachine(t).Next(f)
			for ; !Prechecked(d.Record.Operation) && waited < 2*time.Minute; waited += 5 * time.Second {
				if text := d.Record.Operation.Message; !strings.Contains(text, plugin(&f).Name) {
					t.Fatalf("it waits: %s", text)
				}
				f.Record = d.Record
				later(5 * time.Second)(&f)
				if tt.restarts {
					plugin(&f).Since, plugin(&f).Restarted = f.Now, true
				}
				d = newMachine(t).Next(f)
			}
			if waited != tt.waits {
				t.Errorf("it waits for %s, want %s", waited, tt.waits)
			}
			want := map[string]int64(nil)
			if tt.counted {
				want = counted
			}
			if got := d.Record.Operation.Before.Allocatable; !maps.Equal(got, want) {
				t.Errorf("it counts %v, want %v", got, want)
			}
		})
	}
}

// The failed version may be why it fails.
func TestANodeStaysCordonedThoughThePluginOfAnotherGroupFails(t *testing.T) {
	f := reach(t, "node_evict", driverOnly...)
	ofAnother(&f)
	op, plugin := f.Operation, pod(&f, upgradeplan.TargetDevicePlugin)
	op.CordonedBy, f.Node.Cordon.Mark, op.Before.Allocatable = "earlier", "earlier", nil
	plugin.Available, plugin.Since, f.Node.Allocatable["enflame.com/gcu"] = false, f.Now, 0
	later(time.Hour)(&f)
	if got, want := summaryOf(newMachine(t).Next(f)), "Deferred held node_evict DrainTimeout"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// Pods that left would not get cards again, on one node after another.
// doneAfter returns an operation that replaced the driver, and was done after a pod was created.
func doneAfter(p *Pod) topsv1.OperationRecord {
	return topsv1.OperationRecord{ID: "before", Phase: topsv1.OperationDone, Touched: true, EndTime: metav1.NewTime(p.Created.Add(time.Minute)), Result: topsv1.OperationResult{Done: []string{"n1_driver_replace"}}}
}

func TestANodeIsNotDrainedWhileThePluginOfAnotherGroupFails(t *testing.T) {
	plugin := func(f *Facts) *Pod { return pod(f, upgradeplan.TargetDevicePlugin) }
	const lacks, passes = "PrecheckFailed", "InProgress"
	for _, tt := range []struct {
		name string
		with func(*Facts)
		want string
	}{
		{"it fails", func(*Facts) {}, lacks},
		{"nothing is there to evict", func(f *Facts) { f.Drained.Empty = true }, passes},
		{"it may be sound", func(f *Facts) {
			plugin(f).CrashLooping, plugin(f).Available, plugin(f).Since = false, true, f.Now.Add(-time.Hour)
		}, passes},
		{"a person skipped the evictions", func(f *Facts) {
			for i := range f.Operation.Tasks {
				if rec := &f.Operation.Tasks[i]; rec.Name == "n1_node_evict" {
					rec.State = topsv1.OperationTaskSkipped
				}
			}
		}, passes},
		{"the node is out of service for an operation that failed", func(f *Facts) {
			f.Operation.CordonedBy, f.Operation.Before = "earlier", &topsv1.NodeBefore{DriverVersion: "v1", Devices: 8}
		}, passes},
		{"a rollback may cure it", func(f *Facts) { f.Operation.Purpose = topsv1.PurposeRollback }, passes},
		{"it worked with the driver that is there", func(f *Facts) { f.History = []topsv1.OperationRecord{doneAfter(plugin(f))} }, passes},
		{"another pod of it did", func(f *Facts) {
			f.History = []topsv1.OperationRecord{doneAfter(plugin(f))}
			plugin(f).Created = f.History[0].EndTime.Add(time.Second)
		}, lacks},
		{"it worked with what stays", func(f *Facts) {
			f.History = []topsv1.OperationRecord{doneAfter(plugin(f))}
			f.History[0].Result.Done = []string{"n1_toolkit_replace"}
		}, lacks},
		{"something is on the node", func(f *Facts) { f.Operation.Touched = true }, passes},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := reach(t, "node_precheck", driverOnly...)
			ofAnother(&f)
			unchecked(&f)
			plugin(&f).CrashLooping, plugin(&f).Available, f.Drained = true, false, Drained{Message: "pods are left"}
			tt.with(&f)
			d := newMachine(t).Next(f)
			op := d.Record.Operation
			if op.Reason != tt.want || Prechecked(op) != (tt.want == passes) {
				t.Errorf("%s: %s", op.Reason, op.Message)
			}
			if tt.want != lacks {
				return
			}
			for _, part := range []string{plugin(&f).Name, "ns/devicePlugin", "kubectl gcu task skip n1 node_precheck"} {
				if !strings.Contains(op.Message, part) {
					t.Errorf("%q does not name %s", op.Message, part)
				}
			}
			f.Record = d.Record
			later(2 * time.Minute)(&f)
			if got, want := summaryOf(newMachine(t).Next(f)), "Releasing then Deferred node_precheck PrecheckFailed"; got != want {
				t.Errorf("%s, want %s", got, want)
			}
		})
	}
}
