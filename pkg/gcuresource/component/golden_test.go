package component

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// A pod template that changes with the version of the operator replaces every pod of its component.
// Where that is intended, UPDATE=1 writes the new hashes.
func TestTheTemplatesAreThoseOfTheVersionBefore(t *testing.T) {
	const golden = "testdata/templates.json"
	got := map[string]string{}
	add := func(r Rendered, suffix string) {
		for _, d := range r.Objects {
			if !d.Ref.Workload() {
				continue
			}
			template, _, err := unstructured.NestedMap(d.Object.Object, "spec", "template")
			if err != nil {
				t.Fatal(err)
			}
			encoded, err := json.Marshal(template) // sorts map keys
			if err != nil {
				t.Fatal(err)
			}
			sum := sha256.Sum256(encoded)
			got[d.Ref.String()+suffix] = hex.EncodeToString(sum[:])
		}
	}
	for _, r := range render(t, newGR(allComponents())) {
		add(r, "")
	}
	add(renderIn(t, Cluster{Distributions: true}, newGR(allComponents()))[Toolkit], " with nodes of distributions")
	if os.Getenv("UPDATE") != "" {
		encoded, err := json.MarshalIndent(got, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(golden, append(encoded, '\n'), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	raw, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	if err := json.Unmarshal(raw, &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("templates (-before +now):\n%s", diff)
	}
}
