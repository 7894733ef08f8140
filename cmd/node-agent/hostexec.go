//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

const hostExecHelp = `Run a command of the host, to restart the runtime where there is no systemd: in the
namespaces of process 1, with the host's root folder and its usual PATH. It takes the
place of this program. The container needs the host's process namespace and the
capabilities SYS_ADMIN, SYS_CHROOT and SYS_PTRACE.`

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
	names := []string{"uts", "ipc", "net", "mnt"} // the mount namespace last: it has another /proc
	for _, name := range names {
		path := "/proc/1/ns/" + name
		file, err := os.Open(path)
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
