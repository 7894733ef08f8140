package assets

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"
)

const goMod = `module example

require go.etcd.io/etcd/server/v3 v3.6.8

require (
	k8s.io/kubernetes v1.36.3 // indirect
	sigs.k8s.io/kwok v0.8.0
)
`

func module(mod, pause string) fstest.MapFS {
	return fstest.MapFS{
		modFile:         {Data: []byte(mod)},
		sumFile:         {Data: []byte("sums")},
		"pause/main.go": {Data: []byte(pause)},
	}
}

func TestModuleVersion(t *testing.T) {
	for module, want := range map[string]string{
		"k8s.io/kubernetes":         "v1.36.3",
		"go.etcd.io/etcd/server/v3": "v3.6.8",
		"sigs.k8s.io/kwok":          "v0.8.0",
	} {
		if got, err := moduleVersion(goMod, module); err != nil || got != want {
			t.Errorf("%s: got %q, %v; want %q", module, got, err, want)
		}
	}
	if got, err := moduleVersion(goMod, "k8s.io/kube"); err == nil {
		t.Errorf("got version %q of a module that is not required", got)
	}
}

func TestLocateNamesTheFolderByTheInputsOfTheBuild(t *testing.T) {
	root := t.TempDir()
	locate := func(files fstest.MapFS) string {
		t.Helper()
		a, err := Locate([]fs.FS{files}, root)
		if err != nil {
			t.Fatal(err)
		}
		return a.Dir
	}
	base := locate(module(goMod, "package main"))
	if again := locate(module(goMod, "package main")); again != base {
		t.Errorf("the same module has folders %s and %s", base, again)
	}
	if other := locate(module(goMod, "package main // changed")); other == base {
		t.Error("a changed pause command has the same folder")
	}
	if other := locate(module(goMod+"// changed", "package main")); other == base {
		t.Error("a changed go.mod has the same folder")
	}
	if filepath.Dir(base) != root {
		t.Errorf("got folder %s, want it in %s", base, root)
	}
}

// Another version of Kubernetes comes from its own module, everything else from that of the default one.
func TestAnotherVersionOfKubernetes(t *testing.T) {
	ours, err := Versions("")
	if err != nil {
		t.Fatal(err)
	}
	known, err := Locate(ours, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if same, err := Versions(known.KubernetesVersion); err != nil || len(same) != 1 {
		t.Errorf("the default version by its name has %d modules, %v", len(same), err)
	}
	for _, version := range []string{"1.30.14", "v1.37.1"} {
		modules, err := Versions(version)
		if err != nil {
			t.Fatal(err)
		}
		other, err := Locate(modules, t.TempDir())
		if err != nil || strings.TrimPrefix(other.KubernetesVersion, "v") != strings.TrimPrefix(version, "v") || filepath.Base(other.Dir) == filepath.Base(known.Dir) {
			t.Errorf("Kubernetes %s is %s in %s, %v", version, other.KubernetesVersion, other.Dir, err)
		}
		for _, b := range binaries {
			got, module, err := versionIn(modules, b)
			if kube := b.module == kubernetesModule; err != nil || kube != (module == 0) || kube != (got == other.KubernetesVersion) {
				t.Errorf("%s %s is built from module %d, %v", b.name, got, module, err)
			}
		}
	}
	if _, err := Versions("1.5.0"); err == nil || !strings.Contains(err.Error(), known.KubernetesVersion) || !strings.Contains(err.Error(), "v1.37.1") {
		t.Errorf("a version that is not here: %v", err)
	}
}

func TestMissingIgnoresHalfBuiltBinaries(t *testing.T) {
	a, err := Locate([]fs.FS{module(goMod, "package main")}, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(a.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"etcd", partialPrefix + "kwok"} {
		if err := os.WriteFile(a.Path(name), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "kubelet", "pause", "kwok"}
	if got := a.Missing(); !slices.Equal(got, want) {
		t.Errorf("got missing %v, want %v", got, want)
	}
	if err := a.removePartial(); err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(a.Path(partialPrefix + "*")); len(left) != 0 {
		t.Errorf("an interrupted build was not removed: %v", left)
	}
}

func TestLockIsExclusive(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := lock(t.Context(), path, func() { t.Error("the first lock waits") })
	if err != nil {
		t.Fatal(err)
	}
	waited := false
	ctx, cancel := context.WithTimeout(t.Context(), 2*lockPoll)
	defer cancel()
	if _, err := lock(ctx, path, func() { waited = true }); !errors.Is(err, context.DeadlineExceeded) || !waited {
		t.Errorf("got %v (waited: %v), want the second lock to wait", err, waited)
	}
	unlock()
	ctx, cancel = context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	again, err := lock(ctx, path, func() {})
	if err != nil {
		t.Fatalf("the lock was not released: %v", err)
	}
	again()
}

func TestGoBuildReturnsTheCompilersMessage(t *testing.T) {
	dir := t.TempDir()
	files := fstest.MapFS{modFile: {Data: []byte("module example\n")}, sumFile: {}, "pause/main.go": {Data: []byte("package main\nfunc main() { nonsense() }\n")}}
	if err := writeModule(files, dir); err != nil {
		t.Fatal(err)
	}
	output := filepath.Join(dir, "out")
	err := goBuild(t.Context(), dir, "./pause", output, []string{"-trimpath"})
	if err == nil || !strings.Contains(err.Error(), "undefined: nonsense") {
		t.Errorf("got %v, want the compiler's message", err)
	}
	if _, err := os.Stat(output); err == nil {
		t.Error("a failed build left a binary")
	}
}
