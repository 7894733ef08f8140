package install

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// having makes only the given programs available.
func having(t *testing.T, programs ...string) {
	t.Helper()
	lookPath = func(program string) (string, error) {
		if !slices.Contains(programs, program) {
			return "", exec.ErrNotFound
		}
		return program, nil
	}
	t.Cleanup(func() { lookPath = exec.LookPath })
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
