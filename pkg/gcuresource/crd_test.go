package gcuresource

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
	"github.com/topsops/gcu-operator/test/world"
)

// stored creates a gr from a spec in YAML and returns it as the API server stored it.
func stored(t *testing.T, spec string) (*unstructured.Unstructured, error) {
	t.Helper()
	gr := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(spec), &gr.Object); err != nil {
		t.Fatal(err)
	}
	gr.Object = map[string]any{"spec": gr.Object}
	gr.SetGroupVersionKind(topsv1.GroupVersion.WithKind(topsv1.GcuResourceKind))
	gr.SetName("schema")
	err := testClient(t).Create(context.Background(), gr, client.FieldValidation("Strict"))
	if err == nil {
		t.Cleanup(func() {
			if err := testClient(t).Delete(context.Background(), gr); err != nil {
				t.Error(err)
			}
		})
	}
	return gr, err
}

func TestBadSpecsAreRefusedWithAClearMessage(t *testing.T) {
	for _, tc := range []struct{ name, spec, want string }{
		{"contract 25: both names of the device plugin", "{devicePlugin: {}, plugin: {}}", "plugin is another name for devicePlugin: set only devicePlugin"},
		{"contract 34: whole and shared cards", "{devicePlugin: {}, gcusharePlugin: {}}",
			"devicePlugin and gcusharePlugin or gcushareScheduler cannot be deployed together"},
		{"contract 34: whole and shared cards by the other name", "{plugin: {}, gcushareScheduler: {}}", "set notDeploy: true on one side"},
		{"contract 12: an unknown pull policy", "{driver: {imagePullPolicy: Sometimes}}", `Unsupported value: "Sometimes"`},
		{"contract 27: an unknown memory unit", `{gcusharePlugin: {memoryUnit: "2"}}`, `Unsupported value: "2"`},
		{"contract 27: a memory unit that is no text", `{gcusharePlugin: {memoryUnit: 0.1}}`, "spec.gcusharePlugin.memoryUnit"},
		{"contract 28: a node twice", `{gcusharePlugin: {gcushareNodes: [a, a]}}`, `Duplicate value: "a"`},
		{"contract 30: a volume without a name", "{nightingale: {mysql-pv: {hostpath: /x}}}", "spec.nightingale.mysql-pv.name: Required value"},
		{"contract 30: a claim without a name", "{nightingale: {mysql-pvc: {}}}", "spec.nightingale.mysql-pvc.name: Required value"},
		{"a name that is no name", "{driver: {name: Not_A_Name}}", "spec.driver.name"},
		{"a version that is no tag", "{driver: {version: 'a b'}}", "spec.driver.version"},
		{"a pull secret without a name", "{imagePullSecrets: [{}]}", "a pull secret needs a name"},
		{"a pull secret twice", "{driver: {imagePullSecrets: [{name: s}, {name: s}]}}", "Duplicate value"},
		{"a short digest", "{driver: {version: 'sha256:0123'}}", "spec.driver.version"},
		{"a digest of another kind", "{driver: {version: 'v1@md5:0123456789abcdef0123456789abcdef'}}", "spec.driver.version"},
		{"contract 30: a volume without path", "{nightingale: {mysql-pv: {name: x}}}", "spec.nightingale.mysql-pv.hostpath: Required value"},
		{"an unknown key", "{drivers: {}}", `unknown field "spec.drivers"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := stored(t, tc.spec)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

func TestGoodSpecsAreAccepted(t *testing.T) {
	for _, tc := range []struct{ name, spec string }{
		{"contract 21: an empty spec", "{}"},
		{"contract 34: shared cards with the device plugin switched off", "{devicePlugin: {notDeploy: true}, gcusharePlugin: {}, gcushareScheduler: {}}"},
		{"a digest", "{driver: {version: 'sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef'}, nfd: {master: {version: 'v1@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef'}}}"},
		{"contract 34: shared cards without their scheduler", "{gcusharePlugin: {}}"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if _, err := stored(t, tc.spec); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestTheServerAppliesTheDefaultsOfTheContract(t *testing.T) {
	gr, err := stored(t, "{nfd: {}, driver: {}, nightingale: {}, gcusharePlugin: {}, volcano: {}}")
	if err != nil {
		t.Fatal(err)
	}
	fields := func(more map[string]any) map[string]any {
		f := map[string]any{"notDeploy": false, "imagePullPolicy": "IfNotPresent", "version": "latest",
			"repository": "artifact.enflame.cn/enflame_docker_images/enflame"}
		for k, v := range more {
			f[k] = v
		}
		return f
	}
	for _, tc := range []struct {
		name, key string
		want      map[string]any
	}{
		{"contract 10, 12, 15 and 16: BaseFields", "driver", fields(nil)},
		{"contract 14 and 29: nfd", "nfd", map[string]any{"notDeploy": false, "name": "node-feature-discovery-ds", "namespace": "kube-system"}},
		{"contract 14 and 30: nightingale", "nightingale", map[string]any{"notDeploy": false, "namespace": "enflame"}},
		{"contract 27: gcusharePlugin", "gcusharePlugin", fields(map[string]any{"memoryUnit": "1"})},
		{"contract 14 and 31: volcano", "volcano", map[string]any{"notDeploy": false, "namespace": "volcano-system"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, _, err := unstructured.NestedMap(gr.Object, "spec", tc.key)
			if diff := cmp.Diff(tc.want, got); diff != "" || err != nil {
				t.Errorf("%v: spec (-want +got):\n%s", err, diff)
			}
		})
	}
	if spec := gr.Object["spec"].(map[string]any); len(spec) != 5 {
		t.Errorf("the server added keys: %v", spec)
	}
}

func TestAllKeysRoundTrip(t *testing.T) {
	const fields = `{notDeploy: true, image: i, imagePullPolicy: Always, name: nm, namespace: ns, repository: r.example/x, version: v1,
	  env: [{name: A, value: b}], nodeSelector: {k: v}, imagePullSecrets: [{name: s}]}`
	spec := strings.ReplaceAll(`{imagePullSecrets: [{name: s}, {name: t}], driver: F, toolkit: F, devicePlugin: F, exporter: F, gfd: F, gcushareScheduler: F,
	  nfd: {notDeploy: true, name: nm, namespace: ns, nodeSelector: {k: v}, master: F, worker: F},
	  gcusharePlugin: {notDeploy: true, image: i, imagePullPolicy: Always, name: nm, namespace: ns, repository: r.example/x, version: v1,
	    env: [{name: A, value: b}], nodeSelector: {k: v}, imagePullSecrets: [{name: s}], memoryUnit: "0.1", gcushareNodes: [a, b]},
	  nightingale: {notDeploy: true, namespace: ns, agentd-deploy: F, mysql-deploy: F, nserver-deploy: F, nwebapi-deploy: F,
	    prometheus-deploy: F, redis-deploy: F, mysql-pv: {name: pv, hostpath: /data}, mysql-pvc: {name: pvc}},
	  volcano: {notDeploy: true, namespace: ns, controller: F, admission: F, scheduler: F}}`, "F", fields)
	gr, err := stored(t, spec)
	if err != nil {
		t.Fatal(err)
	}
	var want map[string]any
	if err := yaml.Unmarshal([]byte(spec), &want); err != nil {
		t.Fatal(err)
	}
	t.Run("contract 25, 26, 29, 30 and 31: every key of the spec is stored", func(t *testing.T) {
		if diff := cmp.Diff(want, gr.Object["spec"]); diff != "" {
			t.Errorf("stored spec (-want +got):\n%s", diff)
		}
	})
	typed := &topsv1.GcuResource{}
	if err := testClient(t).Get(context.Background(), client.ObjectKeyFromObject(gr), typed); err != nil {
		t.Fatal(err)
	}
	encoded, err := yaml.Marshal(typed.Spec)
	if err != nil {
		t.Fatal(err)
	}
	var back map[string]any
	if err := yaml.Unmarshal(encoded, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, back); diff != "" {
		t.Errorf("through the Go types (-want +got):\n%s", diff)
	}
}

// documents reads the objects in a file of the examples folder.
func documents(t *testing.T, path string) []*unstructured.Unstructured {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var list []*unstructured.Unstructured
	for _, document := range strings.Split(string(raw), "\n---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
			t.Fatalf("decoding %s: %v", path, err)
		}
		list = append(list, object)
	}
	return list
}

func TestTheExamplesAreAcceptedAndDeployWhatTheySay(t *testing.T) {
	five := "nfd toolkit devicePlugin exporter gfd"
	want := map[string][]string{
		"gcu-resource.json":        {five},
		"gcu-resource.yaml":        {five},
		"gcu-resource-driver.json": {"nfd driver toolkit devicePlugin exporter gfd"},
		"gcushare.yaml":            {"nfd toolkit gcusharePlugin gcushareScheduler exporter gfd"},
		"nightingale.yaml":         {"nightingale"},
		"two-resources.yaml":       {"nfd toolkit devicePlugin gfd", "exporter"},
		"driver-versions.yaml":     {"driver", "driver", five},
		"global-task.yaml":         nil,
		"upgrade-policy.yaml":      nil,
	}
	files, err := filepath.Glob(filepath.Join("..", "..", "examples", "*.*"))
	if err != nil || len(files) != len(want) {
		t.Fatalf("the examples are %v (%v), want those of %d names", files, err, len(want))
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			var got []string
			claimed := map[component.Ref]string{}
			for _, object := range documents(t, file) {
				if err := testClient(t).Create(context.Background(), object, client.DryRunAll, client.FieldValidation("Strict")); err != nil {
					t.Errorf("%s: %v", object.GetName(), err)
				}
				if object.GetKind() != topsv1.GcuResourceKind {
					continue
				}
				gr := &topsv1.GcuResource{}
				if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, gr); err != nil {
					t.Fatal(err)
				}
				got = append(got, strings.Join(component.Requested(&gr.Spec), " "))
				for _, r := range world.Render(t, gr) {
					for _, d := range r.Objects {
						if other, ok := claimed[d.Ref]; ok {
							t.Errorf("%s is claimed by %s and %s", d.Ref, other, gr.Name)
						}
						claimed[d.Ref] = gr.Name
					}
				}
			}
			if diff := cmp.Diff(want[filepath.Base(file)], got); diff != "" {
				t.Errorf("components (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheDatabaseKeepsItsPlaceWhileItIsDeployed(t *testing.T) {
	const (
		space = "namespace cannot be changed while nightingale is deployed"
		names = "mysql-pv.name and mysql-pvc.name cannot be changed while nightingale is deployed"
	)
	for _, tc := range []struct{ name, from, to, want string }{
		{"another namespace", "{}", "{namespace: elsewhere}", space},
		{"another volume", "{}", "{mysql-pv: {name: x, hostpath: /x}}", names},
		{"another claim", "{mysql-pvc: {name: x}}", "{}", names},
		{"the built-in names", "{}", "{namespace: enflame, mysql-pv: {name: mysql-pv, hostpath: /x}, mysql-pvc: {name: mysql-pvc}}", ""},
		{"when it goes", "{}", "{notDeploy: true, namespace: elsewhere, mysql-pvc: {name: x}}", ""},
		{"before it comes back", "{notDeploy: true}", "{namespace: elsewhere, mysql-pvc: {name: x}}", ""},
	} {
		t.Run("contract 30: "+tc.name, func(t *testing.T) {
			gr, err := stored(t, "{nightingale: "+tc.from+"}")
			if err != nil {
				t.Fatal(err)
			}
			var spec map[string]any
			if err := yaml.Unmarshal([]byte(tc.to), &spec); err != nil {
				t.Fatal(err)
			}
			gr.Object["spec"] = map[string]any{"nightingale": spec}
			err = testClient(t).Update(context.Background(), gr, client.DryRunAll)
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}
