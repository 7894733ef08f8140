package plan

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcuresource/state"
	"github.com/topsops/gcu-operator/test/world"
)

func TestWhatNeedsAnApply(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(live *metav1.PartialObjectMetadata, last *state.Applied)
		want   bool
	}{
		{"nothing changed", func(*metav1.PartialObjectMetadata, *state.Applied) {}, false},
		{"a status write raises only the resourceVersion", func(l *metav1.PartialObjectMetadata, _ *state.Applied) { l.ResourceVersion = "99" }, false},
		{"the cache has not seen our last apply", func(_ *metav1.PartialObjectMetadata, a *state.Applied) { a.Generation = 2 }, false},
		{"somebody changed the spec", func(l *metav1.PartialObjectMetadata, _ *state.Applied) { l.Generation = 2 }, true},
		{"somebody changed an annotation of ours", func(l *metav1.PartialObjectMetadata, _ *state.Applied) {
			l.Annotations = map[string]string{topsv1.AnnotationOrder: "99"}
		}, true},
		{"somebody added an annotation", func(l *metav1.PartialObjectMetadata, _ *state.Applied) { l.Annotations["x"] = "y" }, false},
		{"somebody took a label of ours", func(l *metav1.PartialObjectMetadata, _ *state.Applied) { l.Labels = nil }, true},
		{"something else is to be applied", func(_ *metav1.PartialObjectMetadata, a *state.Applied) { a.Hash = "other" }, true},
		{"the object is another one", func(l *metav1.PartialObjectMetadata, _ *state.Applied) { l.UID = "another" }, true},
		{"a kind without generation changed", func(l *metav1.PartialObjectMetadata, a *state.Applied) {
			a.Generation, l.Generation, l.ResourceVersion = 0, 0, "99"
		}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			obs := world.New(t, world.NewGR(topsv1.GcuResourceSpec{Driver: &topsv1.BaseFields{}}), 1)
			obs.Run("driver")
			c := obs.Component("driver")
			d := c.Objects[0]
			live := d.Ref.Metadata()
			live.Labels, live.Annotations, live.OwnerReferences = d.Object.GetLabels(), d.Object.GetAnnotations(), d.Object.GetOwnerReferences()
			live.UID, live.Generation, live.ResourceVersion = "u", 1, "5"
			last := state.Applied{Hash: d.Hash, Generation: 1, ResourceVersion: "5"}
			tc.change(live, &last)
			obs.Applied["u"] = last
			if got := !upToDate(&d, live, obs.Applied); got != tc.want {
				t.Errorf("needs an apply: got %v, want %v", got, tc.want)
			}
		})
	}
}
