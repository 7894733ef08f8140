package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// vendorPackage is a package whose script shows what it gets; the real ones are only in the vendor's packages.
func vendorPackage(t *testing.T, files map[string]string) string {
	t.Helper()
	folder := t.TempDir()
	if files[script] == "" {
		files[script] = "#!/bin/sh\necho \"$1 in $(pwd)\"; read answer; echo \"answered $answer\"\n"
	}
	for name, text := range files {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

const theirs = `{"repo": "old.example/enflame", "driver": {"build": "false", "name": "gcu-driver"}, "exporter": {"build": true, "port": 9400}}`

// Contract 87.
func TestTheVendorsScriptBuildsWhatIsAskedFor(t *testing.T) {
	folder := vendorPackage(t, map[string]string{config: theirs, "driver/enflame-x86_64.run": ""})
	var out bytes.Buffer
	if err := run([]string{"-repository=r.example/gcu", "-driver=true", "-overwrite=no", folder}, nil, &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"build in " + folder, "answered n", "kubectl gcu images"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output has no %q:\n%s", want, &out)
		}
	}
	var got any
	text, err := os.ReadFile(filepath.Join(folder, config))
	if err != nil || json.Unmarshal(text, &got) != nil {
		t.Fatalf("%s: %v", text, err)
	}
	want := map[string]any{"repo": "r.example/gcu", "driver": map[string]any{"build": "true", "name": "gcu-driver"}, "exporter": map[string]any{"build": true, "port": 9400.0}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("config.json (-want +got):\n%s", diff)
	}
}

func TestNothingAskedForLeavesThePackageAsItIs(t *testing.T) {
	folder := vendorPackage(t, map[string]string{config: theirs})
	var out bytes.Buffer
	if err := run([]string{folder}, strings.NewReader("yes\n"), &out); err != nil || !strings.Contains(out.String(), "answered yes") {
		t.Errorf("%v:\n%s", err, &out)
	}
	if text, err := os.ReadFile(filepath.Join(folder, config)); err != nil || string(text) != theirs {
		t.Errorf("%v: %s", err, text)
	}
}

func TestWhatCannotBeBuiltIsSaid(t *testing.T) {
	for name, tt := range map[string]struct {
		files map[string]string
		args  []string
		want  string
	}{
		"no folder":                {nil, nil, "give the folder"},
		"another folder":           {map[string]string{"README": ""}, []string{}, "is not the folder component-images"},
		"a driver without files":   {map[string]string{config: theirs}, []string{"-driver=true"}, "extract a TopsRider package"},
		"a driver that is unknown": {map[string]string{config: `{"repo": ""}`}, []string{"-driver=false"}, "has no object driver"},
		"another answer":           {map[string]string{config: theirs}, []string{"-overwrite=maybe"}, "yes or no"},
		"a broken configuration":   {map[string]string{config: `{`}, []string{"-repository=r"}, "reading"},
		"a script that fails":      {map[string]string{config: theirs, script: "#!/bin/sh\nexit 3\n"}, []string{"-overwrite=yes"}, "exit status 3"},
	} {
		t.Run(name, func(t *testing.T) {
			args := tt.args
			if tt.files != nil {
				args = append(args, vendorPackage(t, tt.files))
			}
			if err := run(args, nil, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}
