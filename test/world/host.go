package world

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcuresource/state"
)

// Reported is the NodeUpgrade of a node with a driver, eight cards and the enflame runtime.
func Reported(node string, changes ...func(*topsv1.NodeUpgrade)) *topsv1.NodeUpgrade {
	u := &topsv1.NodeUpgrade{ObjectMeta: metav1.ObjectMeta{Name: node}, Status: topsv1.NodeUpgradeStatus{Host: &topsv1.HostReport{
		Time: metav1.NewTime(Noon), DriverVersion: "1.0.0", Devices: ptr.To[int32](8),
		Runtime: &topsv1.RuntimeReport{Engine: "docker", Default: topsv1.DefaultRuntime}}}}
	for _, change := range changes {
		change(u)
	}
	return u
}

// Runc is a host whose container engine has not been restarted since the toolkit configured it.
func Runc(u *topsv1.NodeUpgrade) { u.Status.Host.Runtime.Default = "runc" }

// NoDriver is a host without a loaded driver, and so without device nodes.
func NoDriver(u *topsv1.NodeUpgrade) {
	u.Status.Host.DriverVersion, u.Status.Host.Devices = "", ptr.To[int32](0)
}

// Operates lets the last operation of the node be in a phase.
func Operates(phase topsv1.OperationPhase, reason, message string) func(*topsv1.NodeUpgrade) {
	return func(u *topsv1.NodeUpgrade) {
		u.Status.Operation = &topsv1.OperationStatus{ID: "op", Phase: phase, Granted: true, Reason: reason, Message: message}
	}
}

// Ungranted is an operation that may not touch the node yet.
func Ungranted(u *topsv1.NodeUpgrade) { u.Status.Operation.Granted = false }

// Report lets the node agent of a node report.
func (w *World) Report(node string, changes ...func(*topsv1.NodeUpgrade)) {
	hosts := map[string]state.Host{}
	maps.Copy(hosts, w.Hosts)
	hosts[node] = state.HostOf(Reported(node, changes...))
	w.Hosts = hosts
}

// Offer lets a node have an extended resource.
func (w *World) Offer(node string, name corev1.ResourceName, count string) {
	w.Node(node).Status.Allocatable = corev1.ResourceList{name: resource.MustParse(count)}
}
