package request

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// blueprint returns a gr with a driver version, as JSON.
func blueprint(name, version string) string {
	return fmt.Sprintf(`{"apiVersion": "topsops.enflame.com/v1", "kind": "GcuResource", "metadata": {"name": %q}, "spec": {"driver": {"version": %q}}}`, name, version)
}

// badBlueprint is an invalid blueprint of gr strict.
type badBlueprint struct{ name, content, says string }

func badBlueprints() []badBlueprint {
	good := strings.TrimSuffix(blueprint("strict", "2"), "}")
	var bomb strings.Builder
	bomb.WriteString("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n")
	for i := range 9 {
		fmt.Fprintf(&bomb, "a%d: &a%d [*a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d]\n", i+1, i+1, i, i, i, i, i, i, i, i, i)
	}
	return []badBlueprint{
		{"empty.json", "", "cannot be read"},
		{"empty.yaml", "", "not YAML"},
		{"cut.json", good, "cannot be read"},
		{"yaml.json", "apiVersion: topsops.enflame.com/v1", "cannot be read"},
		{"text.yaml", "hello", "cannot be read"},
		{"list.json", "[" + good + "}]", "cannot be read"},
		{"kubectl-list.json", `{"apiVersion": "v1", "kind": "List", "items": []}`, "unknown field"},
		{"unknown.json", strings.Replace(good, `"driver"`, `"drivers"`, 1) + "}", `unknown field "spec.drivers"`},
		{"case.json", strings.Replace(good, `"version"`, `"Version"`, 1) + "}", `unknown field "spec.driver.Version"`},
		{"twice.json", strings.Replace(good, `"version"`, `"version": "1", "version"`, 1) + "}", `duplicate field "spec.driver.version"`},
		{"twice.yaml", "apiVersion: topsops.enflame.com/v1\nkind: GcuResource\nmetadata: {name: strict}\nmetadata: {name: strict}\n", "already"},
		{"two.yaml", "apiVersion: topsops.enflame.com/v1\nkind: GcuResource\nmetadata: {name: strict}\n---\napiVersion: v1\n", "more than one YAML document"},
		{"bomb.yaml", bomb.String(), "anchors or aliases"},
		{"merge.yaml", "x: &x {name: strict}\nmetadata: {<<: *x}\n", "anchors or aliases"},
		{"deep.yaml", strings.Repeat("[", 300000), "not YAML"},
		{"deep.json", strings.Repeat("[", 300000), "cannot be read"},
		{"type.json", strings.Replace(good, `"2"`, `2`, 1) + "}", "cannot be read"},
		{"namespace.json", strings.Replace(good, `"name"`, `"namespace": "default", "name"`, 1) + "}", "has no namespace"},
		{"renamed.json", strings.Replace(good, "strict", "loose", 1) + "}", "cannot be renamed"},
		{"version.json", strings.Replace(good, "com/v1", "com/v2", 1) + "}", "it must be a GcuResource of topsops.enflame.com/v1"},
		{"kind.json", strings.Replace(good, "GcuResource", "UpgradePolicy", 1) + "}", "it must be a GcuResource of topsops.enflame.com/v1"},
		{"ends-early.yaml", "apiVersion: topsops.enflame.com/v1\nkind: GcuResource\nmetadata: {name: strict}\n", "has no spec"},
		{"bare.yaml", "apiVersion: topsops.enflame.com/v1\nkind: GcuResource\nmetadata: {name: strict}\nspec:\n", "has no spec"},
		{"null.json", `{"apiVersion": "topsops.enflame.com/v1", "kind": "GcuResource", "metadata": {"name": "strict"}, "spec": null}`, "has no spec"},
		{"bare-component.yaml", "apiVersion: topsops.enflame.com/v1\nkind: GcuResource\nmetadata: {name: strict}\nspec:\n  gfd: {}\n  driver:\n", "spec.driver is null"},
		{"null-below.json", strings.Replace(good, `"2"`, `"2", "env": [{"name": "A"}, null]`, 1) + "}", "spec.driver.env[1] is null"},
	}
}

func TestBadBlueprintsAreRefused(t *testing.T) {
	for _, bad := range badBlueprints() {
		upgrade := Upgrade{File: bad.name}
		if _, err := upgrade.Blueprint("strict", []byte(bad.content)); !isBadRequest(err) || !strings.Contains(err.Error(), bad.says) {
			t.Errorf("%s: %v, want %q", bad.name, err, bad.says)
		}
	}
}

// An empty spec asks for no component. That has to be written.
func TestABlueprintMayAskForNothing(t *testing.T) {
	for name, content := range map[string]string{
		"gr.yaml": "apiVersion: topsops.enflame.com/v1\nkind: GcuResource\nmetadata: {name: strict, creationTimestamp: null}\nspec: {}\n",
		"gr.json": `{"apiVersion": "topsops.enflame.com/v1", "kind": "GcuResource", "metadata": {"name": "strict"}, "spec": {}}`,
	} {
		upgrade := Upgrade{File: name}
		if gr, err := upgrade.Blueprint("strict", []byte(content)); err != nil || gr.Spec.Driver != nil {
			t.Errorf("%s: %v, %v", name, gr, err)
		}
	}
}

// isBadRequest reports whether an error has status 400.
func isBadRequest(err error) bool {
	refusal, ok := errors.AsType[*Refusal](err)
	return ok && refusal.Status == statusBadRequest
}

func TestNamesOfBlueprints(t *testing.T) {
	for name, good := range map[string]bool{"gr.json": true, "GR-1_2.yaml": true, "a": true, "": false, "..": false, ".gr.json": false, "a/b": false, "/a": false, `a\b`: false,
		"a b": false, "a\n": false, "-a": false, strings.Repeat("a", 253): true, strings.Repeat("a", 254): false} {
		if err := CheckBlueprintName(name); (err == nil) != good {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// FuzzBlueprint checks that what is accepted is one gr, which is the same after encoding
// and decoding, and not much larger than its file.
func FuzzBlueprint(f *testing.F) {
	for _, bad := range badBlueprints() {
		if len(bad.content) < 10_000 {
			f.Add(bad.name, []byte(bad.content))
		}
	}
	f.Add("gr.json", []byte(blueprint("strict", "1")))
	f.Add("gr.yaml", []byte("apiVersion: topsops.enflame.com/v1\nkind: GcuResource\nmetadata: {name: strict}\nspec:\n  driver:\n    env: [{name: A, value: \"b\"}]\n"))
	f.Add("gr", []byte("{}"))
	f.Add("gr.yaml", []byte("spec:\n  driver:\n    env: []\n"))
	f.Fuzz(func(t *testing.T, name string, data []byte) {
		gr, err := parseBlueprint(name, data)
		if err != nil {
			if !isBadRequest(err) {
				t.Errorf("%q is refused with %v", data, err)
			}
			return
		}
		if strings.HasSuffix(name, ".json") && !json.Valid(data) {
			t.Errorf("%q is taken for JSON", data)
		}
		out, err := json.Marshal(gr)
		if err != nil {
			t.Fatal(err)
		}
		if len(out) > 20*len(data)+1000 {
			t.Errorf("%d bytes became %d", len(data), len(out))
		}
		again, err := parseBlueprint("again.json", out)
		if err != nil {
			t.Fatalf("%s is not read again: %v", out, err)
		}
		if diff := cmp.Diff(gr, again, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("read again (-want +got):\n%s", diff)
		}
		if checkBlueprint(name, gr, "strict") == nil {
			made := (&Desired{Blueprint: gr, whole: true}).Recreated(&topsv1.GcuResource{})
			if made.Name != "strict" || made.Namespace != "" || made.UID != "" || made.Finalizers != nil || made.OwnerReferences != nil {
				t.Errorf("created would be %+v", made.ObjectMeta)
			}
			for _, key := range []string{topsv1.AnnotationRollbackTo, topsv1.AnnotationUpgradePlan, topsv1.AnnotationUpgradeOnly} {
				if metav1.HasAnnotation(made.ObjectMeta, key) {
					t.Errorf("%s is taken over", key)
				}
			}
		}
	})
}
