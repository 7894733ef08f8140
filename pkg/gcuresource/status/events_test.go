package status

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
	"github.com/topsops/gcu-operator/pkg/gcuresource/state"
	"github.com/topsops/gcu-operator/test/world"
)

func TestEventsAreSentForChangesOnly(t *testing.T) {
	gr := world.NewGR(topsv1.GcuResourceSpec{GFD: &topsv1.BaseFields{}, Exporter: &topsv1.BaseFields{}})
	obs := world.New(t, gr, 1)
	obs.Component("gfd").Failure = &state.Failure{Reason: state.ReasonApplyFailed, Message: "no"}
	first := next(obs)
	want := []Event{{"Normal", "Failed", "gfd: no"}, {"Warning", "ApplyFailed", "gfd: no"}}
	if diff := cmp.Diff(want, Events(&topsv1.GcuResourceStatus{}, &first)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	obs.Run("exporter")
	second := next(obs)
	if got := Events(&first, &second); got != nil {
		t.Errorf("neither phase nor cause changed, but %v", got)
	}
}

// The pods of a DaemonSet go with it on all nodes, which is said until its deletion was requested, or
// leave one by one, which is said once; other objects have no event.
func TestRemovals(t *testing.T) {
	ref := component.Ref{GroupVersionKind: component.DaemonSetKind, Namespace: "kube-system", Name: "old-driver"}
	leaving := &appsv1.DaemonSet{}
	leaving.Spec.Template.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: topsv1.GateRemoved}}
	got := RemovalsAtOnce([]state.Owned{
		{Ref: ref, Component: component.Driver, DaemonSet: &appsv1.DaemonSet{}, Nodes: []string{"n1"}},
		{Ref: ref, Component: component.Driver, DaemonSet: &appsv1.DaemonSet{}, Nodes: []string{"n1"}, Deleting: true},
		{Ref: ref, Component: component.Driver, DaemonSet: leaving},
		{Ref: component.Ref{GroupVersionKind: component.DeploymentKind, Namespace: "volcano-system", Name: "volcano-scheduler"}, Component: component.Volcano},
	})
	got = append(got, RemovalsNodeByNode([]*state.Owned{
		{Ref: ref, Component: component.Driver, DaemonSet: &appsv1.DaemonSet{}}, {Ref: ref, Component: component.Driver, DaemonSet: leaving}})...)
	want := []Event{
		{corev1.EventTypeWarning, "RemovedAtOnce", "the spec no longer includes DaemonSet kube-system/old-driver of component driver: " +
			"it is deleted with its pods on all nodes at once, bypassing budget, waves, window, approval and drain"},
		{corev1.EventTypeNormal, "RemovedNodeByNode", "the spec no longer includes DaemonSet kube-system/old-driver of component driver: its pods leave node by node, like outdated ones"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
