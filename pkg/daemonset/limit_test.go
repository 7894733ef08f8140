package daemonset

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

func TestLimitOf(t *testing.T) {
	for value, want := range map[string]*Limit{
		"nodes=a,b":                      {Nodes: []string{"a", "b"}},
		"components=driver,devicePlugin": {Components: []string{"driver", "devicePlugin"}},
		"components=plugin":              {Components: []string{"devicePlugin"}},
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
		limit, err := LimitOf(map[string]string{topsv1.AnnotationUpgradeOnly: value})
		if (err == nil) != (want != nil) {
			t.Errorf("%q: error is %v", value, err)
		}
		if diff := cmp.Diff(want, limit); diff != "" {
			t.Errorf("%q (-want +got):\n%s", value, diff)
		}
	}
	if limit, err := LimitOf(nil); limit != nil || err != nil {
		t.Errorf("without the annotation: %v, %v", limit, err)
	}
}

func TestWhatIsInALimit(t *testing.T) {
	var everything *Limit
	if !everything.HasNode("a") || !everything.HasComponent("driver") || everything.String() != "" {
		t.Error("no limit leaves something out")
	}
	limit := &Limit{Nodes: []string{"a"}, Components: []string{"driver"}}
	if !limit.HasNode("a") || limit.HasNode("b") || !limit.HasComponent("driver") || limit.HasComponent("exporter") {
		t.Error("the limit is not what it says")
	}
	if again, err := LimitOf(map[string]string{topsv1.AnnotationUpgradeOnly: limit.String()}); err != nil || !cmp.Equal(limit, again) {
		t.Errorf("%q is read as %v, %v", limit, again, err)
	}
}
