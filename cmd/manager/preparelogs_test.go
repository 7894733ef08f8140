package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestPrepareLogsGivesTheDirectoriesToTheManager needs root to give files away; without it, what
// is refused must be said, and must not fail.
func TestPrepareLogsGivesTheDirectoriesToTheManager(t *testing.T) {
	logs, outside := t.TempDir(), filepath.Join(t.TempDir(), "shadow")
	inside := filepath.Join(logs, "old", "gcu-operator.log")
	check(t, os.MkdirAll(filepath.Dir(inside), 0o700))
	check(t, os.WriteFile(inside, nil, 0o600))
	check(t, os.WriteFile(outside, nil, 0o600))
	check(t, os.Symlink(outside, filepath.Join(logs, "link")))
	missing := filepath.Join(logs, "missing")

	var stderr bytes.Buffer
	command := newCommand()
	command.SetErr(&stderr)
	command.SetArgs([]string{"prepare-logs", "--directories", missing + "," + logs, "--user=65532"})
	check(t, command.Execute())

	owner := func(path string) uint32 {
		info, err := os.Lstat(path)
		check(t, err)
		return info.Sys().(*syscall.Stat_t).Uid
	}
	if !strings.Contains(stderr.String(), "no log files in "+missing) {
		t.Errorf("it says %q, nothing of the directory that is missing", stderr.String())
	}
	if owner(outside) == nonroot {
		t.Error("a link led out of the directory")
	}
	if os.Geteuid() != 0 {
		if !strings.Contains(stderr.String(), "no log files in "+logs) {
			t.Errorf("it says %q, nothing of what was refused", stderr.String())
		}
		return
	}
	for _, path := range []string{logs, filepath.Dir(inside), inside, filepath.Join(logs, "link")} {
		if owner(path) != nonroot {
			t.Errorf("%s belongs to %d", path, owner(path))
		}
	}
}
