package assets

import (
	"context"
	"errors"
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
		a, err := Locate(files, root)
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

func TestMissingIgnoresHalfBuiltBinaries(t *testing.T) {
	a, err := Locate(module(goMod, "package main"), t.TempDir())
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
