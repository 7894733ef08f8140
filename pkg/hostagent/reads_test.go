package hostagent

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/testr"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/topsops/gcu-operator/pkg/hostagent/task"
)

// hang puts a named pipe at a path: to open it hangs until the release.
func hang(t *testing.T, path string) (release func()) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return func() {
		writer, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(writer.Close(), os.Remove(path), os.WriteFile(path, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAReadThatHangsIsGivenUp: a process whose memory map cannot be read, because a driver blocks it in the kernel.
func TestAReadThatHangsIsGivenUp(t *testing.T) {
	root := fakeHost(t, map[string]string{"dev/null": ""})
	table := fakeProc(t, map[int]fakeProcess{1: {name: "init"}, 7: {name: "x", opens: []string{"/dev/gcu0"}}})
	if err := os.Symlink(table.proc, filepath.Join(root, "proc")); err != nil {
		t.Fatal(err)
	}
	release := hang(t, filepath.Join(table.proc, "1", "maps"))
	e, err := New(Options{StateDirectory: t.TempDir(), HostRoot: root, Clock: clocktesting.NewFakeClock(time.Unix(1000, 0)), Log: testr.New(t)})
	if err != nil {
		t.Fatal(err)
	}
	e.host.reads = &reads{limit: 20 * time.Millisecond}
	for range 2 {
		facts, err := e.Facts(t.Context(), task.Docker)
		if err != nil || facts.Host.Holders != nil || !slices.ContainsFunc(facts.Host.Missing, func(m string) bool { return strings.Contains(m, "device open: no response after 20ms") }) {
			t.Fatalf("%v, holders %+v, missing %q", err, facts.Host.Holders, facts.Host.Missing)
		}
	}
	release()
	e.host.reads = &reads{limit: time.Minute}
	facts, err := e.Facts(t.Context(), task.Docker)
	if found := facts.Host.Holders; err != nil || found == nil || len(found.Processes) != 1 {
		t.Errorf("when it no longer hangs: %v, holders %+v", err, found)
	}
}

// TestADiskThatHangsIsGivenUp also ends with its context.
func TestADiskThatHangsIsGivenUp(t *testing.T) {
	root := fakeHost(t, map[string]string{"images": ""})
	release := hang(t, filepath.Join(root, "images"))
	defer release()
	h := host{root: root, reads: &reads{limit: 20 * time.Millisecond}}
	if got, err := h.freeDisk(t.Context(), "/images"); err == nil || !strings.Contains(err.Error(), "no response") {
		t.Errorf("free: %d, %v", got, err)
	}
	ended, cancel := context.WithCancel(t.Context()) // the read that hangs is joined: another one could begin after its release, and hang for ever
	cancel()
	if got, err := h.freeDisk(ended, "/images"); !errors.Is(err, context.Canceled) {
		t.Errorf("free: %d, %v", got, err)
	}
}

// What had a device open when a late read began may have closed it by then.
func TestWhatAReadReturnsTooLateIsNotUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &reads{limit: 10 * time.Second}
		release := make(chan struct{})
		slow := func() (int, error) { <-release; return 1, nil }
		if got, err := within(t.Context(), r, "x", slow); err == nil {
			t.Errorf("a read that hangs returns %d", got)
		}
		joined := make(chan error)
		go func() {
			_, err := within(t.Context(), r, "x", slow)
			joined <- err
		}()
		synctest.Wait()
		close(release)
		if err := <-joined; err == nil {
			t.Error("what the read that hung has returned is used")
		}
		if got, err := within(t.Context(), r, "x", slow); got != 1 || err != nil {
			t.Errorf("the next read returns %d, %v", got, err)
		}
	})
}
