//go:build install

package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/topsops/gcu-operator/test/install"
)

// TestThePackagesAreInstalled: dpkg and rpm install them into an empty folder, where the program runs, and remove them. NFPM is the
// program that makes them (make test-install).
func TestThePackagesAreInstalled(t *testing.T) {
	check(t, install.Programs(t.Context(), "rpm"))
	r := made(t)
	r.nfpm = os.Getenv("NFPM")
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
			for _, file := range []string{"bash-completion/completions/node-agent", "zsh/site-functions/_node-agent", "fish/vendor_completions.d/node-agent.fish", "doc/node-agent/copyright", "doc/node-agent/NOTICE"} {
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

// TestSyftListsTheModules: twice the same, and with the modules of go.mod. SYFT is the program (make test-install).
func TestSyftListsTheModules(t *testing.T) {
	r := made(t).withPrograms(t)
	r.syft = os.Getenv("SYFT")
	program := filepath.Join(t.TempDir(), "node-agent")
	_, err := call(t.Context(), nil, "go", "build", "-o", program, "./cmd/node-agent")
	check(t, err)
	for name, on := range platforms {
		for _, p := range on {
			check(t, os.Remove(r.program(name, p)))
			check(t, os.Link(program, r.program(name, p)))
		}
	}
	lists := map[string]string{}
	for range 2 {
		check(t, r.contents(t.Context()))
		for name, on := range platforms {
			for _, p := range on {
				title := archiveName(name, r.version, p)
				text, err := os.ReadFile(r.file(title + ".spdx.json"))
				check(t, err)
				if lists[title] != "" && lists[title] != string(text) {
					t.Errorf("the second list of %s is another", title)
				}
				lists[title] = string(text)
				for _, part := range []string{"SPDX-2.3", "pkg:golang/k8s.io/client-go@v", "pkg:golang/stdlib@"} {
					if !strings.Contains(string(text), part) {
						t.Errorf("%q is not in the list of %s", part, title)
					}
				}
			}
		}
	}
}
