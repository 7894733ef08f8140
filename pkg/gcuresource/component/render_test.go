package component

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	imagename "github.com/google/go-containerregistry/pkg/name"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// newGR returns a gr as the API server would store it, with the given spec.
func newGR(spec topsv1.GcuResourceSpec) *topsv1.GcuResource {
	return &topsv1.GcuResource{
		ObjectMeta: metav1.ObjectMeta{Name: "gpu", UID: "gr-uid", Generation: 1, Annotations: map[string]string{}},
		Spec:       spec,
	}
}

// allComponents returns a spec with every component and its built-in values. The API server would
// reject it, because it has both device plugins.
func allComponents() topsv1.GcuResourceSpec {
	return topsv1.GcuResourceSpec{
		NFD: &topsv1.NFDSpec{}, Driver: &topsv1.BaseFields{}, Toolkit: &topsv1.BaseFields{},
		DevicePlugin: &topsv1.BaseFields{}, Exporter: &topsv1.BaseFields{}, GFD: &topsv1.BaseFields{},
		GcusharePlugin: &topsv1.GcusharePluginSpec{}, GcushareScheduler: &topsv1.BaseFields{},
		Nightingale: &topsv1.NightingaleSpec{}, Volcano: &topsv1.VolcanoSpec{},
	}
}

func render(t *testing.T, gr *topsv1.GcuResource) map[string]Rendered {
	t.Helper()
	return renderIn(t, Cluster{}, gr)
}

func renderIn(t *testing.T, cluster Cluster, gr *topsv1.GcuResource) map[string]Rendered {
	t.Helper()
	list, err := RenderIn(cluster, gr, "gpu-1")
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]Rendered{}
	for _, r := range list {
		byName[r.Name] = r
	}
	return byName
}

// example reads a blueprint of the examples folder.
func example(t *testing.T, name string) *topsv1.GcuResource {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "..", "..", "examples", name))
	if err != nil {
		t.Fatal(err)
	}
	gr := &topsv1.GcuResource{}
	if err := yaml.UnmarshalStrict(raw, gr); err != nil {
		t.Fatalf("decoding %s: %v", name, err)
	}
	return gr
}

func TestRenderOrder(t *testing.T) {
	off := &topsv1.BaseFields{NotDeploy: true}
	for _, tc := range []struct {
		name string
		spec topsv1.GcuResourceSpec
		want []string
	}{
		{"contract 21 and 22: an empty spec deploys nothing", topsv1.GcuResourceSpec{}, nil},
		{"contract 23 and 46: all components come in deployment order", allComponents(),
			[]string{"nfd", "driver", "toolkit", "devicePlugin", "gcusharePlugin", "gcushareScheduler", "nightingale", "exporter", "gfd", "volcano"}},
		{"contract 24: notDeploy leaves a component out", topsv1.GcuResourceSpec{
			NFD: &topsv1.NFDSpec{NotDeploy: true}, Driver: off, Plugin: off, GFD: &topsv1.BaseFields{}}, []string{"gfd"}},
		{"contract 25: plugin is devicePlugin", topsv1.GcuResourceSpec{Plugin: &topsv1.BaseFields{}}, []string{"devicePlugin"}},
		{"contract 32: the default blueprint deploys five", example(t, "gcu-resource.json").Spec,
			[]string{"nfd", "toolkit", "devicePlugin", "exporter", "gfd"}},
		{"the driver blueprint deploys six", example(t, "gcu-resource-driver.json").Spec,
			[]string{"nfd", "driver", "toolkit", "devicePlugin", "exporter", "gfd"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Requested(&tc.spec)); diff != "" {
				t.Errorf("components (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheTwoDefaultBlueprintsAreTheSame(t *testing.T) {
	if diff := cmp.Diff(example(t, "gcu-resource.json"), example(t, "gcu-resource.yaml")); diff != "" {
		t.Errorf("JSON and YAML differ (-json +yaml):\n%s", diff)
	}
	driver := example(t, "gcu-resource-driver.json")
	driver.Spec.Driver.NotDeploy = true
	if diff := cmp.Diff(example(t, "gcu-resource.json"), driver); diff != "" {
		t.Errorf("the driver blueprint differs in more than driver.notDeploy:\n%s", diff)
	}
}

const digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// Every container of every component takes a digest, and so does the one that waits for the database.
func TestEveryImageMayHaveADigest(t *testing.T) {
	for _, version := range []string{digest, "v1@" + digest} {
		fields := &topsv1.BaseFields{Version: version}
		rendered := render(t, newGR(topsv1.GcuResourceSpec{NFD: &topsv1.NFDSpec{Master: fields, Worker: fields}, Driver: fields, Toolkit: fields, DevicePlugin: fields,
			Exporter: fields, GFD: fields, GcusharePlugin: &topsv1.GcusharePluginSpec{BaseFields: *fields}, GcushareScheduler: fields,
			Nightingale: &topsv1.NightingaleSpec{Agentd: fields, MySQL: fields, NServer: fields, NWebAPI: fields, Prometheus: fields, Redis: fields},
			Volcano:     &topsv1.VolcanoSpec{Controller: fields, Admission: fields, Scheduler: fields}}))
		for name, r := range rendered {
			for _, d := range r.Objects {
				for _, image := range imagesIn(t, &d) {
					reference, err := imagename.ParseReference(image)
					if err != nil || reference.Identifier() != digest || strings.Contains(image, ":v1") != (version != digest) {
						t.Errorf("%s: image %s with version %s: %v", name, image, version, err)
					}
				}
			}
		}
	}
}

func TestPullSecrets(t *testing.T) {
	secrets := func(names ...string) (list []corev1.LocalObjectReference) {
		for _, name := range names {
			list = append(list, corev1.LocalObjectReference{Name: name})
		}
		return list
	}
	part := func(name string) *topsv1.BaseFields { return &topsv1.BaseFields{ImagePullSecrets: secrets(name)} }
	spec := topsv1.GcuResourceSpec{ImagePullSecrets: secrets("all"), Driver: part("own"), Toolkit: &topsv1.BaseFields{},
		NFD:         &topsv1.NFDSpec{Master: part("a"), Worker: &topsv1.BaseFields{ImagePullSecrets: secrets("a", "b")}},
		Nightingale: &topsv1.NightingaleSpec{Redis: part("redis")}, Volcano: &topsv1.VolcanoSpec{Admission: part("admission")},
		GcusharePlugin: &topsv1.GcusharePluginSpec{BaseFields: *part("share")}}
	want := map[string][]corev1.LocalObjectReference{"enflame-gcu-driver": secrets("own"), "node-feature-discovery-ds": secrets("a", "b"), "redis": secrets("redis"),
		"volcano-admission": secrets("admission"), "volcano-admission-init": secrets("admission"), "gcushare-device-plugin": secrets("share")}
	for _, r := range render(t, newGR(spec)) {
		for _, d := range r.Objects {
			if !d.Ref.Workload() {
				continue
			}
			expected, own := want[d.Ref.Name]
			if !own {
				expected = secrets("all")
			}
			if diff := cmp.Diff(expected, podOf(t, d).ImagePullSecrets); diff != "" {
				t.Errorf("pull secrets of %s (-want +got):\n%s", d.Ref, diff)
			}
		}
	}
}

// imagesIn returns the images of a workload, those of init containers too.
func imagesIn(t *testing.T, d *Desired) []string {
	t.Helper()
	if !d.Ref.Workload() {
		return nil
	}
	var images []string
	for _, kind := range []string{"containers", "initContainers"} {
		list, _, err := unstructured.NestedSlice(d.Object.Object, "spec", "template", "spec", kind)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range list {
			images = append(images, c.(map[string]any)["image"].(string))
		}
	}
	return images
}

func TestFieldsReplaceTheBuiltInValues(t *testing.T) {
	const image = "artifact.enflame.cn/enflame_docker_images/enflame/gcu-plugin:latest"
	nodeName := corev1.EnvVar{Name: "NODE_NAME", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "spec.nodeName"}}}
	devices := corev1.EnvVar{Name: "ENFLAME_VISIBLE_DEVICES", Value: "all"}
	for _, tc := range []struct {
		name   string
		fields topsv1.BaseFields
		want   func(*appsv1.DaemonSet, *corev1.Container)
	}{
		{"contract 11, 12, 13, 14 and 16: no fields give the defaults", topsv1.BaseFields{}, func(*appsv1.DaemonSet, *corev1.Container) {}},
		{"contract 17: the image is repository/image:version",
			topsv1.BaseFields{Repository: "artifact.enflame.cn/galaxy_docker_hub/gcu", Image: "other", Version: "v2"},
			func(_ *appsv1.DaemonSet, c *corev1.Container) {
				c.Image = "artifact.enflame.cn/galaxy_docker_hub/gcu/other:v2"
			}},
		{"a digest", topsv1.BaseFields{Repository: "registry:5000", Version: digest},
			func(_ *appsv1.DaemonSet, c *corev1.Container) { c.Image = "registry:5000/gcu-plugin@" + digest }},
		{"a tag with a digest", topsv1.BaseFields{Image: "other", Version: "v2@" + digest},
			func(_ *appsv1.DaemonSet, c *corev1.Container) {
				c.Image = "artifact.enflame.cn/enflame_docker_images/enflame/other:v2@" + digest
			}},
		{"contract 15: the repository may have a port", topsv1.BaseFields{Repository: "registry:5000"},
			func(_ *appsv1.DaemonSet, c *corev1.Container) { c.Image = "registry:5000/gcu-plugin:latest" }},
		{"namespace and pull policy replace", topsv1.BaseFields{Namespace: "ns", ImagePullPolicy: "Always"},
			func(ds *appsv1.DaemonSet, c *corev1.Container) { ds.Namespace, c.ImagePullPolicy = "ns", "Always" }},
		{"contract 13: the name goes into selector and container too", topsv1.BaseFields{Name: "n"},
			func(ds *appsv1.DaemonSet, c *corev1.Container) {
				ds.Name, c.Name = "n", "n"
				ds.Labels[LabelName], ds.Spec.Selector.MatchLabels[LabelName], ds.Spec.Template.Labels[LabelName] = "n", "n", "n"
			}},
		{"contract 18: env is merged by name, in a stable order",
			topsv1.BaseFields{Env: []corev1.EnvVar{{Name: "C", Value: "3"}, {Name: "NODE_NAME", Value: "9"}}},
			func(_ *appsv1.DaemonSet, c *corev1.Container) {
				c.Env = []corev1.EnvVar{{Name: "NODE_NAME", Value: "9"}, devices, {Name: "C", Value: "3"}}
			}},
		{"contract 19 and 35: nodeSelector replaces the built-in one", topsv1.BaseFields{NodeSelector: map[string]string{"zone": "a"}},
			func(ds *appsv1.DaemonSet, _ *corev1.Container) {
				ds.Spec.Template.Spec.NodeSelector = map[string]string{"zone": "a"}
			}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := render(t, newGR(topsv1.GcuResourceSpec{DevicePlugin: &tc.fields}))["devicePlugin"].PerNode
			want := render(t, newGR(topsv1.GcuResourceSpec{DevicePlugin: &topsv1.BaseFields{}}))["devicePlugin"].PerNode
			c := &want.Spec.Template.Spec.Containers[0]
			if diff := cmp.Diff([]corev1.EnvVar{nodeName, devices}, c.Env); diff != "" || c.Image != image || c.ImagePullPolicy != "IfNotPresent" ||
				want.Name != "enflame-gcu-k8s-plugin" || want.Namespace != "kube-system" {
				t.Errorf("the defaults are %s/%s, %+v\n%s", want.Namespace, want.Name, c, diff)
			}
			tc.want(want, c)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("DaemonSet (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheFirstLevelOfNFDWins(t *testing.T) {
	for _, tc := range []struct {
		name     string
		nfd      topsv1.NFDSpec
		want     string
		selector map[string]string
	}{
		{"contract 20: name, namespace and notDeploy of a child have no effect",
			topsv1.NFDSpec{Name: "first", Namespace: "one", Master: &topsv1.BaseFields{Name: "second", Namespace: "two", NotDeploy: true}},
			"one/first", nil},
		{"contract 29: without a name it is node-feature-discovery-ds in kube-system", topsv1.NFDSpec{}, "kube-system/node-feature-discovery-ds", nil},
		{"contract 20: the first node selector wins", topsv1.NFDSpec{NodeSelector: map[string]string{"a": "1"},
			Worker: &topsv1.BaseFields{NodeSelector: map[string]string{"b": "2"}}}, "kube-system/node-feature-discovery-ds", map[string]string{"a": "1"}},
		{"without one those of the children hold together", topsv1.NFDSpec{Master: &topsv1.BaseFields{NodeSelector: map[string]string{"a": "1", "c": "m"}},
			Worker: &topsv1.BaseFields{NodeSelector: map[string]string{"b": "2", "c": "w"}}},
			"kube-system/node-feature-discovery-ds", map[string]string{"a": "1", "b": "2", "c": "w"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ds := render(t, newGR(topsv1.GcuResourceSpec{NFD: &tc.nfd}))["nfd"].PerNode
			if got := ds.Namespace + "/" + ds.Name; got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
			if diff := cmp.Diff(tc.selector, ds.Spec.Template.Spec.NodeSelector); diff != "" {
				t.Errorf("node selector (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPluginIsRenderedAsDevicePlugin(t *testing.T) {
	fields := &topsv1.BaseFields{Version: "v9"}
	alias := render(t, newGR(topsv1.GcuResourceSpec{Plugin: fields}))
	canonical := render(t, newGR(topsv1.GcuResourceSpec{DevicePlugin: fields}))
	if diff := cmp.Diff(canonical["devicePlugin"].PerNode, alias["devicePlugin"].PerNode); diff != "" || len(alias) != len(canonical) {
		t.Errorf("plugin differs from devicePlugin:\n%s", diff)
	}
}

func TestUpgradeAnnotationsAreCarriedButNeverIntoThePodTemplate(t *testing.T) {
	plain := newGR(allComponents())
	annotated := plain.DeepCopy()
	annotated.Generation = 7
	annotated.Labels = map[string]string{"team": "a"}
	annotated.Annotations = map[string]string{
		topsv1.AnnotationUpdateStrategy: "OTA", topsv1.OpenYurtAnnotationMaxUnavailable: "3", "other": "left behind"}
	before, after := render(t, plain), render(t, annotated)
	for name, r := range after {
		if r.PerNode == nil {
			if diff := cmp.Diff(before[name].Objects, r.Objects); diff != "" {
				t.Errorf("%s: annotations changed it:\n%s", name, diff)
			}
			continue
		}
		want := map[string]string{topsv1.AnnotationUpdateStrategy: "OTA", topsv1.OpenYurtAnnotationMaxUnavailable: "3",
			topsv1.AnnotationOrder: before[name].PerNode.Annotations[topsv1.AnnotationOrder], topsv1.AnnotationRevision: "gpu-1"}
		if diff := cmp.Diff(want, r.PerNode.Annotations); diff != "" {
			t.Errorf("%s: annotations (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff(before[name].PerNode.Spec, r.PerNode.Spec); diff != "" {
			t.Errorf("%s: annotations changed the spec:\n%s", name, diff)
		}
	}
}

func TestEveryObjectIsMarkedAsOurs(t *testing.T) {
	for name, r := range render(t, newGR(allComponents())) {
		for _, d := range r.Objects {
			labels := d.Object.GetLabels()
			want := map[string]string{LabelName: labels[LabelName], topsv1.LabelManagedBy: "gcu-operator",
				topsv1.LabelGcuResource: "gpu", topsv1.LabelComponent: name}
			if d.Ref.Kept() {
				delete(want, topsv1.LabelGcuResource)
			}
			if diff := cmp.Diff(want, labels); diff != "" || labels[LabelName] == "" {
				t.Errorf("%s: labels (-want +got):\n%s", d.Ref, diff)
			}
			owner := metav1.GetControllerOf(d.Object)
			if d.Ref.Kept() {
				if owner != nil {
					t.Errorf("%s has an owner, it would go with the gr", d.Ref)
				}
				continue
			}
			if owner == nil || owner.UID != "gr-uid" || *owner.BlockOwnerDeletion {
				t.Errorf("%s: owner is %v", d.Ref, owner)
			}
		}
		if r.PerNode == nil {
			continue
		}
		if r.PerNode.Spec.UpdateStrategy.Type != appsv1.OnDeleteDaemonSetStrategyType {
			t.Errorf("%s: update strategy is %s", name, r.PerNode.Spec.UpdateStrategy.Type)
		}
		if diff := cmp.Diff(map[string]string{LabelName: r.PerNode.Name}, r.PerNode.Spec.Selector.MatchLabels); diff != "" {
			t.Errorf("%s: selector (-want +got):\n%s", name, diff)
		}
	}
}

// Two grs that apply an object of both in turn would never rest.
func TestWhatIsKeptIsTheSameForEveryGcuResource(t *testing.T) {
	another := newGR(topsv1.GcuResourceSpec{
		NFD: &topsv1.NFDSpec{Name: "another-nfd", Namespace: "another"}, Volcano: &topsv1.VolcanoSpec{Namespace: "another-volcano"}})
	another.Name, another.UID = "another", "another-uid"
	first := map[Ref]string{}
	for _, r := range render(t, newGR(allComponents())) {
		for _, d := range r.Objects {
			first[d.Ref] = d.Hash
		}
	}
	kept := 0
	for _, r := range render(t, another) {
		for _, d := range r.Objects {
			if hash := first[d.Ref]; d.Ref.Kept() && !d.Ref.Installed() && hash != "" {
				kept++
				if hash != d.Hash {
					t.Errorf("%s differs: %v", d.Ref, d.Object.GetLabels())
				}
			}
		}
	}
	if kept != 6 {
		t.Errorf("%d CRDs", kept)
	}
}
