package hostagent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/topsops/gcu-operator/pkg/hostagent/task"
)

// Command restarts an engine, on hosts without systemd, with argument vectors configured by
// the administrator. They are not interpreted by a shell.
//
// A command must outlive the agent if it stops the containers of the engine, because the
// processes in the agent's container end with it. It runs in its own session; if that is not
// enough, it must hand over to the host. It should return when the engine has been restarted.
type Command struct {
	// Argv per engine; an engine without one cannot be restarted.
	Argv map[task.Engine][]string
	// Directory for the output of the commands, one file per operation; created if absent.
	Directory string
	// Timeout after which a command and its session are killed; none when zero.
	Timeout time.Duration
}

var _ ServiceManager = Command{}

// maxOutputBytes is how much output of a failed command is reported.
const maxOutputBytes = 512

// Busy implements ServiceManager: a process of the command is still alive. Each of them
// inherits the lock on its output file.
func (c Command) Busy(_ context.Context, _ task.Engine, operation string) (bool, error) {
	file, err := os.Open(c.output(operation))
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("opening the output of the restart command: %w", err)
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	busy := errors.Is(err, syscall.EWOULDBLOCK)
	if busy {
		err = nil
	}
	return busy, errors.Join(err, file.Close())
}

// Restart implements ServiceManager.
func (c Command) Restart(ctx context.Context, e task.Engine, operation string) error {
	argv := c.Argv[e]
	if len(argv) == 0 {
		return fmt.Errorf("there is no restart command for %s", e)
	}
	if err := os.MkdirAll(c.Directory, 0o700); err != nil {
		return fmt.Errorf("making the directory for the output of the restart command: %w", err)
	}
	file, err := os.OpenFile(c.output(operation), os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("opening the output of the restart command: %w", err)
	}
	err = c.run(ctx, argv, file)
	return errors.Join(err, file.Close())
}

func (c Command) run(ctx context.Context, argv []string, output *os.File) error {
	if err := syscall.Flock(int(output.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return fmt.Errorf("the restart command of this operation runs already: %w", err)
	}
	if c.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.Timeout)
		defer cancel()
	}
	command := exec.Command(argv[0], argv[1:]...) //nolint:gosec,noctx // G204: the restart command of the agent's own flags; wait ends it
	// A file and not a pipe: the engine may inherit it, and writing to a pipe would kill the
	// engine once the agent is gone.
	command.Stdout, command.Stderr = output, output
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := wait(ctx, command); err != nil {
		return fmt.Errorf("restart command %s: %w%s", argv[0], err, tail(output))
	}
	return nil
}

// wait starts a command and waits for its end, or kills it with its session when the time of ctx is over. If ctx is
// canceled, the command goes on: an agent may be stopped because the engine stops its container, and the engine must
// be started again.
func wait(ctx context.Context, command *exec.Cmd) error {
	if err := command.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("it goes on without the agent: %w", context.Cause(ctx))
	}
	killed := syscall.Kill(-command.Process.Pid, syscall.SIGKILL)
	<-ended
	return errors.Join(fmt.Errorf("it was killed: %w", context.Cause(ctx)), killed)
}

func (c Command) output(operation string) string {
	return filepath.Join(c.Directory, operation+".out")
}

// tail returns the end of the output for a message.
func tail(file *os.File) string {
	size, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return ""
	}
	text := make([]byte, min(size, maxOutputBytes))
	if _, err := file.ReadAt(text, size-int64(len(text))); err != nil && !errors.Is(err, io.EOF) {
		return ""
	}
	if text = bytes.TrimSpace(text); len(text) == 0 {
		return ""
	}
	return ": " + strings.ToValidUTF8(string(text), "?")
}
