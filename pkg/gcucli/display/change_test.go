package display

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

func TestChangesAreNamedFieldByField(t *testing.T) {
	from := &topsv1.GcuResourceSpec{
		Driver:   &topsv1.BaseFields{Version: "1.0", NodeSelector: map[string]string{"a": "1"}},
		Exporter: &topsv1.BaseFields{Image: "same"},
	}
	from.Driver.Env = envOf("A", "1", "B", "2")
	to := from.DeepCopy()
	to.Driver.Version, to.Driver.NotDeploy = "1.1", true
	to.Driver.NodeSelector["a"] = "2"
	to.Driver.Env = envOf("B", "3", "A", "1")
	to.Exporter = nil
	to.GFD = &topsv1.BaseFields{Version: "2"}
	changes, err := ChangesOf(from, to)
	if err != nil {
		t.Fatal(err)
	}
	want := `driver.env.B.value: 2 -> 3
driver.nodeSelector.a: 1 -> 2
driver.notDeploy: false -> true
driver.version: 1.0 -> 1.1
exporter: {"image":"same","notDeploy":false} -> unset
gfd: unset -> {"notDeploy":false,"version":"2"}
`
	if diff := cmp.Diff(want, ChangesText(changes, "")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if none, err := ChangesOf(from, from.DeepCopy()); err != nil || len(none) != 0 {
		t.Errorf("the same spec has changes %v, %v", none, err)
	}
}
