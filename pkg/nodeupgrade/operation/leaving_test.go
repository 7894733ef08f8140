package operation

import (
	"slices"
	"testing"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// deviceClosed is what a decision sees at the driver's replacement once the device is closed.
func deviceClosed(f *Facts) { f.Node.Taint = f.Operation.ID }

// placeholder makes the pod of a component one in which nothing runs.
func placeholder(component string) func(*Facts) {
	return func(f *Facts) { pod(f, component).Placeholder, pod(f, component).Available = true, true }
}

// leavesBefore lets a DaemonSet leave before the target of the driver; gone, it does not exist any more.
func leavesBefore(gone bool, old *Pod) func(*Facts) {
	return func(f *Facts) {
		i := slices.IndexFunc(f.Wanted.Targets, func(t topsv1.OperationTarget) bool { return t.Component == "driver" })
		f.Wanted = f.Wanted.DeepCopy()
		f.Wanted.Targets[i].Leaving = []topsv1.DaemonSetRevision{{DaemonSet: topsv1.NamespacedRef{Namespace: "ns", Name: "old", UID: "old"}, Revision: "gated"}}
		if !gone {
			f.Members = append(slices.Clone(f.Members), Member{Component: "driver", DaemonSet: "ns/old", UID: "old", Newest: "gated", Leaving: true, Pod: old})
		}
	}
}

func TestAComponentLeavesBeforeAnotherComes(t *testing.T) {
	old := func(revision string) *Pod {
		return &Pod{NamedPod: topsv1.NamedPod{NamespacedRef: topsv1.NamespacedRef{Namespace: "ns", Name: "old-pod", UID: "old-pod"}, ResourceVersion: "1"}, Revision: revision, Available: true}
	}
	stopped := func(f *Facts) {
		deviceClosed(f)
		pod(f, "exporter").Placeholder = true
		f.Members = slices.DeleteFunc(slices.Clone(f.Members), func(m Member) bool { return m.Component != "driver" && m.Component != "exporter" })
	}
	tests := []struct {
		name  string
		edits []func(*Facts)
		want  string
	}{
		{"users of the device are stopped", []func(*Facts){deviceClosed}, "Running driver_replace DeviceInUse DeletePod DeletePod"},
		{"but a placeholder uses nothing", []func(*Facts){deviceClosed, placeholder("exporter"), stopped}, "Running driver_replace InProgress DeletePod"},
		{"the pod that leaves goes first", []func(*Facts){stopped, leavesBefore(false, old("v1"))}, "Running driver_replace InProgress DeletePod"},
		{"and the other one when it has left", []func(*Facts){stopped, leavesBefore(false, old("gated"))}, "Running driver_replace InProgress DeletePod"},
		{"also when its DaemonSet is gone", []func(*Facts){stopped, leavesBefore(true, nil)}, "Running driver_replace InProgress DeletePod"},
	}
	deleted := map[int]string{2: "old-pod"}
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := reach(t, "driver_replace", driverOnly...)
			for _, edit := range tt.edits {
				edit(&f)
			}
			d := newMachine(t).Next(f)
			if got := summaryOf(d); got != tt.want {
				t.Fatalf("decided %q, want %q", got, tt.want)
			}
			if name := d.Effects[0].Pod.Name; i >= 2 && (name == "old-pod") != (deleted[i] == "old-pod") {
				t.Errorf("pod %s is deleted", name)
			}
		})
	}
}

func TestADriverThatLeftIsDone(t *testing.T) {
	f := reach(t, "driver_replace", driverOnly...)
	for i := range f.Members {
		if m := &f.Members[i]; m.Component == "driver" {
			m.Leaving, m.Pod = true, nil
		}
	}
	d := newMachine(t).Next(f)
	if task := d.Record.Operation.Task; task == theNode+"_driver_replace" {
		t.Errorf("the operation is at %s: %s", task, summaryOf(d))
	}
}
