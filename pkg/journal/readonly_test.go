//go:build linux

package journal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"

	"github.com/topsops/gcu-operator/test/need"
)

// TestAJournalThatCannotBeMadeYet, on a disk that is read-only, is empty, and is made by the first change after the disk can be written.
func TestAJournalThatCannotBeMadeYet(t *testing.T) {
	if os.Geteuid() != 0 {
		need.Skip(t, "a disk that is read-only needs root, to mount one")
	}
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", syscall.MS_RDONLY, ""); err != nil {
		need.Skip(t, fmt.Sprintf("a disk that is read-only needs a file system, which cannot be mounted here: %v", err))
	}
	t.Cleanup(func() { _ = syscall.Unmount(disk, syscall.MNT_DETACH) })
	directory := filepath.Join(disk, "state", "requests")
	said := ""
	j, content, err := Open(directory, noteKind(true), funcr.New(func(_, args string) { said += args }, funcr.Options{}))
	if err != nil {
		t.Fatalf("opening the journal: %v", err)
	}
	if diff := cmp.Diff(Content[note]{Incomplete: true}, content); diff != "" || !strings.Contains(said, "read-only file system") {
		t.Errorf("it says %q, content (-want +got):\n%s", said, diff)
	}
	for name, change := range map[string]func() error{
		"put":      func() error { return j.Put(note{"a", 1}) },
		"remove":   func() error { return j.Change(nil, []string{"a"}) },
		"complete": j.Complete,
	} {
		if err := change(); !errors.Is(err, syscall.EROFS) {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
	if _, err := j.Get("a"); err == nil {
		t.Error("a value that was not stored is read")
	}
	if err := syscall.Mount("tmpfs", disk, "tmpfs", syscall.MS_REMOUNT, ""); err != nil {
		t.Fatal(err)
	}
	put(t, j, note{"a", 2})
	complete(t, j)
	if _, again := open(t, directory, noteKind(true)); !cmp.Equal(again, Content[note]{Values: []note{{"a", 2}}}) {
		t.Errorf("then it has %+v", again)
	}
}
