package gcuresource

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
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
		{"both names of the device plugin", "{devicePlugin: {}, plugin: {}}", "plugin is another name for devicePlugin: set only devicePlugin"},
		{"whole and shared cards", "{devicePlugin: {}, gcusharePlugin: {}}",
			"devicePlugin and gcusharePlugin or gcushareScheduler cannot be deployed together"},
		{"whole and shared cards by the other name", "{plugin: {}, gcushareScheduler: {}}", "set notDeploy: true on one side"},
		{"an unknown pull policy", "{driver: {imagePullPolicy: Sometimes}}", `Unsupported value: "Sometimes"`},
		{"an unknown memory unit", `{gcusharePlugin: {memoryUnit: "2"}}`, `Unsupported value: "2"`},
		{"a name that is no name", "{driver: {name: Not_A_Name}}", "spec.driver.name"},
		{"a version that is no tag", "{driver: {version: 'a b'}}", "spec.driver.version"},
		{"a volume without path", "{nightingale: {mysql-pv: {name: x}}}", "spec.nightingale.mysql-pv.hostpath: Required value"},
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
		{"an empty spec", "{}"},
		{"shared cards with the device plugin switched off", "{devicePlugin: {notDeploy: true}, gcusharePlugin: {}, gcushareScheduler: {}}"},
		{"shared cards without their scheduler", "{gcusharePlugin: {}}"},
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
	want := map[string]any{
		"nfd":            map[string]any{"notDeploy": false, "name": "node-feature-discovery-ds", "namespace": "kube-system"},
		"driver":         fields(nil),
		"nightingale":    map[string]any{"notDeploy": false, "namespace": "enflame"},
		"gcusharePlugin": fields(map[string]any{"memoryUnit": "1"}),
		"volcano":        map[string]any{"notDeploy": false, "namespace": "volcano-system"},
	}
	if diff := cmp.Diff(want, gr.Object["spec"]); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
}

func TestAllKeysRoundTrip(t *testing.T) {
	const fields = `{notDeploy: true, image: i, imagePullPolicy: Always, name: nm, namespace: ns, repository: r.example/x, version: v1,
	  env: [{name: A, value: b}], nodeSelector: {k: v}}`
	spec := strings.ReplaceAll(`{driver: F, toolkit: F, devicePlugin: F, exporter: F, gfd: F, gcushareScheduler: F,
	  nfd: {notDeploy: true, name: nm, namespace: ns, nodeSelector: {k: v}, master: F, worker: F},
	  gcusharePlugin: {notDeploy: true, image: i, imagePullPolicy: Always, name: nm, namespace: ns, repository: r.example/x, version: v1,
	    env: [{name: A, value: b}], nodeSelector: {k: v}, memoryUnit: "0.1", gcushareNodes: [a, b]},
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
	if diff := cmp.Diff(want, gr.Object["spec"]); diff != "" {
		t.Errorf("stored spec (-want +got):\n%s", diff)
	}
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

func TestKubectlShowsTheColumnsOfTheContract(t *testing.T) {
	crd := &unstructured.Unstructured{}
	crd.SetAPIVersion("apiextensions.k8s.io/v1")
	crd.SetKind("CustomResourceDefinition")
	if err := testClient(t).Get(context.Background(), client.ObjectKey{Name: "gcuresources.topsops.enflame.com"}, crd); err != nil {
		t.Fatal(err)
	}
	versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
	if err != nil {
		t.Fatal(err)
	}
	columns, _, err := unstructured.NestedSlice(versions[0].(map[string]any), "additionalPrinterColumns")
	if err != nil {
		t.Fatal(err)
	}
	var shown []string
	for _, c := range columns {
		column := c.(map[string]any)
		if column["priority"] == nil { // -o wide shows the others
			shown = append(shown, column["name"].(string)+" "+column["jsonPath"].(string))
		}
	}
	want := []string{"READY .status.readyResource", "STATUS .status.phase", "AGE .metadata.creationTimestamp"}
	if diff := cmp.Diff(want, shown); diff != "" {
		t.Errorf("columns (-want +got):\n%s", diff)
	}
	names, _, err := unstructured.NestedMap(crd.Object, "spec", "names")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]any{"gr"}, names["shortNames"]); diff != "" || names["singular"] != "gcuresource" {
		t.Errorf("names: %v", names)
	}
}

func TestTheExamplesAreAccepted(t *testing.T) {
	for _, name := range []string{"gcu-resource.json", "gcu-resource.yaml", "gcu-resource-driver.json"} {
		gr := example(t, name)
		gr.ObjectMeta = metav1.ObjectMeta{Name: "schema-example"}
		if err := testClient(t).Create(context.Background(), gr, client.DryRunAll, client.FieldValidation("Strict")); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
