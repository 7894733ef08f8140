package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/topsops/gcu-operator/test/need"
)

// TestASecondAgentWaitsUntilTheFirstHasEnded: while the DaemonSet replaces its pod, both run for a moment, and two agents would write the
// same journals.
func TestASecondAgentWaitsUntilTheFirstHasEnded(t *testing.T) {
	state, first, second := t.TempDir(), filepath.Join(shortDirectory(t), "s"), filepath.Join(shortDirectory(t), "s")
	ctx, stop := context.WithCancel(t.Context())
	_, ended := startWith(ctx, t, state, first)
	eventually(t, func() bool { return pings(t, first) })
	log, _ := startWith(t.Context(), t, state, second)
	eventually(t, func() bool {
		return strings.Contains(log.String(), "Another node agent uses the state directory") || pings(t, second)
	})
	if pings(t, second) {
		t.Error("both serve")
	}
	stop()
	if code := <-ended; code != exitOK {
		t.Errorf("exit code %d of the first", code)
	}
	eventually(t, func() bool { return pings(t, second) })
}

// The probe of a pod in whose place an agent of another pod still serves fails, so that it is not ready.
func TestAProbeIsForTheAgentOfItsPod(t *testing.T) {
	state, socket := t.TempDir(), filepath.Join(shortDirectory(t), "s")
	ctx, stop := context.WithCancel(t.Context())
	t.Setenv("POD_UID", "old")
	_, ended := startWith(ctx, t, state, socket)
	eventually(t, func() bool { return pings(t, socket) })
	t.Setenv("POD_UID", "new")
	log, _ := startWith(t.Context(), t, state, socket)
	eventually(t, func() bool { return strings.Contains(log.String(), "Another node agent uses the state directory") })
	if pings(t, socket) {
		t.Error("the probe of a pod that serves nothing succeeds")
	}
	t.Setenv("POD_UID", "") // on the node
	if !pings(t, socket) {
		t.Error("a ping from outside of any pod is refused")
	}
	t.Setenv("POD_UID", "new")
	stop()
	<-ended
	eventually(t, func() bool { return pings(t, socket) })
}

// A second agent that still waits for the lock ends when its process is asked to.
func TestASecondAgentThatWaitsStops(t *testing.T) {
	state, first := t.TempDir(), filepath.Join(shortDirectory(t), "s")
	startWith(t.Context(), t, state, first)
	eventually(t, func() bool { return pings(t, first) })
	ctx, stop := context.WithCancel(t.Context())
	log, ended := startWith(ctx, t, state, filepath.Join(shortDirectory(t), "s"))
	eventually(t, func() bool { return strings.Contains(log.String(), "Another node agent uses the state directory") })
	stop()
	if code := <-ended; code != exitOK {
		t.Errorf("exit code %d: %s", code, log.String())
	}
}

// startWith runs an agent until ctx or the test ends. ended gets its exit code.
func startWith(ctx context.Context, t *testing.T, state, socket string) (log *buffer, ended <-chan int) {
	t.Helper()
	log = &buffer{}
	codes := make(chan int, 1)
	done := make(chan struct{})
	kubeconfig := writeKubeconfig(t)
	ctx, stop := context.WithCancel(ctx)
	go func() {
		defer close(done)
		codes <- run(ctx, []string{"--node-name=node-a", "--kubeconfig=" + kubeconfig, "--state-dir=" + state, "--ota-bind-address=127.0.0.1:0", "--ota-socket=" + socket,
			"--log-dir=", "--log-format=json", "--host-root=" + filepath.Join(state, "none")}, &buffer{}, log)
	}()
	t.Cleanup(func() { stop(); <-done })
	return log, codes
}

func pings(t *testing.T, socket string) bool {
	var output buffer
	return run(t.Context(), []string{"ota", "ping", "--socket", socket}, &output, &output) == exitOK
}

// emptyDisk mounts an empty file system; remount makes it read-only, or writable again.
func emptyDisk(t *testing.T) (directory string, remount func(flags uintptr)) {
	t.Helper()
	if os.Geteuid() != 0 {
		need.Skip(t, "a disk that is read-only needs root, to mount one")
	}
	directory = t.TempDir()
	if err := syscall.Mount("tmpfs", directory, "tmpfs", 0, ""); err != nil {
		need.Skip(t, fmt.Sprintf("a disk that is read-only needs a file system, which cannot be mounted here: %v", err))
	}
	t.Cleanup(func() { _ = syscall.Unmount(directory, syscall.MNT_DETACH) })
	return directory, func(flags uintptr) {
		t.Helper()
		if err := syscall.Mount("tmpfs", directory, "tmpfs", syscall.MS_REMOUNT|flags, ""); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAnAgentServesOnADiskThatIsReadOnly also says what is wrong.
func TestAnAgentServesOnADiskThatIsReadOnly(t *testing.T) {
	for name, test := range map[string]struct {
		// before is what became of the state directory since an earlier agent; without it, none ran here.
		before func(state string) error
		says   []string
	}{
		"nothing is missing":     {func(string) error { return nil }, []string{"Cannot write to the state directory"}},
		"the token is missing":   {func(state string) error { return os.Remove(filepath.Join(state, tokenFileName)) }, []string{"Cannot write to the state directory", "no token"}},
		"a journal is missing":   {func(state string) error { return os.RemoveAll(filepath.Join(state, "tasks")) }, []string{"Cannot make the state directory"}},
		"it is the first of all": {nil, []string{"Cannot make the state directory", "no token"}},
	} {
		t.Run(name, func(t *testing.T) {
			state, remount := emptyDisk(t)
			socket := filepath.Join(shortDirectory(t), "s")
			if test.before != nil {
				ctx, stop := context.WithCancel(t.Context())
				_, ended := startWith(ctx, t, state, socket)
				eventually(t, func() bool { return pings(t, socket) })
				stop()
				<-ended
				if err := test.before(state); err != nil {
					t.Fatal(err)
				}
			}
			remount(syscall.MS_RDONLY)
			log, ended := startWith(t.Context(), t, state, socket)
			eventually(t, func() bool {
				select {
				case code := <-ended:
					t.Fatalf("exit code %d: %s", code, log.String())
				default:
				}
				return pings(t, socket)
			})
			for _, says := range test.says {
				if !strings.Contains(log.String(), says) {
					t.Errorf("the log does not say %q: %s", says, log.String())
				}
			}
		})
	}
}
