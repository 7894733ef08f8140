package topscloud

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/test/golden"
)

func TestConvert(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("testdata", "newer.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var in map[string]any
	if err := yaml.Unmarshal(data, &in); err != nil {
		t.Fatal(err)
	}
	before, _ := yaml.Marshal(in)
	out, notes, err := Convert(in)
	if err != nil {
		t.Fatal(err)
	}
	if after, _ := yaml.Marshal(in); string(after) != string(before) {
		t.Error("the input was changed")
	}
	text, err := yaml.Marshal(out)
	if err != nil {
		t.Fatal(err)
	}
	var gr topsv1.GcuResource
	if err := yaml.UnmarshalStrict(text, &gr); err != nil {
		t.Errorf("the result is no gr: %v", err)
	}
	got := string(text) + "---\n"
	for _, n := range notes {
		got += n.String() + "\n"
	}
	golden.Check(t, "ours.txt", got)
}

func TestConvertRefuses(t *testing.T) {
	for in, want := range map[string]string{
		`{apiVersion: topsops.enflame.com/v1, kind: GcuResource, metadata: {name: a}}`:                                              "of topsops.enflame.com/v1 already",
		`{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: a}}`:                                                               "not a GcuResource of topscloud.enflame.com",
		`{apiVersion: topscloud.enflame.com/v1, kind: Other, metadata: {name: a}}`:                                                  "not a GcuResource of topscloud.enflame.com",
		`{apiVersion: topscloud.enflame.com/v1, kind: GcuResource}`:                                                                 "metadata.name is missing",
		`{apiVersion: topscloud.enflame.com/v1, kind: GcuResource, metadata: {name: a}, spec: {containerToolkit: {}, toolkit: {}}}`: "appears twice",
		`{}`: "not a GcuResource",
	} {
		var object map[string]any
		if err := yaml.Unmarshal([]byte(in), &object); err != nil {
			t.Fatal(err)
		}
		if _, _, err := Convert(object); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", in, err, want)
		}
	}
}

// A field that the API server does not have is lost, and one that it refuses is noted: whoever creates
// the result gets what was converted.
func TestConvertNotesWhatTheAPIServerDoesNotTake(t *testing.T) {
	const mysql = "spec.nightingale.mysql-pv"
	for in, want := range map[string]string{
		`{Driver: {version: "2"}}`:                                      "lost: spec.Driver: this operator has no such component",
		`{driver: {Image: x}}`:                                          "lost: spec.driver.Image: this operator has no such field",
		`{gcuSharePlugin: {}}`:                                          "lost: spec.gcuSharePlugin: this operator has no such component",
		`{gcusharePlugin: {memoryunit: "1", version: a}}`:               "lost: spec.gcusharePlugin.memoryunit: this operator has no such field",
		`{nfd: {name: a, master: {Image: x}}}`:                          "lost: spec.nfd.master.Image: this operator has no such field",
		`{driver: {imagePullPolicy: always, version: a}}`:               `note: spec.driver.imagePullPolicy: is "always", which the API server refuses: it is one of Always, IfNotPresent, Never`,
		`{gcuExporter: {imagePullPolicy: never, version: a}}`:           `note: spec.gcuExporter.imagePullPolicy: is "never", which the API server refuses: it is one of Always, IfNotPresent, Never`,
		`{gcusharePlugin: {memoryUnit: "5", version: a}}`:               `note: spec.gcusharePlugin.memoryUnit: is "5", which the API server refuses: it is one of 1, 0.1, 0.01, 0.001`,
		`{gcusharePlugin: {gcushareNodes: [""], version: a}}`:           `note: spec.gcusharePlugin.gcushareNodes[0]: is "", which the API server refuses: it has to have a value`,
		`{driver: {name: A_B, version: a}}`:                             `note: spec.driver.name: is "A_B", which the API server refuses: it has to match ^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`,
		`{driver: {env: [{value: a}], version: a}}`:                     "note: spec.driver.env[0].name: is missing: the API server refuses spec.driver.env[0] without it",
		`{nightingale: {mysql-pv: {name: x}}}`:                          "note: " + mysql + ".hostpath: is missing: the API server refuses " + mysql + " without it",
		`{nightingale: {mysql-pv: {name: x, hostpath: data}}}`:          "note: " + mysql + `.hostpath: is "data", which the API server refuses: it has to match ^/`,
		`{driver: {name: ` + strings.Repeat("a", 64) + `, version: a}}`: `note: spec.driver.name: is "` + strings.Repeat("a", 64) + `", which the API server refuses: it has to have at most 63 characters`,
	} {
		var spec map[string]any
		if err := yaml.Unmarshal([]byte(in), &spec); err != nil {
			t.Fatal(err)
		}
		out, notes, err := Convert(map[string]any{"apiVersion": Group + "/v1", "kind": "GcuResource", "metadata": map[string]any{"name": "a"}, "spec": spec})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, n := range notes {
			if !strings.HasSuffix(n.Field, ".version") {
				got = append(got, n.String())
			}
		}
		got = slices.DeleteFunc(got, func(n string) bool { return strings.HasSuffix(n, "is exporter here") })
		if len(got) != 1 || got[0] != want {
			t.Errorf("%s: %q, want %q; result %v", in, got, want, out)
		}
	}
}
