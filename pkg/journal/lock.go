//go:build linux

package journal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sys/unix"
	"k8s.io/utils/clock"
)

const (
	// lockRetry is the time between two attempts to lock a directory that another process uses.
	lockRetry = time.Second
	// lockStuck is how long a process that is asked to end may take, by default 30 s, and more.
	lockStuck = time.Minute
)

// Lock keeps other processes from the journals below a directory, which is created if absent, until unlock or the end of this
// process, however that ends. While another process has the lock, as the agent that is being replaced, Lock waits, and says each minute
// which process that is: one that hangs in the kernel keeps it, also when it was killed. Lock returns an error when the directory
// cannot be locked, and that of ctx when it is done.
func Lock(ctx context.Context, directory string, c clock.Clock, log logr.Logger) (unlock func() error, err error) {
	if err := os.MkdirAll(directory, 0o700); err != nil { //nolint:gosec // G703: the directory is a flag of the agent
		return nil, fmt.Errorf("making the state directory: %w", err)
	}
	// The lock is that of the directory, which needs no file, so that a disk that is read-only can be locked. Commands that this process
	// starts do not inherit it: they may outlive this process.
	file, err := os.Open(directory) //nolint:gosec // G703: the same
	if err != nil {
		return nil, fmt.Errorf("locking the state directory: %w", err)
	}
	for waited := 0; ; waited++ {
		switch err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); {
		case err == nil:
			return file.Close, nil
		case !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR):
			return nil, errors.Join(fmt.Errorf("locking the state directory: %w", err), file.Close())
		case waited == 0:
			log.Info("Another node agent uses the state directory, waiting until it has ended", "directory", directory, "holder", holder(file))
		case waited%int(lockStuck/lockRetry) == 0:
			log.Error(nil, "Another node agent still uses the state directory. This one serves no requests and runs no tasks until the other exits. If it belongs to another pod, "+
				"delete that pod; if its process hangs in the kernel (state D), where it cannot be killed, repair the disk or device that it waits for, or reboot the node",
				"directory", directory, "holder", holder(file), "waited", (time.Duration(waited) * lockRetry).String())
		}
		timer := c.NewTimer(lockRetry)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil, errors.Join(context.Cause(ctx), file.Close())
		case <-timer.C():
		}
	}
}

// holder describes the process that has locked a file, as far as /proc shows it.
func holder(file *os.File) string {
	var s unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &s); err != nil {
		return "unknown"
	}
	locks, _ := os.ReadFile("/proc/locks")
	process := flockHolder(string(locks), fmt.Sprintf("%02x:%02x:%d", unix.Major(s.Dev), unix.Minor(s.Dev), s.Ino))
	if process == "" {
		return "unknown"
	}
	status, _ := os.ReadFile("/proc/" + process + "/status")
	for line := range strings.Lines(string(status)) {
		if state, is := strings.CutPrefix(line, "State:"); is {
			return "process " + process + ", state " + strings.TrimSpace(state)
		}
	}
	return "process " + process
}

// flockHolder returns the id of the process that has locked a file, by the content of /proc/locks; "" if it shows none.
func flockHolder(locks, file string) string {
	for line := range strings.Lines(locks) {
		fields := strings.Fields(line) // 1: FLOCK ADVISORY WRITE 1234 08:01:5678 0 EOF
		if len(fields) > 5 && fields[1] == "FLOCK" && fields[5] == file {
			return fields[4]
		}
	}
	return ""
}
