package component

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// A DaemonSet that leaves follows the upgrade settings of its gr: as long as it has others, it has to
// be written again.
func TestADaemonSetDepartsUnderTheSettingsOfItsGr(t *testing.T) {
	leaving := func(annotations map[string]string) *appsv1.DaemonSet {
		ds := &appsv1.DaemonSet{}
		ds.Annotations = annotations
		ds.Spec.Template.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: topsv1.GateRemoved}}
		return ds
	}
	gr := &topsv1.GcuResource{}
	gr.Annotations = map[string]string{topsv1.AnnotationUpdateStrategy: "OTA", topsv1.AnnotationMaxUnavailable: "1", "note": "of a person"}
	same := map[string]string{topsv1.AnnotationUpdateStrategy: "OTA", topsv1.AnnotationMaxUnavailable: "1"}
	for _, tt := range []struct {
		name string
		ds   *appsv1.DaemonSet
		want bool
	}{
		{"with its settings", leaving(same), true},
		{"not with another strategy", leaving(map[string]string{topsv1.AnnotationUpdateStrategy: "AdvancedRollingUpdate", topsv1.AnnotationMaxUnavailable: "1"}), false},
		{"not without one of them", leaving(map[string]string{topsv1.AnnotationUpdateStrategy: "OTA"}), false},
		{"not with one that the gr no longer has", leaving(map[string]string{topsv1.AnnotationUpdateStrategy: "OTA", topsv1.AnnotationMaxUnavailable: "1", topsv1.AnnotationPaused: "true"}), false},
		{"not one that stays", &appsv1.DaemonSet{ObjectMeta: leaving(same).ObjectMeta}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := IsLeavingUnder(gr, tt.ds); got != tt.want {
				t.Errorf("it departs: %t, want %t", got, tt.want)
			}
		})
	}
}

// A successor keeps its template, which keeps its pods apart from those of its predecessors, when these are gone: another
// one would replace all its pods again.
func TestASuccessorStaysAsItIsWhenItsPredecessorIsGone(t *testing.T) {
	d := Desired{Object: &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"name": "new", "annotations": map[string]any{"a": "b"}},
		"spec":     map[string]any{"template": map[string]any{"spec": map[string]any{}}},
	}}}
	first, err := WithAntiAffinity(d, nil, []string{"kube-system/old"})
	if err != nil {
		t.Fatal(err)
	}
	live := &appsv1.DaemonSet{}
	live.Annotations = first.Object.GetAnnotations()
	if live.Annotations[topsv1.AnnotationSuccessorOf] == "" {
		t.Fatalf("no trace of the predecessor: %+v", first.Object)
	}
	then, err := WithAntiAffinity(d, live, nil)
	if err != nil || then.Hash != first.Hash {
		t.Errorf("another template, of hash %q, %v", then.Hash, err)
	}
}
