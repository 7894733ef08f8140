package daemonset

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

func TestCutOf(t *testing.T) {
	for value, want := range map[string]*Cut{
		"nodes=a,b":                      {Nodes: []string{"a", "b"}},
		"components=driver,devicePlugin": {Components: []string{"driver", "devicePlugin"}},
		"nodes=a; components=driver":     {Nodes: []string{"a"}, Components: []string{"driver"}},
		" components = driver":           nil,
		"":                               nil,
		"nodes=":                         nil,
		"nodes=a,,b":                     nil,
		"nodes=a;nodes=b":                nil,
		"nodes=a;pods=b":                 nil,
		"all":                            nil,
		"nodes=../a":                     nil,
	} {
		cut, err := CutOf(map[string]string{topsv1.AnnotationUpgradeOnly: value})
		if (err == nil) != (want != nil) {
			t.Errorf("%q: error is %v", value, err)
		}
		if diff := cmp.Diff(want, cut); diff != "" {
			t.Errorf("%q (-want +got):\n%s", value, diff)
		}
	}
	if cut, err := CutOf(nil); cut != nil || err != nil {
		t.Errorf("without the annotation: %v, %v", cut, err)
	}
}

func TestWhatIsInACut(t *testing.T) {
	var everything *Cut
	if !everything.HasNode("a") || !everything.HasComponent("driver") || everything.String() != "" {
		t.Error("no cut leaves something out")
	}
	cut := &Cut{Nodes: []string{"a"}, Components: []string{"driver"}}
	if !cut.HasNode("a") || cut.HasNode("b") || !cut.HasComponent("driver") || cut.HasComponent("exporter") {
		t.Error("the cut is not what it says")
	}
	if again, err := CutOf(map[string]string{topsv1.AnnotationUpgradeOnly: cut.String()}); err != nil || !cmp.Equal(cut, again) {
		t.Errorf("%q is read as %v, %v", cut, again, err)
	}
}
