package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/topsops/gcu-operator/test/need"
)

// unchanged reports whether the test has passed on this machine with the same test,
// testcluster, control plane, kernel and container runtimes; if so, a subtest's name
// says so in the results. With LONG set the test always runs. A pass is recorded.
func unchanged(t *testing.T, tc command) bool {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	record := filepath.Join(cache, "gcu-operator-testcluster", "passed", t.Name()+"-"+fingerprint(t, tc))
	passed, err := os.ReadFile(record)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	if err == nil && !need.Long() {
		t.Run("not run: nothing has changed since it passed on this machine at "+strings.TrimSpace(string(passed)), func(t *testing.T) {
			t.Logf("recorded in %s; LONG=1 runs it anyway", record)
		})
		return true
	}
	t.Cleanup(func() {
		if t.Failed() {
			return
		}
		text := time.Now().UTC().Format(time.RFC3339) + "\n"
		if err := errors.Join(os.MkdirAll(filepath.Dir(record), 0o755), os.WriteFile(record, []byte(text), 0o600)); err != nil {
			t.Error(err)
		}
	})
	return false
}

// fingerprint changes with everything the test depends on: the builds of the programs
// are reproducible, so their contents identify their sources.
func fingerprint(t *testing.T, tc command) string {
	t.Helper()
	sum := sha256.New()
	for _, path := range []string{os.Args[0], tc.path, "testdata/probe/main.go", "/proc/version"} {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(sum, "%s %d\n%s", filepath.Base(path), len(data), data)
	}
	for _, argv := range [][]string{{tc.path, "assets"}, {"containerd", "--version"}, {"runc", "--version"}, {"dockerd", "--version"}} {
		said, err := exec.Command(argv[0], argv[1:]...).Output()
		fmt.Fprintf(sum, "%s %s %v\n", filepath.Base(argv[0]), said, err) // a missing one is installed later
	}
	return fmt.Sprintf("%x", sum.Sum(nil)[:8])
}
