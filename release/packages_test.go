package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/topsops/gcu-operator/test/need"
)

func TestWithoutWhatMakesPackagesThereIsNoRelease(t *testing.T) {
	r := made(t)
	check(t, os.WriteFile(r.file("kept"), nil, 0o600))
	for _, missing := range []string{"", filepath.Join(r.work, "nfpm")} {
		r.nfpm = missing
		if err := r.run(t.Context()); err == nil || !strings.Contains(err.Error(), "make fetch compiles it, PACKAGES=no leaves them out") {
			t.Errorf("nfpm %q: %v", missing, err)
		}
	}
	if _, err := os.Stat(r.file("kept")); err != nil {
		t.Error("the folder was emptied")
	}
}

func TestAReleaseHasAllFilesAndNoOthers(t *testing.T) {
	r := made(t)
	for nfpm, want := range map[string]int{none: 29, "nfpm": 33} {
		r.nfpm = nfpm
		names := r.expected()
		if len(names) != want {
			t.Errorf("nfpm %s: %d files, want %d: %q", nfpm, len(names), want, names)
		}
		for _, name := range names {
			check(t, r.write(name, nil))
		}
		check(t, r.isComplete(t.Context()))
	}
	check(t, r.write("other", nil))
	if err := r.isComplete(t.Context()); err == nil {
		t.Error("another file is not noticed")
	}
	check(t, os.Remove(r.file("other")))
	check(t, os.Remove(r.file("install.yaml")))
	if err := r.isComplete(t.Context()); err == nil {
		t.Error("a missing file is not noticed")
	}
}

// TestThePackagesAreInstalled: dpkg and rpm install them into an empty folder, where the program runs, and remove them.
func TestThePackagesAreInstalled(t *testing.T) {
	cache, err := os.UserCacheDir()
	check(t, err)
	tools, err := filepath.Glob(filepath.Join(cache, "gcu-operator-tools", "nfpm-*"))
	check(t, err)
	if len(tools) == 0 {
		need.Skip(t, "the packages: make fetch compiles nfpm")
	}
	if os.Geteuid() != 0 || runtime.GOOS != "linux" {
		need.Skip(t, "the packages: root on Linux installs them")
	}
	r := made(t)
	r.nfpm = tools[len(tools)-1]
	for _, p := range onLinux {
		_, err := call(t.Context(), []string{"GOOS=linux", "GOARCH=" + runtime.GOARCH}, "go", "build", r.flags(), "-o", r.program("node-agent", p), "./cmd/node-agent")
		check(t, err)
	}
	check(t, r.packages(t.Context()))
	for packager, commands := range map[string]struct {
		database        string
		install, remove []string
	}{
		"deb": {"var/lib/dpkg", []string{"dpkg", "--install"}, []string{"dpkg", "--remove"}},
		"rpm": {"var/lib/rpm", []string{"rpm", "--install", "--nodeps"}, []string{"rpm", "--erase"}},
	} {
		t.Run(packager, func(t *testing.T) {
			if _, err := exec.LookPath(commands.install[0]); err != nil {
				need.Skip(t, "the "+packager+": "+err.Error())
			}
			root := t.TempDir()
			check(t, os.MkdirAll(filepath.Join(root, commands.database, "updates"), 0o755))
			check(t, os.WriteFile(filepath.Join(root, commands.database, "status"), nil, 0o600))
			do := func(command []string, what string) {
				t.Helper()
				_, err := call(t.Context(), nil, command[0], append([]string{"--root=" + root}, append(command[1:], what)...)...)
				check(t, err)
			}
			do(commands.install, r.file(archiveName("node-agent", r.version, platform{"linux", runtime.GOARCH})+"."+packager))
			said, err := call(t.Context(), nil, filepath.Join(root, "usr/bin/node-agent"), "--version")
			check(t, err)
			if !strings.Contains(string(said), "v1.2.3") {
				t.Errorf("node-agent --version says %s", said)
			}
			for _, file := range []string{"bash-completion/completions/node-agent", "zsh/site-functions/_node-agent", "fish/vendor_completions.d/node-agent.fish", "doc/node-agent/copyright"} {
				if info, err := os.Stat(filepath.Join(root, "usr/share", file)); err != nil || info.Size() == 0 || info.Mode().Perm() != 0o644 {
					t.Errorf("%s: %v %v", file, info, err)
				}
			}
			do(commands.remove, "node-agent")
			if _, err := os.Stat(filepath.Join(root, "usr/bin/node-agent")); err == nil {
				t.Error("it is not removed")
			}
		})
	}
}
