package chart

import (
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/action"
	helmchart "helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	kubefake "helm.sh/helm/v3/pkg/kube/fake"
	"helm.sh/helm/v3/pkg/storage"
	memory "helm.sh/helm/v3/pkg/storage/driver"
)

// digest is that of the image of a release.
func digest(version string) string { return "@sha256:" + strings.Repeat(version[1:2], 64) }

// released returns the chart as a release has it.
func released(t *testing.T, version string) *helmchart.Chart {
	t.Helper()
	c, err := loader.Load(chartPath)
	check(t, err)
	c.Metadata.Version, c.Metadata.AppVersion = version[1:], version
	c.Metadata.Annotations["topsops.enflame.com/image"] = "artifact.enflame.cn/enflame_docker_images/enflame/gcu-operator:" + version + digest(version)
	return c
}

// operators returns the images of the operator in manifests, without duplicates.
func operators(manifests string) []string {
	var found []string
	for _, match := range regexp.MustCompile(`image: "(\S+/gcu-operator:\S+)"\n`).FindAllStringSubmatch(manifests, -1) {
		found = append(found, match[1])
	}
	slices.Sort(found)
	return slices.Compact(found)
}

func TestTheDigestIsThatOfTheReleasedImage(t *testing.T) {
	const image = "artifact.enflame.cn/enflame_docker_images/enflame/gcu-operator:"
	own := "@sha256:" + strings.Repeat("f", 64)
	for values, want := range map[string]string{
		"":                                image + "v1.0.0" + digest("v1.0.0"),
		"image: {tag: v1.0.0}":            image + "v1.0.0" + digest("v1.0.0"),
		"image: {tag: v1.0}":              image + "v1.0",
		"image: {repository: own.test/x}": "own.test/x/gcu-operator:v1.0.0",
		"image: {repository: '[fd00::1]:5000/x'}":                       "[fd00::1]:5000/x/gcu-operator:v1.0.0",
		"global: {registry: '[fd00::1]'}":                               "[fd00::1]/enflame_docker_images/enflame/gcu-operator:v1.0.0" + digest("v1.0.0"),
		"global: {registry: mirror.test}":                               "mirror.test/enflame_docker_images/enflame/gcu-operator:v1.0.0" + digest("v1.0.0"),
		"global: {registry: mirror.test}\nimage: {digest: none}":        "mirror.test/enflame_docker_images/enflame/gcu-operator:v1.0.0",
		"image: {repository: own.test, digest: '" + own[1:] + "'}":      "own.test/gcu-operator:v1.0.0" + own,
		"image: {tag: v2, digest: none}\nhooks: {timeoutSeconds: 60}\n": image + "v2",
	} {
		given, err := chartutil.ReadValues([]byte(values))
		check(t, err)
		install := action.NewInstall(cluster())
		install.ReleaseName, install.Namespace = "gcu-operator", "kube-system"
		r, err := install.Run(released(t, "v1.0.0"), given)
		check(t, err)
		manifests := r.Manifest
		for _, hook := range r.Hooks {
			manifests += hook.Manifest
		}
		if got := operators(manifests); !slices.Equal(got, []string{want}) {
			t.Errorf("%q: %v, want %s", values, got, want)
		}
	}
}

// TestAnUpgradeRunsTheImageOfItsChart: also when helm takes the values of the release before, its defaults included.
func TestAnUpgradeRunsTheImageOfItsChart(t *testing.T) {
	c := cluster()
	install := action.NewInstall(c)
	install.ReleaseName, install.Namespace = "gcu-operator", "kube-system"
	_, err := install.Run(released(t, "v1.0.0"), map[string]any{"replicaCount": 2})
	check(t, err)
	upgrade := action.NewUpgrade(c)
	upgrade.Namespace, upgrade.ReuseValues = "kube-system", true
	r, err := upgrade.Run("gcu-operator", released(t, "v2.0.0"), nil)
	check(t, err)
	want := []string{"artifact.enflame.cn/enflame_docker_images/enflame/gcu-operator:v2.0.0" + digest("v2.0.0")}
	if got := operators(r.Manifest); !slices.Equal(got, want) || !strings.Contains(r.Manifest, "replicas: 2\n") {
		t.Errorf("it runs %v, want %v and two replicas", got, want)
	}
}

// cluster is what helm's actions are tried on: one that accepts all.
func cluster() *action.Configuration {
	capabilities := chartutil.DefaultCapabilities.Copy()
	capabilities.KubeVersion = kubernetes3
	return &action.Configuration{Releases: storage.Init(memory.NewMemory()), KubeClient: &kubefake.PrintingKubeClient{Out: io.Discard},
		Capabilities: capabilities, Log: func(string, ...any) {}}
}
