package chart

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
	helmchart "helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// kubernetes3 is the version of Kubernetes for Helm 3.
var kubernetes3 = chartutil.KubeVersion{Version: "v1.36.0", Major: "1", Minor: "36"}

var (
	root      = filepath.Join("..", "..")
	chartPath = filepath.Join(root, "charts", "gcu-operator")
)

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// object is a rendered object.
type object map[string]any

func (o object) name() string {
	metadata := o["metadata"].(map[string]any)
	namespace, _ := metadata["namespace"].(string)
	return fmt.Sprintf("%s %s/%s", o["kind"], namespace, metadata["name"])
}

// isHook reports whether helm treats an object as a hook, which is no part of the release.
func (o object) isHook() bool {
	annotations, _ := o["metadata"].(map[string]any)["annotations"].(map[string]any)
	return annotations["helm.sh/hook"] != nil
}

// parse returns the objects of documents, in their order.
func parse(t *testing.T, text string) []object {
	t.Helper()
	var objects []object
	decoder := yaml.NewDecoder(strings.NewReader(text))
	for {
		var o map[string]any
		if err := decoder.Decode(&o); err != nil {
			if err.Error() != "EOF" {
				t.Fatalf("%v in\n%s", err, text)
			}
			return objects
		}
		if o != nil {
			objects = append(objects, o)
		}
	}
}

// render renders the chart with values in YAML.
func render(t *testing.T, values string) []object {
	t.Helper()
	objects, err := tryRender(t, values)
	check(t, err)
	return objects
}

func tryRender(t *testing.T, values string) ([]object, error) {
	t.Helper()
	loaded, err := loader.Load(chartPath)
	check(t, err)
	return renderChart(t, loaded, values)
}

func renderChart(t *testing.T, loaded *helmchart.Chart, values string) ([]object, error) {
	t.Helper()
	given, err := chartutil.ReadValues([]byte(values))
	check(t, err)
	capabilities := chartutil.DefaultCapabilities.Copy()
	capabilities.KubeVersion = kubernetes3
	all, err := chartutil.ToRenderValues(loaded, given, chartutil.ReleaseOptions{Name: "gcu-operator", Namespace: "kube-system", Revision: 1, IsInstall: true}, capabilities)
	if err != nil {
		return nil, err
	}
	files, err := engine.Render(loaded, all)
	if err != nil {
		return nil, err
	}
	return objectsOf(t, files), nil
}

func objectsOf(t *testing.T, files map[string]string) []object {
	t.Helper()
	var objects []object
	for file, text := range files {
		if strings.HasSuffix(file, ".yaml") {
			objects = append(objects, parse(t, text)...)
		}
	}
	slices.SortFunc(objects, func(a, b object) int { return strings.Compare(a.name(), b.name()) })
	return objects
}

// byName returns objects by their names, which are unique.
func byName(t *testing.T, objects []object) map[string]object {
	t.Helper()
	found := map[string]object{}
	for _, o := range objects {
		if found[o.name()] != nil {
			t.Errorf("%s is there twice", o.name())
		}
		found[o.name()] = o
	}
	return found
}

// kustomized returns what kubectl apply -k applies.
func kustomized(t *testing.T, folder string) []object {
	t.Helper()
	rendered, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), filepath.Join(root, folder))
	check(t, err)
	text, err := rendered.AsYaml()
	check(t, err)
	return parse(t, string(text))
}

// TestChartAndKustomizeRenderTheSameObjects compares the chart with its default values, and with those of optional parts, with config/.
func TestChartAndKustomizeRenderTheSameObjects(t *testing.T) {
	for _, c := range []struct {
		name, values string
		folders      []string
	}{
		{"everything", "", []string{"config/default"}},
		{"with the rights of volcano", "volcano: {rights: true}", []string{"config/default", "config/volcano"}},
		{"with the gate", "gate: {enabled: true}", []string{"config/default", "config/gate"}},
		{"with the webhook", "admissionWebhook: {enabled: true}", []string{"test/chart/testdata/webhook"}},
		{"without authentication", "restAPI: {auth: none}", []string{"config/default", "config/rest-api"}},
		{"without admission policies", "admissionPolicies: {enabled: false}", []string{"config/crd", "config/rbac", "config/manager", "config/node-agent"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var want []object
			for _, folder := range c.folders {
				want = append(want, kustomized(t, folder)...)
			}
			got := slices.DeleteFunc(render(t, c.values), object.isHook)
			for _, o := range got {
				if o["kind"] == "CustomResourceDefinition" {
					annotations := o["metadata"].(map[string]any)["annotations"].(map[string]any)
					if annotations["helm.sh/resource-policy"] != "keep" {
						t.Errorf("%s goes with the chart, and all its objects", o.name())
					}
					delete(annotations, "helm.sh/resource-policy")
				}
			}
			rendered, applied := byName(t, got), byName(t, want)
			if c.name == "without authentication" || c.name == "with the gate" {
				delete(rendered, "Deployment kube-system/gcu-operator") // has the flags of the values
				delete(applied, "Deployment kube-system/gcu-operator")
			}
			if diff := cmp.Diff(applied, rendered); diff != "" {
				t.Errorf("config/ (-) and the chart (+) differ:\n%s", diff)
			}
		})
	}
}

// sets are the values of the golden files.
var sets = map[string]string{
	"default":       "",
	"deploy":        "gcuResource: {deploy: true}",
	"deploy-driver": "gcuResource: {deploy: true, name: mine, driver: {notDeploy: false}, annotations: {topsops.enflame.com/update-strategy: OTA}, spec: {gfd: {notDeploy: true}}}",
	"mirror": "global: {registry: 'mirror.example.com:5000', imagePullSecrets: [{name: all}]}\nimagePullSecrets: [{name: pull}]\n" +
		"image: {tag: v1.2.3, digest: 'sha256:1111111111111111111111111111111111111111111111111111111111111111', pullPolicy: Always}\ngcuResource: {deploy: true, spec: {gfd: {repository: own.example.com/gcu}}}",
	"proxy":    "proxy: {http: 'http://proxy:3128', https: 'http://proxy:3128', noProxy: '10.96.0.1,.svc'}",
	"replicas": "replicaCount: 2\nautoscaling: {enabled: true, minReplicas: 2, maxReplicas: 3}",
	"placed": "nodeSelector: {zone: a}\ntolerations: [{key: infra, operator: Exists}]\naffinity: {podAntiAffinity: {}}\nresources: {limits: {memory: 1Gi}}\n" +
		"nodeAgent: {nodeSelector: {pool: gcu}, resources: {limits: {memory: 1Gi}}, args: ['--ota-bind-address=127.0.0.1:10367'], otaSocketGroup: 1000000, seeDeviceHolders: true}",
	"monitored": "metrics: {readers: [{namespace: monitoring, name: prometheus}], serviceMonitor: {enabled: true, labels: {release: prometheus}}, podMonitor: {enabled: true}, prometheusRule: {enabled: true}}",
	"notified":  "notifications: {url: 'https://example.com/hook', secretName: gcu-notify, caKey: ca.crt}",
	"rest-api":  "restAPI: {auth: none, hosts: [gcu.example.com], blueprintsConfigMap: blueprints, service: {type: LoadBalancer, nodePort: 0}}\nnetworkPolicy: {limitEgress: true, apiServerPorts: [16443]}",
	"small":     "crds: {install: false}\nadmissionPolicies: {enabled: false}\nrestAPI: {enabled: false}\nnetworkPolicy: {enabled: false}\nnodeAgent: {enabled: false}\nhooks: {removeGcuResources: false}",
}

// TestGoldenFiles compares what values change in comparison with the defaults: whole objects that are not
// rendered with those. -update writes the files.
// Contract 81 and 82.
func TestGoldenFiles(t *testing.T) {
	defaults := byName(t, render(t, ""))
	for name, values := range sets {
		t.Run(name, func(t *testing.T) {
			rendered := byName(t, render(t, values))
			var text strings.Builder
			for _, n := range names(rendered) {
				// TestChartAndKustomizeRenderTheSameObjects has the others.
				if name == "default" && rendered[n].isHook() || name != "default" && cmp.Diff(defaults[n], rendered[n]) != "" {
					shown, err := yaml.Marshal(rendered[n])
					check(t, err)
					fmt.Fprintf(&text, "---\n%s", shown)
				}
			}
			for _, n := range names(defaults) {
				if kind, _, _ := strings.Cut(n, " /"); rendered[n] == nil && !strings.HasPrefix(kind, "ValidatingAdmissionPolicy") {
					fmt.Fprintf(&text, "# without %s\n", n) // the same test has the policies
				}
			}
			compare(t, filepath.Join("testdata", name+".yaml"), text.String())
		})
	}
}

// TestMonitoringIsThatOfTheManifests: with the default values the monitoring parts are those of config/monitoring, rules and
// dashboards too, although they contain braces.
func TestMonitoringIsThatOfTheManifests(t *testing.T) {
	without := byName(t, render(t, ""))
	got := byName(t, render(t, "metrics: {serviceMonitor: {enabled: true}, prometheusRule: {enabled: true}, dashboards: {enabled: true}}"))
	maps.DeleteFunc(got, func(name string, _ object) bool { return without[name] != nil })
	want := byName(t, append(kustomized(t, "config/monitoring"), kustomized(t, "config/monitoring/dashboards")...))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("config/ (-) and the chart (+) differ:\n%s", diff)
	}
}

func names(objects map[string]object) []string {
	var found []string
	for name := range objects {
		found = append(found, name)
	}
	slices.Sort(found)
	return found
}

func compare(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		check(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want, err := os.ReadFile(file)
	check(t, err)
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-) and what is rendered (+) differ: go test -update writes it\n%s", file, diff)
	}
}

func TestHelmLint(t *testing.T) {
	for name, values := range sets {
		given, err := chartutil.ReadValues([]byte(values))
		check(t, err)
		for _, m := range lint.AllWithKubeVersion(chartPath, given, "kube-system", &kubernetes3).Messages {
			if m.Severity > support.InfoSev {
				t.Errorf("with %s: %s", name, m)
			}
		}
	}
}

// TestValuesOfAnEarlierVersionMayBeReused: with helm upgrade --reuse-values the defaults are those of the release that is
// upgraded, which lacks the values that came since: testdata/first-values.yaml are those of the first version.
func TestValuesOfAnEarlierVersionMayBeReused(t *testing.T) {
	loaded, err := loader.Load(chartPath)
	check(t, err)
	first, err := os.ReadFile("testdata/first-values.yaml")
	check(t, err)
	loaded.Values, err = chartutil.ReadValues(first)
	check(t, err)
	objects, err := renderChart(t, loaded, "")
	check(t, err)
	if got, want := len(objects), len(render(t, "")); got != want {
		t.Errorf("%d objects, want %d as by default", got, want)
	}
}

// TestNoImageIsLatest: a tag that moves is another program after a restart.
func TestNoImageIsLatest(t *testing.T) {
	for _, o := range slices.DeleteFunc(render(t, ""), object.isHook) {
		text, err := yaml.Marshal(o["spec"])
		check(t, err)
		if strings.Contains(string(text), "image: ") && strings.Contains(string(text), ":latest\n") {
			t.Errorf("%s runs an image of tag latest", o.name())
		}
	}
}
