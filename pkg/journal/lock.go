//go:build linux

package journal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sys/unix"
	"k8s.io/utils/clock"
)

// lockRetry is the time between two attempts to lock a directory that another process uses.
const lockRetry = time.Second

// Lock keeps other processes from the journals below a directory, which is created if absent, until unlock or the end of this
// process, however that ends. While another process has the lock, as the agent that is being replaced, Lock waits. It returns an error
// when the directory cannot be locked, and that of ctx when it is done.
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
	for waited := false; ; waited = true {
		switch err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); {
		case err == nil:
			return file.Close, nil
		case !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR):
			return nil, errors.Join(fmt.Errorf("locking the state directory: %w", err), file.Close())
		case !waited:
			log.Info("Another node agent uses the state directory, waiting until it has ended", "directory", directory)
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
