package topscloud

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// FuzzConvert checks that a result is a gr, that each field of the spec is in it or in a note, and that
// a result is not converted again.
func FuzzConvert(f *testing.F) {
	data, err := os.ReadFile(filepath.Join("testdata", "newer.yaml"))
	if err != nil {
		f.Fatal(err)
	}
	const head = "apiVersion: topscloud.enflame.com/v1\nkind: GcuResource\nmetadata: {name: a, namespace: b}\n"
	f.Add(data)
	f.Add([]byte(head + "spec: {driver: {version: 1, env: [{name: A, value: x, other: y}]}, containerToolkit: {version: [], notDeploy: true}}"))
	f.Add([]byte(head + "spec: {driver: null, nodeExporter: {}, Driver: {}, \"\": {}, unknown: [1, {a: b}]}"))
	f.Add([]byte(head + "spec: [driver]"))
	f.Add([]byte("apiVersion: topsops.enflame.com/v1\nkind: GcuResource"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var in map[string]any
		if yaml.Unmarshal(data, &in) != nil {
			return
		}
		before, err := json.Marshal(in)
		if err != nil {
			return
		}
		out, notes, err := Convert(in)
		if after, _ := json.Marshal(in); string(after) != string(before) {
			t.Error("the input was changed")
		}
		if err != nil {
			if out != nil || notes != nil {
				t.Errorf("a result with error %v", err)
			}
			return
		}
		text, err := json.Marshal(out)
		if err != nil {
			t.Fatal(err)
		}
		var gr topsv1.GcuResource
		if err := yaml.UnmarshalStrict(text, &gr); err != nil {
			t.Errorf("%s is no gr: %v", text, err)
		}
		spec, _ := in["spec"].(map[string]any)
		made, _ := out["spec"].(map[string]any)
		for key, value := range spec {
			name := key
			if ours, is := alias[key]; is {
				name = ours
			}
			checkCarried(t, "spec."+key, value, made, name, notes)
		}
		if _, _, err := Convert(out); err == nil || !strings.Contains(err.Error(), "already") {
			t.Errorf("a result is converted again: %v", err)
		}
	})
}

// checkCarried checks that a field is in a result, or noted as lost.
func checkCarried(t *testing.T, field string, value any, into map[string]any, key string, notes []Note) {
	for _, n := range notes {
		if n.Lost && n.Field == field {
			return
		}
	}
	got, has := into[key]
	if !has {
		t.Errorf("%s is dropped silently", field)
		return
	}
	from, isMap := value.(map[string]any)
	to, both := got.(map[string]any)
	if isMap && both {
		for k, v := range from {
			checkCarried(t, field+"."+k, v, to, k, notes)
		}
		return
	}
	want, _ := json.Marshal(value)
	if is, _ := json.Marshal(got); string(want) != string(is) {
		t.Errorf("%s is %s, was %s", field, is, want)
	}
}
