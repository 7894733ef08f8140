// Package install installs missing programs that tests need from Debian's packages. It
// is the only place that maps programs to packages.
package install

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
)

// packages are the packages of programs whose package has another name.
var packages = map[string]string{
	"busybox":             "busybox-static",
	"ctr":                 "containerd",
	"dockerd":             "docker.io",
	"ip":                  "iproute2",
	"runsvdir":            "runit",
	"/usr/lib/cni/bridge": "containernetworking-plugins",
	ChineseFont:           "fonts-wqy-microhei",
}

// ChineseFont is no program, and installed like one: a font for pictures of pages in Chinese.
const ChineseFont = "/usr/share/fonts/truetype/wqy/wqy-microhei.ttc"

// lookPath finds a program, or another file by its path.
var lookPath = func(program string) (string, error) {
	if strings.HasPrefix(program, "/") {
		_, err := os.Stat(program)
		return program, err
	}
	return exec.LookPath(program)
}

// Missing returns the packages of the missing programs, sorted.
func Missing(programs ...string) []string {
	var missing []string
	for _, program := range programs {
		if _, err := lookPath(program); err == nil {
			continue
		}
		name := packages[program]
		if name == "" {
			name = program
		}
		missing = append(missing, name)
	}
	slices.Sort(missing)
	return slices.Compact(missing)
}

// Programs installs the packages of missing programs with apt-get. If that is not
// possible, the error says what to do.
func Programs(ctx context.Context, programs ...string) error {
	missing := Missing(programs...)
	if len(missing) == 0 {
		return nil
	}
	command := "apt-get install --no-install-recommends " + strings.Join(missing, " ")
	if _, err := os.Stat("/run/systemd/system"); err == nil {
		return fmt.Errorf("programs are missing: run %s (not run automatically, because systemd would start their services)", command)
	}
	if _, err := lookPath("apt-get"); err != nil || os.Getuid() != 0 {
		return fmt.Errorf("programs are missing: install them; on Debian, as root: %s", command)
	}
	return alone("/var/lib/apt", func() error { return aptInstall(ctx, Missing(programs...)) }) // another one may have installed them
}

// alone calls do while no other process does with the same directory: apt-get fails at once when
// another one runs.
func alone(directory string, do func() error) error {
	folder, err := os.Open(directory)
	if err != nil {
		return err
	}
	defer func() { _ = folder.Close() }() // which unlocks it
	if err := syscall.Flock(int(folder.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("locking %s: %w", directory, err)
	}
	return do()
}

func aptInstall(ctx context.Context, missing []string) error {
	if len(missing) == 0 {
		return nil
	}
	for _, args := range [][]string{{"update"}, append([]string{"install", "--yes", "--no-install-recommends"}, missing...)} {
		cmd := exec.CommandContext(ctx, "apt-get", args...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		if printed, err := cmd.CombinedOutput(); err != nil {
			return errors.Join(fmt.Errorf("installing %s: apt-get %s: %w", strings.Join(missing, " "), args[0], err), lastLine(printed))
		}
	}
	return nil
}

// lastLine returns the last line of a program's output as an error.
func lastLine(printed []byte) error {
	lines := bytes.Split(bytes.TrimSpace(printed), []byte("\n"))
	return errors.New(string(lines[len(lines)-1]))
}
