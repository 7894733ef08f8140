package realnode

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

const (
	// endTimeout is how long the kernel may take to kill all processes of a node.
	endTimeout = 30 * time.Second
	// endPoll is the poll interval for that.
	endPoll = 50 * time.Millisecond
)

// Start boots a node, after removing what an interrupted start has left. It does
// nothing if the node runs.
func (n Nodes) Start(ctx context.Context, name string) error {
	if pid, err := n.PID(name); err != nil || pid != 0 {
		return err
	}
	if err := n.Kill(ctx, name); err != nil {
		return err
	}
	if err := n.connect(ctx, name); err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(n.Logs, name, "init.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("starting node %s: %w", name, err)
	}
	// runc exits at once; the processes it started have their own copy of the file.
	defer func() { _ = log.Close() }()
	cmd := exec.CommandContext(ctx, "runc", n.runc("run", "--detach", "--bundle", n.disk(name), n.id(name))...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("starting node %s: runc: %w; read %s", name, err, log.Name())
	}
	return nil
}

// Kill powers a node off: all its processes are killed at once. It does nothing if the
// node is off.
func (n Nodes) Kill(ctx context.Context, name string) error {
	if err := n.end(ctx, n.id(name)); err != nil {
		return err
	}
	if err := n.removeNetwork(ctx, name); err != nil {
		return fmt.Errorf("ending node %s: %w", name, err)
	}
	return nil
}

// PID returns the machine's process id of a node's first process; 0 if the node is off.
func (n Nodes) PID(name string) (int, error) { return n.pid(context.Background(), n.id(name)) }

// needPower returns an error if a node does not run.
func (n Nodes) needPower(name string) error {
	if pid, err := n.PID(name); err != nil || pid != 0 {
		return err
	}
	return fmt.Errorf("node %s has no power; start it with node-start", name)
}

func (n Nodes) pid(ctx context.Context, id string) (int, error) {
	_, err := os.Stat(filepath.Join(claimOf(n.Number), runcFolder, id, "state.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	out, err := run(ctx, nil, "runc", n.runc("state", id)...)
	if err != nil {
		return 0, fmt.Errorf("looking for %s: %w", id, err)
	}
	var state struct{ PID int }
	if err := json.Unmarshal([]byte(out), &state); err != nil {
		return 0, fmt.Errorf("looking for %s: %w", id, err)
	}
	return state.PID, nil
}

// end kills a container, waits until it has exited and removes runc's state of it.
func (n Nodes) end(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, endTimeout, fmt.Errorf("its processes still run after %s", endTimeout))
	defer cancel()
	for {
		pid, err := n.pid(ctx, id)
		if err != nil {
			return err
		}
		if pid == 0 {
			break
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("ending %s: %w", id, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("ending %s: %w", id, context.Cause(ctx))
		case <-time.After(endPoll):
		}
	}
	if _, err := run(ctx, nil, "runc", n.runc("delete", "--force", id)...); err != nil {
		return fmt.Errorf("ending %s: %w", id, err)
	}
	// Left by an interrupted start.
	return os.RemoveAll(filepath.Join(claimOf(n.Number), runcFolder, id))
}

// runc returns the arguments of a runc command.
func (n Nodes) runc(args ...string) []string {
	return append([]string{"--root", filepath.Join(claimOf(n.Number), runcFolder)}, args...)
}

// Exec runs a program in all namespaces of a node, outside its containers. If the
// program fails, the error is an *exec.ExitError.
func (n Nodes) Exec(ctx context.Context, name string, input io.Reader, output, failed io.Writer, argv ...string) error {
	if err := n.needPower(name); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "runc", n.runc(append([]string{"exec", n.id(name)}, argv...)...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = input, output, failed
	return cmd.Run()
}

// Status returns "running", "cut off" or "no power".
func (n Nodes) Status(name string) (string, error) {
	pid, err := n.PID(name)
	switch {
	case err != nil:
		return "", err
	case pid == 0:
		return "no power", nil
	case !n.linked(name):
		return "cut off", nil
	}
	return "running", nil
}
