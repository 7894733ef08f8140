package main

import (
	"os"
	"strings"
	"testing"
)

func TestAReleaseIsMadeOfACommit(t *testing.T) {
	t.Chdir(t.TempDir())
	git := func(args ...string) {
		t.Helper()
		_, err := call(t.Context(), []string{"GIT_CONFIG_GLOBAL=/dev/null"}, "git", append([]string{"-c", "user.name=a", "-c", "user.email=a@example.com"}, args...)...)
		check(t, err)
	}
	git("init")
	git("commit", "--allow-empty", "--message=first")
	git("tag", "v0.9.0")
	git("tag", "--annotate", "--message=first", "v0.9.1")
	git("commit", "--allow-empty", "--message=second")
	git("tag", "v1.0.0")
	git("tag", "--annotate", "--message=second", "v1.0.1")
	expect := func(version, want string) {
		t.Helper()
		r := &release{version: version}
		if err := r.isCommitted(t.Context()); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", version, err, want)
		}
	}
	for version, want := range map[string]string{
		"v1.0.0": "", "v1.0.1": "", "v2.0.0": "",
		"v0.9.0": "git checkout v0.9.0", "v0.9.1": "git checkout v0.9.1",
	} {
		expect(version, want)
	}
	check(t, os.WriteFile("new.yaml", nil, 0o600)) // the chart is packed with all files of its folder
	expect("v1.0.0", "new.yaml\ncommit or stash them, or try with DIRTY=1")
	r := &release{version: "v1.0.0", dirty: true}
	check(t, r.isCommitted(t.Context()))
}
