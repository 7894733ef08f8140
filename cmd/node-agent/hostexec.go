//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/topsops/gcu-operator/pkg/hostagent/procfs"
)

const hostExecHelp = `Run a command of the host, to restart the runtime where there is no systemd: in the
namespaces and cgroups of process 1, with the host's root folder and its usual PATH. It
takes the place of this program. What the command starts outlives the container, but
inherits its capabilities and its seccomp filter. The container needs the host's process
namespace and the capabilities SYS_ADMIN, SYS_CHROOT and SYS_PTRACE. Where the cgroups of
process 1 cannot be joined it warns, and runs the command in those of the container.`

const hostExecExample = `  node-agent host-exec /etc/init.d/containerd restart`

// hostPath is where a host has its programs.
const hostPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

func newHostExecCommand() *cobra.Command {
	command := &cobra.Command{
		Use: "host-exec COMMAND [ARGUMENT...]", Short: "Run a command of the host, where there is no systemd", Long: hostExecHelp, Example: hostExecExample,
		Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			return &exitError{exitFailed, fmt.Errorf("running %s on the host: %w", args[0], hostExec(args))}
		},
	}
	command.Flags().SetInterspersed(false) // flags after COMMAND are its own
	return command
}

// hostExec runs a command in the place of this program. It returns only errors.
func hostExec(args []string) error {
	runtime.LockOSThread() // the namespaces are those of a thread, and exec keeps them
	if err := enterNamespaces(); err != nil {
		return err
	}
	if err := joinCgroups(); err != nil { // the runtime must be restarted nevertheless
		fmt.Fprintf(os.Stderr, "Warning: %v: what %s starts is limited by the container, and may end with it\n", err, args[0])
	}
	if err := os.Setenv("PATH", hostPath); err != nil {
		return err
	}
	path, err := exec.LookPath(args[0])
	if err != nil {
		return err
	}
	return unix.Exec(path, args, os.Environ())
}

// enterNamespaces lets this thread see the host as process 1 sees it.
func enterNamespaces() error {
	// Threads share their root folder, and a thread that shares it cannot change its mount namespace.
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fmt.Errorf("leaving the container's root folder: %w", err)
	}
	names := []string{"uts", "ipc", "net", "cgroup", "mnt"} // the mount namespace last: it has another /proc
	for _, name := range names {
		path := "/proc/1/ns/" + name
		file, err := os.Open(path)
		if name == "cgroup" && errors.Is(err, os.ErrNotExist) {
			continue // a kernel before 4.6
		}
		if err != nil {
			return fmt.Errorf("%w: the container needs the host's process namespace and SYS_PTRACE", err)
		}
		err = unix.Setns(int(file.Fd()), 0)
		_ = file.Close() // it was only named
		if err != nil {
			return fmt.Errorf("entering %s: %w: the container needs SYS_ADMIN and SYS_CHROOT", path, err)
		}
	}
	return nil
}

// joinCgroups moves this process to the cgroups of process 1: in those of the container, an engine that the command
// starts would be under the limits of the container, and would be killed with it.
func joinCgroups() error {
	var files [3]string
	for i, name := range []string{"/proc/thread-self/cgroup", "/proc/1/cgroup", "/proc/thread-self/mountinfo"} {
		content, err := os.ReadFile(name)
		if err != nil {
			return fmt.Errorf("reading the cgroups: %w", err)
		}
		files[i] = string(content)
	}
	for _, directory := range procfs.CgroupsToJoin(files[0], files[1], files[2]) {
		if err := os.WriteFile(filepath.Join(directory, "cgroup.procs"), []byte("0"), 0o600); err != nil { //nolint:gosec // G703: the directory is what the kernel reports; 0 is the writer
			return fmt.Errorf("leaving the cgroup of the container: %w", err)
		}
	}
	return nil
}
