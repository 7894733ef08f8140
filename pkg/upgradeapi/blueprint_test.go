package upgradeapi

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// badBlueprint is a file that is no blueprint of gr strict.
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
		{"empty.yaml", "", "no YAML"},
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
		{"deep.yaml", strings.Repeat("[", 300000), "no YAML"},
		{"deep.json", strings.Repeat("[", 300000), "cannot be read"},
		{"large.json", good + strings.Repeat(" ", maxBlueprintBytes) + "}", "larger than"},
		{"type.json", strings.Replace(good, `"2"`, `2`, 1) + "}", "cannot be read"},
		{"namespace.json", strings.Replace(good, `"name"`, `"namespace": "default", "name"`, 1) + "}", "has no namespace"},
		{"renamed.json", strings.Replace(good, "strict", "loose", 1) + "}", "cannot be renamed"},
		{"version.json", strings.Replace(good, "com/v1", "com/v2", 1) + "}", "it has to be a GcuResource of topsops.enflame.com/v1"},
		{"kind.json", strings.Replace(good, "GcuResource", "UpgradePolicy", 1) + "}", "it has to be a GcuResource of topsops.enflame.com/v1"},
	}
}

func TestBadBlueprintsAreRefused(t *testing.T) {
	folder := t.TempDir()
	for _, bad := range badBlueprints() {
		if err := os.WriteFile(filepath.Join(folder, bad.name), []byte(bad.content), 0o644); err != nil {
			t.Fatal(err)
		}
		data, err := readBlueprint(folder, bad.name)
		if err == nil {
			var gr *topsv1.GcuResource
			if gr, err = parseBlueprint(bad.name, data); err == nil {
				err = checkBlueprint(bad.name, gr, "strict")
			}
		}
		if status, says := failure(err); err == nil || status != http.StatusBadRequest || !strings.Contains(says, bad.says) {
			t.Errorf("%s: %v, want %q", bad.name, err, bad.says)
		}
	}
}

// written is a file that somebody writes while it is read.
type written struct {
	fs.File
	write func()
}

func (w *written) Read(p []byte) (int, error) {
	w.write()
	return w.File.Read(p)
}

func TestABlueprintThatIsBeingWrittenIsNotTaken(t *testing.T) {
	half := "apiVersion: topsops.enflame.com/v1\nkind: GcuResource\nmetadata: {name: strict}\nspec: {driver: {}}\n"
	for name, write := range map[string]func(path string) error{
		"nobody writes it": func(string) error { return nil },
		"it grows": func(path string) error {
			file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			_, err = file.WriteString("status: {}\n")
			return errors.Join(err, file.Close())
		},
		"it is emptied": func(path string) error { return os.Truncate(path, 0) },
		"it is overwritten": func(path string) error {
			return errors.Join(os.WriteFile(path, []byte(strings.Replace(half, "driver", "gfd...", 1)), 0o600), os.Chtimes(path, time.Time{}, time.Unix(1, 0)))
		},
	} {
		path := filepath.Join(t.TempDir(), "gr.yaml")
		if err := os.WriteFile(path, []byte(half), 0o600); err != nil {
			t.Fatal(err)
		}
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		once := sync.OnceFunc(func() {
			if err := write(path); err != nil {
				t.Error(err)
			}
		})
		data, err := readRegular(&written{File: file, write: once}, "gr.yaml")
		if name == "nobody writes it" {
			if err != nil || string(data) != half {
				t.Errorf("%s: %v %q", name, err, data)
			}
			continue
		}
		if status, says := failure(err); err == nil || status != http.StatusConflict || !strings.Contains(says, "blueprint gr.yaml is being written") {
			t.Errorf("%s: %v %q", name, err, data)
		}
	}
}

func TestNamesOfBlueprints(t *testing.T) {
	for name, good := range map[string]bool{"gr.json": true, "GR-1_2.yaml": true, "a": true, "": false, "..": false, ".gr.json": false, "a/b": false, "/a": false, `a\b`: false,
		"a b": false, "a\n": false, "-a": false, strings.Repeat("a", 253): true, strings.Repeat("a", 254): false} {
		if err := checkBlueprintName(name); (err == nil) != good {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestAnUpgradeInPlaceKeepsWhatIsNoPartOfIt(t *testing.T) {
	present := &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: "x", UID: "u", Labels: map[string]string{"a": "b"}},
		Spec: topsv1.GcuResourceSpec{Driver: &topsv1.BaseFields{Version: "1"}, GFD: &topsv1.BaseFields{}}}
	tests := []struct {
		name               string
		has, adds, results map[string]string
	}{
		{"without a strategy the fleet is rolled", nil, nil, map[string]string{topsv1.AnnotationUpdateStrategy: "AdvancedRollingUpdate"}},
		{"a strategy stays", map[string]string{topsv1.AnnotationUpdateStrategy: "OTA"}, nil, map[string]string{topsv1.AnnotationUpdateStrategy: "OTA"}},
		{"one of OpenYurt's too", map[string]string{topsv1.OpenYurtAnnotationUpdateStrategy: "OTA"}, nil, map[string]string{topsv1.OpenYurtAnnotationUpdateStrategy: "OTA"}},
		{"a bad one too: it is said, not mended", map[string]string{topsv1.AnnotationUpdateStrategy: ""}, nil, map[string]string{topsv1.AnnotationUpdateStrategy: ""}},
		{"a pause stays", map[string]string{topsv1.AnnotationPaused: "true", "note": "x"}, nil,
			map[string]string{topsv1.AnnotationPaused: "true", "note": "x", topsv1.AnnotationUpdateStrategy: "AdvancedRollingUpdate"}},
		{"the blueprint's settings win, its other annotations are not taken", map[string]string{topsv1.AnnotationMaxUnavailable: "1"},
			map[string]string{topsv1.AnnotationMaxUnavailable: "2", topsv1.AnnotationUpdateStrategy: "OTA", "note": "x", topsv1.AnnotationRollbackTo: "previous"},
			map[string]string{topsv1.AnnotationMaxUnavailable: "2", topsv1.AnnotationUpdateStrategy: "OTA"}},
	}
	for _, tt := range tests {
		before := present.DeepCopy()
		before.Annotations = tt.has
		kept := before.DeepCopy()
		blueprint := &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: "x", Labels: map[string]string{"c": "d"}, Annotations: tt.adds},
			Spec: topsv1.GcuResourceSpec{Driver: &topsv1.BaseFields{Version: "2"}}}
		want := before.DeepCopy()
		want.Annotations, want.Spec = tt.results, blueprint.Spec
		if diff := cmp.Diff(want, upgraded(before, blueprint)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
		if diff := cmp.Diff(kept, before); diff != "" {
			t.Errorf("%s: what was read is changed:\n%s", tt.name, diff)
		}
	}
}
