package gcuresource

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

const goodOperation = `{id: op-1, nodeUID: u, revision: r, targets: [{component: driver, revision: abc,
  daemonSet: {namespace: ns, name: driver, uid: d}}], job: [[n1_node_precheck], [n1_driver_replace, n1_toolkit_replace]]}`

// storedOperation creates a NodeUpgrade with an operation given in YAML.
func storedOperation(t *testing.T, operation string) (*unstructured.Unstructured, error) {
	t.Helper()
	var op map[string]any
	if err := yaml.Unmarshal([]byte(operation), &op); err != nil {
		t.Fatal(err)
	}
	nu := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"operation": op}}}
	nu.SetGroupVersionKind(topsv1.GroupVersion.WithKind("NodeUpgrade"))
	nu.SetName("schema")
	err := testClient(t).Create(t.Context(), nu, client.FieldValidation("Strict"))
	if err == nil {
		t.Cleanup(func() { deleteNow(t, nu) })
	}
	return nu, err
}

func deleteNow(t *testing.T, o client.Object) {
	t.Helper()
	if err := testClient(t).Delete(context.Background(), o); client.IgnoreNotFound(err) != nil {
		t.Error(err)
	}
}

func TestBadOperationsAreRefused(t *testing.T) {
	for _, tc := range []struct{ name, from, to, says string }{
		{"an id that is no id", "id: op-1", "id: 'a b'", "spec.operation.id"},
		{"a task that is none", "n1_node_precheck", "precheck", "spec.operation.job[0][0]"},
		{"an empty stage", "[n1_node_precheck]", "[]", "spec.operation.job[0]"},
		{"a component twice", "targets: [", "targets: [{component: driver, revision: x, daemonSet: {namespace: ns, name: d, uid: u}}, ", "Duplicate value"},
		{"a target without a revision", "revision: abc,", "", "spec.operation.targets[0].revision"},
		{"an unknown purpose", "revision: r,", "revision: r, purpose: Fun,", `Unsupported value: "Fun"`},
		{"a deadline in the past", "revision: r,", "revision: r, deadlines: {soakSeconds: -1},", "spec.operation.deadlines.soakSeconds"},
		{"a runtime that is a command", "revision: r,", "revision: r, defaultRuntime: 'a;b',", "spec.operation.defaultRuntime"},
		{"an unknown key", "revision: r,", "revision: r, force: true,", `unknown field "spec.operation.force"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if _, err := storedOperation(t, strings.Replace(goodOperation, tc.from, tc.to, 1)); err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("got %v, want %q", err, tc.says)
			}
		})
	}
}

func TestAnOperationKeepsWhatItIsAbout(t *testing.T) {
	for _, tc := range []struct{ name, patch, says string }{
		{"its job stays", `{"spec":{"operation":{"job":[["n1_node_precheck"]]}}}`, "use another id"},
		{"its node stays", `{"spec":{"operation":{"nodeUID":"other"}}}`, "use another id"},
		{"its purpose stays", `{"spec":{"operation":{"purpose":"Rollback"}}}`, "use another id"},
		{"an abort stays", `{"spec":{"operation":{"abort":false}}}`, "abort cannot be reverted"},
		{"another operation may take its place", `{"spec":{"operation":{"id":"op-2","abort":false,"job":[["n1_node_precheck"]]}}}`, ""},
		{"it may be withdrawn", `{"spec":{"operation":null}}`, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			nu, err := storedOperation(t, strings.Replace(goodOperation, "revision: r,", "revision: r, abort: true,", 1))
			if err != nil {
				t.Fatal(err)
			}
			err = testClient(t).Patch(t.Context(), nu, client.RawPatch("application/merge-patch+json", []byte(tc.patch)))
			if (err == nil) != (tc.says == "") || err != nil && !strings.Contains(err.Error(), tc.says) {
				t.Errorf("got %v, want %q", err, tc.says)
			}
		})
	}
}

// TestWritersOfANodeUpgradeDoNotTakeFromEachOther applies the parts of a status like their
// writers.
func TestWritersOfANodeUpgradeDoNotTakeFromEachOther(t *testing.T) {
	nu, err := storedOperation(t, goodOperation)
	if err != nil {
		t.Fatal(err)
	}
	const now = "2030-01-01T00:00:00Z"
	parts := []struct{ manager, status string }{
		{"gcu-node-agent", `{agent: {version: v1}, requests: [{id: a, requestTime: "` + now + `", daemonSet: {namespace: ns, name: d, uid: u}, pod: {namespace: ns, name: p, uid: u}}]}`},
		{"gcu-host-agent", `{host: {time: "` + now + `", results: [{operation: op-1, task: n1_node_restart-runtime, state: Done}]}}`},
		{"gcu-nodeupgrade", `{operation: {id: op-1, phase: Running, since: "` + now + `", startTime: "` + now + `", task: n1_node_evict, tasks: [{name: n1_node_evict, state: Running}]},
		  history: [{id: op-0, phase: Done, startTime: "` + now + `", endTime: "` + now + `", result: {done: [n1_node_precheck]}}]}`},
		{"gcu-nodeupgrade", `{operation: {id: op-1, phase: Running, since: "` + now + `", startTime: "` + now + `", task: n1_driver_replace, tasks: [{name: n1_driver_replace, state: Running}]}}`},
	}
	for _, part := range parts {
		var status map[string]any
		if err := yaml.Unmarshal([]byte(part.status), &status); err != nil {
			t.Fatal(err)
		}
		applied := &unstructured.Unstructured{Object: map[string]any{"status": status}}
		applied.SetGroupVersionKind(nu.GroupVersionKind())
		applied.SetName(nu.GetName())
		if err := testClient(t).Status().Apply(t.Context(), client.ApplyConfigurationFromUnstructured(applied), client.FieldOwner(part.manager)); err != nil {
			t.Fatalf("%s: %v", part.manager, err)
		}
	}
	got := &topsv1.NodeUpgrade{}
	if err := testClient(t).Get(t.Context(), client.ObjectKeyFromObject(nu), got); err != nil {
		t.Fatal(err)
	}
	s := got.Status
	if s.Agent == nil || len(s.Requests) != 1 || s.Host == nil || s.Host.Result("op-1", "n1_node_restart-runtime") == nil {
		t.Errorf("parts of the agent are gone: %+v", s)
	}
	if s.Operation == nil || len(s.Operation.Tasks) != 1 || s.Operation.Task != "n1_driver_replace" || len(s.History) != 0 {
		t.Errorf("the operation is not what was applied last: %+v", s)
	}
}

func TestTheColumnsOfANodeUpgrade(t *testing.T) {
	crd := &unstructured.Unstructured{}
	crd.SetGroupVersionKind(topsv1.GroupVersion.WithKind("CustomResourceDefinition"))
	crd.SetAPIVersion("apiextensions.k8s.io/v1")
	if err := testClient(t).Get(t.Context(), client.ObjectKey{Name: "nodeupgrades.topsops.enflame.com"}, crd); err != nil {
		t.Fatal(err)
	}
	var seen struct {
		Spec struct {
			Versions []struct {
				AdditionalPrinterColumns []struct {
					Name     string
					Priority int
				}
			}
		}
	}
	data, err := json.Marshal(crd.Object)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &seen); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, column := range seen.Spec.Versions[0].AdditionalPrinterColumns {
		if column.Priority == 0 {
			names = append(names, column.Name)
		}
	}
	if diff := cmp.Diff([]string{"PHASE", "TASK", "SINCE", "REQUEST", "REQUEST-MESSAGE", "MESSAGE"}, names); diff != "" {
		t.Error(diff)
	}
}
