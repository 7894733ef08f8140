package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// standIn is a go command that compiles nothing. It notes its cache, and makes files that differ if DIFFERENT is set.
const standIn = `#!/bin/sh
echo "$GOCACHE" >>"$NOTES"
case "$1 $2" in
"run ./images")
	for file in image_linux_amd64.tar image_linux_arm64.tar image_oci.tar; do echo "${DIFFERENT:+$GOCACHE}" >"$6/gcu-operator_$8_$file"; done
	echo "registry.test/gcu-operator:$8@sha256:00" ;;
build*) mkdir -p "$(dirname "$6")" && cp "$PROGRAM" "$6" ;;
*) exit 1 ;;
esac
`

func TestASecondReleaseIsCompiledAgainAndCompared(t *testing.T) {
	folder := t.TempDir()
	program, notes, temporary := filepath.Join(folder, "program"), filepath.Join(folder, "notes"), filepath.Join(folder, "tmp")
	check(t, os.WriteFile(filepath.Join(folder, "main.go"), []byte("package main\nfunc main() {}\n"), 0o600))
	check(t, exec.CommandContext(t.Context(), "go", "build", "-o", program, filepath.Join(folder, "main.go")).Run())
	check(t, os.WriteFile(filepath.Join(folder, "go"), []byte(standIn), 0o700))
	check(t, os.Mkdir(temporary, 0o700))
	for name, value := range map[string]string{"PATH": folder + ":" + os.Getenv("PATH"), "PROGRAM": program, "NOTES": notes, "TMPDIR": temporary, "GOCACHE": "first"} {
		t.Setenv(name, value)
	}
	r := made(t).withSyft(t)
	r.nfpm, r.dirty = none, true
	check(t, r.run(t.Context()))
	check(t, r.compare(t.Context()))
	text, err := os.ReadFile(notes)
	check(t, err)
	if caches := slices.Compact(strings.Fields(string(text))); len(caches) != 2 || caches[0] != "first" || filepath.Dir(caches[1]) != temporary {
		t.Errorf("it was compiled with the caches %q", caches)
	}
	t.Setenv("DIFFERENT", "1")
	if err := r.compare(t.Context()); err == nil || !strings.Contains(err.Error(), "has other sums") {
		t.Errorf("another image: %v", err)
	}
	left, err := os.ReadDir(temporary)
	check(t, err)
	if len(left) > 0 {
		t.Errorf("%v is left", left)
	}
}
