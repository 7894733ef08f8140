package inquiry

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// A node in flight goes on with what it began, so a plan cannot have it: whoever reads the plan is told.
//
// Contract 96.
func TestAPlanWrittenInMidRolloutNamesTheNodesInFlight(t *testing.T) {
	first, second := gr(nil), gr(func(s *topsv1.GcuResourceSpec) { s.Exporter.Version = "2" })
	third := gr(func(s *topsv1.GcuResourceSpec) { s.Exporter.Version = "3" })
	const exporter = "enflame-gcu-exporter"
	dro := &topsv1.DaemonRollout{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "fleet"}}
	dro.Spec.TargetRef.Kind, dro.Spec.TargetRef.Name = topsv1.GcuResourceKind, "fleet"
	dro.Status.InFlight = []topsv1.NodeSlot{{Node: "b", UID: types.UID("b"), PodUID: types.UID(exporter + "b"), Since: metav1.NewTime(epoch)}}
	a := site(t, first, second, dro)
	if err := a.Reader.(client.Client).Delete(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: exporter + "-b"}}); err != nil {
		t.Fatal(err)
	}
	plan, wrong, err := a.PlanFile(t.Context(), second, third)
	if err != nil || wrong != "" {
		t.Fatal(wrong, err)
	}
	if b := plan.Spec.Batches; len(b) != 1 || len(b[0].Jobs) != 1 || strings.Join(b[0].Jobs[0].Nodes, ",") != "a" ||
		plan.Annotations[topsv1.AnnotationInFlight] != "not in this plan: 1 node in flight: b" {
		t.Errorf("the plan is %+v, %v", plan.Spec.Batches, plan.Annotations)
	}
	_, wrong, err = a.PlanFile(t.Context(), second, second)
	if want := "gr fleet has 1 node in flight: b; no other node can be planned: wait for it, and write the plan then"; err != nil || wrong != want {
		t.Errorf("got %q, %v, want %q", wrong, err, want)
	}
	plan, wrong, err = site(t, first, second).PlanFile(t.Context(), second, third)
	if err != nil || wrong != "" || len(plan.Annotations) != 0 {
		t.Errorf("without nodes in flight: %s, %v, %v", wrong, err, plan)
	}
}
