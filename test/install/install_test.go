package install

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
)

// having makes only the given programs available.
func having(t *testing.T, programs ...string) {
	t.Helper()
	before := lookPath
	lookPath = func(program string) (string, error) {
		if !slices.Contains(programs, program) {
			return "", exec.ErrNotFound
		}
		return program, nil
	}
	t.Cleanup(func() { lookPath = before })
}

func TestAFileThatIsNoProgramIsFoundByItsPath(t *testing.T) {
	here := filepath.Join(t.TempDir(), "font")
	if err := os.WriteFile(here, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if missing := Missing(here); len(missing) > 0 {
		t.Errorf("%q are missing", missing)
	}
	gone := filepath.Join(filepath.Dir(here), "gone")
	if missing := Missing(gone); !slices.Equal(missing, []string{gone}) {
		t.Errorf("%q are missing, want %s", missing, gone)
	}
}

func TestMissingPackagesAreNamedOnce(t *testing.T) {
	having(t, "runc")
	got := Missing("containerd", "ctr", "runc", "dockerd", "dbus-daemon")
	if want := []string{"containerd", "dbus-daemon", "docker.io"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestInstalledProgramsAreNotInstalledAgain(t *testing.T) {
	having(t, "runc") // so apt-get is missing
	if err := Programs(t.Context(), "runc"); err != nil {
		t.Error(err)
	}
}

func TestTheErrorNamesTheInstallCommand(t *testing.T) {
	having(t)
	const command = "apt-get install --no-install-recommends busybox-static iproute2"
	if err := Programs(t.Context(), "ip", "busybox"); err == nil || !strings.Contains(err.Error(), command) {
		t.Errorf("got %v, want it to name: %s", err, command)
	}
}

func TestInstallationsWaitForEachOther(t *testing.T) {
	directory := t.TempDir()
	var first, second atomic.Bool
	begun, ended := make(chan struct{}), make(chan error, 1)
	err := alone(directory, func() error {
		go func() {
			close(begun)
			ended <- alone(directory, func() error {
				second.Store(true)
				if !first.Load() {
					return errors.New("the second one did not wait")
				}
				return nil
			})
		}()
		<-begun
		for range 1000 {
			runtime.Gosched()
		}
		if second.Load() {
			return errors.New("the second one began")
		}
		first.Store(true)
		return nil
	})
	if err := errors.Join(err, <-ended); err != nil {
		t.Error(err)
	}
}
