package topscloud

import (
	"os"
	"path/filepath"
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
