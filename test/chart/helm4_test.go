package chart

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
)

// kubernetes4 is the version of Kubernetes for Helm 4.
var kubernetes4 = common.KubeVersion{Version: kubernetes3.Version, Major: kubernetes3.Major, Minor: kubernetes3.Minor}

// tryRender4 is tryRender with Helm 4.
func tryRender4(t *testing.T, values string) ([]object, error) {
	t.Helper()
	loaded, err := loader.Load(chartPath)
	check(t, err)
	given, err := common.ReadValues([]byte(values))
	check(t, err)
	capabilities := common.DefaultCapabilities.Copy()
	capabilities.KubeVersion = kubernetes4
	all, err := util.ToRenderValues(loaded, given, common.ReleaseOptions{Name: "gcu-operator", Namespace: "kube-system", Revision: 1, IsInstall: true}, capabilities)
	if err != nil {
		return nil, err
	}
	files, err := engine.Render(loaded, all)
	if err != nil {
		return nil, err
	}
	return objectsOf(t, files), nil
}

// TestHelm4RendersTheSame: the golden files, which Helm 3 renders, are those of Helm 4 too, and it finds nothing to lint.
func TestHelm4RendersTheSame(t *testing.T) {
	for name, values := range sets {
		rendered, err := tryRender4(t, values)
		check(t, err)
		if diff := cmp.Diff(render(t, values), rendered); diff != "" {
			t.Errorf("%s: Helm 3 (-) and Helm 4 (+) differ:\n%s", name, diff)
		}
		given, err := common.ReadValues([]byte(values))
		check(t, err)
		for _, m := range lint.RunAll(chartPath, given, "kube-system", lint.WithKubeVersion(&kubernetes4)).Messages {
			if m.Severity > support.InfoSev {
				t.Errorf("with %s: %s", name, m)
			}
		}
	}
}
