package component

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

func TestAManifestWithAMistakeIsAnError(t *testing.T) {
	const sound = `# a comment
apiVersion: v1
kind: Service
metadata:
  name: s
  labels: {app.kubernetes.io/name: s}
spec:
  ports:
  - {name: http, port: 80}
`
	for _, tc := range []struct{ name, old, with, want string }{
		{"a field the API does not have", "port: 80", "prot: 80", `unknown field "spec.ports[0].prot"`},
		{"a value of another type", "port: 80", "port: http", "cannot unmarshal"},
		{"a key given twice", "  name: s", "  name: s\n  name: t", `key "name" already set`},
		{"a kind that is not known", "kind: Service", "kind: Gadget", `no kind "Gadget"`},
		{"an object without the label of its workload", "app.kubernetes.io/name", "app", "without the label app.kubernetes.io/name"},
		{"a separator that separates nothing", "spec:", "--- spec:", "invalid Yaml document separator"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if list, err := decode([]byte(sound + "---\n" + sound)); err != nil || len(list) != 2 {
				t.Fatalf("without it there are %d objects, %v", len(list), err)
			}
			if _, err := decode([]byte(sound + "---\n" + strings.Replace(sound, tc.old, tc.with, 1))); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("the error is %v, want %s", err, tc.want)
			}
		})
	}
}

func TestAGRThatSetsNothingGetsTheManifests(t *testing.T) {
	for name, r := range render(t, newGR(allComponents())) {
		t.Run("contract 11 and 89: "+name, func(t *testing.T) {
			manifest, err := manifestOf(name)
			if err != nil {
				t.Fatal(err)
			}
			var want, got []map[string]any
			for _, o := range manifest {
				d, err := desired(o)
				if err != nil {
					t.Fatal(err)
				}
				want = append(want, d.Object.Object)
			}
			for _, d := range r.Objects {
				got = append(got, withoutMarks(d.Object))
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("objects (-manifest +rendered):\n%s", diff)
			}
		})
	}
}

// withoutMarks returns an object without the marks of its gr.
func withoutMarks(o *unstructured.Unstructured) map[string]any {
	plain := o.DeepCopy()
	plain.SetOwnerReferences(nil)
	plain.SetLabels(map[string]string{LabelName: o.GetLabels()[LabelName]})
	if o.GroupVersionKind() == DaemonSetKind {
		plain.SetAnnotations(nil)
	}
	unstructured.RemoveNestedField(plain.Object, "spec", "template", "metadata", "labels", topsv1.LabelGcuResource)
	return plain.Object
}

func TestBuiltInImagesHaveTheDefaults(t *testing.T) {
	image := regexp.MustCompile(`^artifact\.enflame\.cn/enflame_docker_images/enflame/[a-z-]+:latest$`)
	for i := range catalog {
		manifest, err := manifestOf(catalog[i].Name)
		if err != nil {
			t.Fatal(err)
		}
		t.Run("contract 12, 15 and 16: "+catalog[i].Name, func(t *testing.T) {
			for _, pod := range manifest.pods() {
				for _, c := range append(pod.InitContainers, pod.Containers...) {
					if !image.MatchString(c.Image) || c.ImagePullPolicy != corev1.PullIfNotPresent {
						t.Errorf("%s has %s, pulled %s", c.Name, c.Image, c.ImagePullPolicy)
					}
				}
			}
		})
	}
}

// everySite returns a spec in which fields supplies the BaseFields of every component and part by
// its name.
func everySite(fields func(string) topsv1.BaseFields) topsv1.GcuResourceSpec {
	of := func(name string) *topsv1.BaseFields {
		f := fields(name)
		return &f
	}
	return topsv1.GcuResourceSpec{
		NFD:    &topsv1.NFDSpec{Name: of("nfd").Name, Namespace: of("nfd").Namespace, Master: of("master"), Worker: of("worker")},
		Driver: of("driver"), Toolkit: of("toolkit"), DevicePlugin: of("plugin"), Exporter: of("exporter"), GFD: of("gfd"),
		GcusharePlugin: &topsv1.GcusharePluginSpec{BaseFields: fields("share")}, GcushareScheduler: of("scheduler"),
		Nightingale: &topsv1.NightingaleSpec{Namespace: of("nightingale").Namespace, Agentd: of("agentd"), MySQL: of("mysql"), NServer: of("nserver"),
			NWebAPI: of("nwebapi"), Prometheus: of("prometheus"), Redis: of("redis")},
		Volcano: &topsv1.VolcanoSpec{Namespace: of("volcano").Namespace, Admission: of("admission"), Controller: of("controller"), Scheduler: of("vc-scheduler")},
	}
}

func TestTheFieldsOfEveryPartReachItsContainers(t *testing.T) {
	spec := everySite(func(name string) topsv1.BaseFields {
		return topsv1.BaseFields{Version: name, Env: []corev1.EnvVar{{Name: "SITE", Value: name}}, NodeSelector: map[string]string{"site": name}}
	})
	got := map[string]string{}
	for _, r := range render(t, newGR(spec)) {
		for _, d := range r.Objects {
			pod := podOf(t, d)
			for _, c := range append(pod.InitContainers, pod.Containers...) {
				_, version, _ := strings.Cut(c.Image, ":")
				got[d.Ref.Name+" "+c.Name] = version
				if last := len(c.Env) - 1; last >= 0 && c.Env[last] != (corev1.EnvVar{Name: "SITE", Value: version}) {
					t.Errorf("%s %s: env is %v", d.Ref, c.Name, c.Env)
				}
				if selected := pod.NodeSelector["site"]; selected != version && c.Name != "nfd-master" && c.Name != "wait-for-mysql" {
					t.Errorf("%s %s: its nodes are those of %q", d.Ref, c.Name, selected)
				}
			}
		}
	}
	want := map[string]string{
		"node-feature-discovery-ds nfd-master": "master", "node-feature-discovery-ds nfd-worker": "worker",
		"enflame-gcu-driver enflame-gcu-driver": "driver", "enflame-gcu-docker-plugin enflame-gcu-docker-plugin": "toolkit",
		"enflame-gcu-k8s-plugin enflame-gcu-k8s-plugin": "plugin", "enflame-gcu-exporter enflame-gcu-exporter": "exporter",
		"enflame-gcu-feature-discovery enflame-gcu-feature-discovery": "gfd", "gcushare-device-plugin gcushare-device-plugin": "share",
		"gcushare-scheduler-extender gcushare-scheduler-extender": "scheduler",
		"agentd agentd": "agentd", "mysql mysql": "mysql", "nserver nserver": "nserver", "nserver wait-for-mysql": "mysql",
		"nwebapi nwebapi": "nwebapi", "nwebapi wait-for-mysql": "mysql", "prometheus prometheus": "prometheus", "redis redis": "redis",
		"volcano-admission volcano-admission": "admission", "volcano-admission-init volcano-admission-init": "admission",
		"volcano-controllers volcano-controllers": "controller", "volcano-scheduler volcano-scheduler": "vc-scheduler",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("versions (-want +got):\n%s", diff)
	}
}

func TestNothingOfAComponentStaysInTheBuiltInNamespace(t *testing.T) {
	builtIn := render(t, newGR(allComponents()))
	for name, r := range render(t, newGR(everySite(func(string) topsv1.BaseFields { return topsv1.BaseFields{Namespace: "elsewhere"} }))) {
		t.Run("contract 14: "+name, func(t *testing.T) {
			old := regexp.MustCompile(`[" =]` + builtIn[name].Namespace + `["\\]`)
			for _, d := range r.Objects {
				raw, err := json.Marshal(d.Object)
				if err != nil {
					t.Fatal(err)
				}
				if found := old.Find(raw); found != nil {
					t.Errorf("%s still has %s", d.Ref, found)
				}
			}
		})
	}
}

func TestServicesLeadToTheirPodsWhateverTheyAreCalled(t *testing.T) {
	services := 0
	for _, r := range render(t, newGR(everySite(func(name string) topsv1.BaseFields { return topsv1.BaseFields{Name: "my-" + name} }))) {
		pods := map[string]bool{}
		for _, d := range r.Objects {
			label, _, _ := unstructured.NestedString(d.Object.Object, "spec", "template", "metadata", "labels", LabelName)
			selected, found, _ := unstructured.NestedString(d.Object.Object, "spec", "selector", "matchLabels", LabelName)
			if pods[label] = true; found && (selected != label || d.Ref.Name != label || !strings.HasPrefix(label, "my-")) {
				t.Errorf("%s selects %s, its pods are %s", d.Ref, selected, label)
			}
		}
		for _, d := range r.Objects {
			if label := d.Object.GetLabels()[LabelName]; (d.Ref.CreateOnly() || d.Ref.Webhook()) && strings.HasPrefix(label, "my-") {
				t.Errorf("%s has the label of %s", d.Ref, label)
			}
			if d.Ref.Kind != "Service" {
				continue
			}
			services++
			if selected, _, _ := unstructured.NestedString(d.Object.Object, "spec", "selector", LabelName); !pods[selected] || d.Object.GetLabels()[LabelName] != selected {
				t.Errorf("%s leads to %q, the pods are %v", d.Ref, selected, pods)
			}
			if r.Name == Exporter && d.Ref.Name != "my-exporter" {
				t.Errorf("the Service of the exporter is %s", d.Ref)
			}
		}
	}
	if services != 9 {
		t.Errorf("there are %d Services", services)
	}
}

// TestDaemonSetsHaveTheirPlaces: DaemonSets, which renders nothing, gives what WorkloadRefs renders.
func TestDaemonSetsHaveTheirPlaces(t *testing.T) {
	for name, spec := range map[string]topsv1.GcuResourceSpec{
		"built-in":     {},
		"requested":    everySite(func(string) topsv1.BaseFields { return topsv1.BaseFields{} }),
		"renamed":      everySite(func(name string) topsv1.BaseFields { return topsv1.BaseFields{Name: name} }),
		"elsewhere":    everySite(func(name string) topsv1.BaseFields { return topsv1.BaseFields{Name: name, Namespace: "in-" + name} }),
		"not deployed": everySite(func(name string) topsv1.BaseFields { return topsv1.BaseFields{Name: name, NotDeploy: true} }),
	} {
		t.Run(name, func(t *testing.T) {
			want := map[types.NamespacedName]string{}
			for i := range catalog {
				places, err := WorkloadRefs(&spec, catalog[i].Name)
				if err != nil {
					t.Fatal(err)
				}
				for _, ref := range places {
					if ref.GroupVersionKind == DaemonSetKind {
						want[types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}] = catalog[i].Name
					}
				}
			}
			got, err := DaemonSets(&spec)
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}

// A component that is not requested has the default name of its DaemonSet only while no other one is deployed under it.
func TestANameIsThatOfTheComponentThatIsDeployed(t *testing.T) {
	const name = "enflame-gcu-exporter"
	key := types.NamespacedName{Namespace: "kube-system", Name: name}
	if got, err := DaemonSets(&topsv1.GcuResourceSpec{Driver: &topsv1.BaseFields{Name: name}}); err != nil || got[key] != Driver {
		t.Errorf("%s is of %s, %v", key, got[key], err)
	}
}

// TestAToolkitIsReady runs the readiness probe on roots laid out like those of hosts.
func TestAToolkitIsReady(t *testing.T) {
	const ranchers = "/var/lib/rancher/"
	const k3s, rke2, microk8s = ranchers + "k3s/agent/etc/containerd/", ranchers + "rke2/agent/etc/containerd/", "/var/snap/microk8s/current/args/"
	const named = "/data/k3s/agent/etc/containerd/config-v3.toml.d/enflame.toml"
	for name, test := range map[string]struct {
		file, env string
		cluster   Cluster
		ready     bool
	}{
		"docker":                                      {"etc/docker/daemon.json", "", Cluster{}, true},
		"containerd":                                  {"etc/containerd/config.toml", "", Cluster{}, true},
		"a drop-in of containerd":                     {"etc/containerd/conf.d/99-enflame.toml", "", Cluster{}, true},
		"another file":                                {"etc/containerd/readme", "", Cluster{}, false},
		"what the spec names":                         {"host" + named, named, Cluster{}, true},
		"what the spec names, not yet written":        {"host" + named + ".new", named, Cluster{}, false},
		"what the spec names beside k3s":              {"host" + named, named, Cluster{Distributions: true}, true},
		"another file of k3s than the spec names":     {"host" + k3s + "config.toml.tmpl", named, Cluster{Distributions: true}, false},
		"a drop-in of k3s":                            {"host" + k3s + "config-v3.toml.d/enflame.toml", "", Cluster{Distributions: true}, true},
		"a drop-in of k3s with containerd 1":          {"host" + k3s + "config.toml.d/enflame.toml", "", Cluster{Distributions: true}, true},
		"a template of k3s":                           {"host" + k3s + "config-v3.toml.tmpl", "", Cluster{Distributions: true}, true},
		"a template of RKE2":                          {"host" + rke2 + "config.toml.tmpl", "", Cluster{Distributions: true}, true},
		"a drop-in of RKE2":                           {"host" + rke2 + "config-v3.toml.d/enflame.toml", "", Cluster{Distributions: true}, true},
		"what RKE2 made of it":                        {"host" + rke2 + "config.toml", "", Cluster{Distributions: true}, true},
		"the template of MicroK8s":                    {"host" + microk8s + "containerd-template.toml", "", Cluster{Distributions: true}, true},
		"docker beside nodes of k3s":                  {"etc/docker/daemon.json", "", Cluster{Distributions: true}, true},
		"a file of k3s that it does not read":         {"host" + k3s + "config-v3.toml.d/enflame.toml.new", "", Cluster{Distributions: true}, false},
		"k3s in a cluster where no node is one of it": {"host" + k3s + "config-v3.toml.d/enflame.toml", "", Cluster{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if err := probeToolkit(t, test.cluster, test.env, test.file, "default_runtime_name = \"enflame\"\n"); (err == nil) != test.ready {
				t.Errorf("%v, want ready=%t", err, test.ready)
			}
		})
	}
}

func TestAToolkitIsReadyWhenTheRuntimeIsConfigured(t *testing.T) {
	for name, test := range map[string]struct {
		file, content string
		ready         bool
	}{
		"docker":               {"daemon.json", `{"runtimes":{"enflame":{"path":"/usr/bin/enflame-container-runtime"}}}`, true},
		"docker in one line":   {"daemon.json", `{"default-runtime":"enflame"}`, true},
		"the default":          {"config.toml", "default_runtime_name = 'enflame'", true},
		"the program":          {"config.toml", "BinaryName = \"/usr/bin/enflame-container-runtime\"", true},
		"a registry of docker": {"daemon.json", `{"insecure-registries":["artifact.enflame.cn"]}`, false},
		"the sandbox's image":  {"config.toml", "sandbox_image = \"artifact.enflame.cn/enflame/pause:3.9\"", false},
	} {
		t.Run(name, func(t *testing.T) {
			file := map[string]string{"daemon.json": "etc/docker/daemon.json", "config.toml": "etc/containerd/config.toml"}[test.file]
			if err := probeToolkit(t, Cluster{}, "", file, test.content); (err == nil) != test.ready {
				t.Errorf("%v, want ready=%t", err, test.ready)
			}
		})
	}
}

// probeToolkit runs the readiness probe of the toolkit on a root with the runtime and one configuration file.
func probeToolkit(t *testing.T, cluster Cluster, named, file, content string) error {
	t.Helper()
	toolkit := &topsv1.BaseFields{}
	if named != "" {
		toolkit.Env = []corev1.EnvVar{{Name: EnvContainerdConfig, Value: named}}
	}
	rendered := renderIn(t, cluster, newGR(topsv1.GcuResourceSpec{Toolkit: toolkit}))
	probe := rendered[Toolkit].PerNode.Spec.Template.Spec.Containers[0].ReadinessProbe.Exec.Command
	root := t.TempDir()
	for file, content := range map[string]string{"host/usr/bin/enflame-container-runtime": "", file: content} {
		path := filepath.Join(root, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	script := strings.NewReplacer(" /host", " "+root+"/host", `"/host`, `"`+root+"/host", " /etc", " "+root+"/etc").Replace(probe[2])
	command := exec.CommandContext(t.Context(), probe[0], probe[1], script)
	command.Env = []string{"PATH=" + os.Getenv("PATH"), EnvContainerdConfig + "=" + named}
	if err := command.Run(); err != nil {
		return fmt.Errorf("%s: %w", script, err)
	}
	return nil
}

// The vendor's scheduler image has no entrypoint, and the scheduler records each assignment of a card in a ConfigMap.
func TestTheSchedulerOfSharedCardsCanRun(t *testing.T) {
	for _, d := range render(t, newGR(allComponents()))[GcushareScheduler].Objects {
		switch d.Ref.Kind {
		case "Deployment":
			containers, _, err := unstructured.NestedSlice(d.Object.Object, "spec", "template", "spec", "containers")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]any{"gcushare-scheduler-plugin"}, containers[0].(map[string]any)["command"]); diff != "" {
				t.Errorf("its command (-want +got):\n%s", diff)
			}
		case "ClusterRole":
			rules, _, err := unstructured.NestedSlice(d.Object.Object, "rules")
			if err != nil {
				t.Fatal(err)
			}
			for _, verb := range []string{"create", "delete"} {
				if !slices.ContainsFunc(rules, func(r any) bool {
					rule := r.(map[string]any)
					return slices.Contains(rule["resources"].([]any), any("configmaps")) && slices.Contains(rule["verbs"].([]any), any(verb))
				}) {
					t.Errorf("it may not %s ConfigMaps", verb)
				}
			}
		}
	}
}
