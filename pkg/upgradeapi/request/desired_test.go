package request

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

func TestAnUpgradeInPlaceKeepsWhatIsNoPartOfIt(t *testing.T) {
	present := &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: "x", UID: "u", Labels: map[string]string{"a": "b"}},
		Spec: topsv1.GcuResourceSpec{Driver: &topsv1.BaseFields{Version: "1"}, GFD: &topsv1.BaseFields{}}}
	tests := []struct {
		name               string
		has, adds, results map[string]string
	}{
		{"without a strategy the fleet is rolled", nil, nil, map[string]string{topsv1.AnnotationUpdateStrategy: "AdvancedRollingUpdate"}},
		{"a strategy stays", map[string]string{topsv1.AnnotationUpdateStrategy: "OTA"}, nil, map[string]string{topsv1.AnnotationUpdateStrategy: "OTA"}},
		{"one of OpenYurt's too", map[string]string{topsv1.OpenYurtAnnotationUpdateStrategy: "OTA"}, nil, map[string]string{topsv1.OpenYurtAnnotationUpdateStrategy: "OTA"}},
		{"a bad one too: it is said, not mended", map[string]string{topsv1.AnnotationUpdateStrategy: ""}, nil, map[string]string{topsv1.AnnotationUpdateStrategy: ""}},
		{"a pause stays", map[string]string{topsv1.AnnotationPaused: "true", "note": "x"}, nil,
			map[string]string{topsv1.AnnotationPaused: "true", "note": "x", topsv1.AnnotationUpdateStrategy: "AdvancedRollingUpdate"}},
		{"a plan and a limit end", map[string]string{topsv1.AnnotationUpgradePlan: "mission", topsv1.AnnotationUpgradeOnly: "nodes=a"}, nil,
			map[string]string{topsv1.AnnotationUpdateStrategy: "AdvancedRollingUpdate"}},
		{"a blueprint that was read while a plan was followed follows none", map[string]string{topsv1.AnnotationUpgradePlan: "mission"}, map[string]string{topsv1.AnnotationUpgradePlan: "mission"},
			map[string]string{topsv1.AnnotationUpdateStrategy: "AdvancedRollingUpdate"}},
		{"the blueprint's settings win, its other annotations are not taken", map[string]string{topsv1.AnnotationMaxUnavailable: "1"},
			map[string]string{topsv1.AnnotationMaxUnavailable: "2", topsv1.AnnotationUpdateStrategy: "OTA", "note": "x", topsv1.AnnotationRollbackTo: "previous"},
			map[string]string{topsv1.AnnotationMaxUnavailable: "2", topsv1.AnnotationUpdateStrategy: "OTA"}},
		{"a setting of the blueprint is not hidden by another key of it", map[string]string{topsv1.AnnotationUpdateStrategy: "AdvancedRollingUpdate", topsv1.AnnotationMaxUnavailable: "1"},
			map[string]string{topsv1.OpenYurtAnnotationUpdateStrategy: "OTA", topsv1.OpenYurtAnnotationMaxUnavailable: "2"},
			map[string]string{topsv1.OpenYurtAnnotationUpdateStrategy: "OTA", topsv1.OpenYurtAnnotationMaxUnavailable: "2"}},
		{"the other key of a setting goes, that of another setting stays", map[string]string{topsv1.OpenYurtAnnotationUpdateStrategy: "OTA", topsv1.OpenYurtAnnotationMaxUnavailable: "2"},
			map[string]string{topsv1.AnnotationUpdateStrategy: "OTA"},
			map[string]string{topsv1.AnnotationUpdateStrategy: "OTA", topsv1.OpenYurtAnnotationMaxUnavailable: "2"}},
	}
	for _, tt := range tests {
		before := present.DeepCopy()
		before.Annotations = tt.has
		kept := before.DeepCopy()
		blueprint := &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: "x", Labels: map[string]string{"c": "d"}, Annotations: tt.adds},
			Spec: topsv1.GcuResourceSpec{Driver: &topsv1.BaseFields{Version: "2"}}}
		want := before.DeepCopy()
		want.Annotations, want.Spec = tt.results, blueprint.Spec
		if diff := cmp.Diff(want, upgraded(before, blueprint)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
		if diff := cmp.Diff(kept, before); diff != "" {
			t.Errorf("%s: what was read is changed:\n%s", tt.name, diff)
		}
	}
}

// A gr that is created again follows no plan, which belongs to the gr that is deleted, and has no limit.
func TestARecreatedGrIsUpgradedWhole(t *testing.T) {
	present := &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: "gpu", Annotations: map[string]string{
		topsv1.AnnotationUpgradePlan: "plan", topsv1.AnnotationUpgradeOnly: "nodes=a", topsv1.AnnotationUpdateStrategy: "OTA"}}}
	for _, whole := range []bool{false, true} {
		made := (&Desired{Blueprint: present.DeepCopy(), whole: whole}).Recreated(present)
		if diff := cmp.Diff(map[string]string{topsv1.AnnotationUpdateStrategy: "OTA"}, made.Annotations); diff != "" {
			t.Errorf("of a whole blueprint: %t (-want +got):\n%s", whole, diff)
		}
	}
}
