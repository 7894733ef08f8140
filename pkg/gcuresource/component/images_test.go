package component

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

func TestImagesAreThoseOfAllPods(t *testing.T) {
	gr := &topsv1.GcuResource{Spec: topsv1.GcuResourceSpec{
		NFD:         &topsv1.NFDSpec{},
		GFD:         &topsv1.BaseFields{Repository: "mirror.example.com/gcu", Image: "gfd", Version: "v2"},
		Driver:      &topsv1.BaseFields{NotDeploy: true},
		Nightingale: &topsv1.NightingaleSpec{},
	}}
	got, err := Images(gr)
	if err != nil {
		t.Fatal(err)
	}
	const enflame = "artifact.enflame.cn/enflame_docker_images/enflame/"
	var names []string
	for _, image := range got {
		name, _, _ := strings.Cut(strings.TrimPrefix(image, enflame), ":")
		names = append(names, name)
	}
	if want := []string{"ibex", "mysql", "nightingale", "node-feature-discovery", "prometheus", "redis", "mirror.example.com/gcu/gfd"}; cmp.Diff(want, names) != "" {
		t.Error(cmp.Diff(want, names))
	}
}
