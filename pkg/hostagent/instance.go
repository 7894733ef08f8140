package hostagent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/topsops/gcu-operator/pkg/hostagent/restart"
	"github.com/topsops/gcu-operator/pkg/hostagent/task"
)

// errNoProcess: there is no process with that id.
var errNoProcess = errors.New("no such process")

// processes reads process identities. A pid alone may be reused; together with the boot and
// the start time it is unique.
type processes struct {
	proc string // a proc file system
	dev  string // the devices of the host; only for holders
}

// instance returns "<boot id>/<pid>/<start, in ticks since the boot>".
func (p processes) instance(pid int) (string, error) {
	boot, err := os.ReadFile(filepath.Join(p.proc, "sys/kernel/random/boot_id"))
	if err != nil {
		return "", fmt.Errorf("reading the boot id: %w", err)
	}
	stat, err := os.ReadFile(filepath.Join(p.proc, strconv.Itoa(pid), "stat"))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return "", fmt.Errorf("process %d: %w", pid, errNoProcess)
	}
	if err != nil {
		return "", fmt.Errorf("reading when process %d began: %w", pid, err)
	}
	start, err := startOf(string(stat))
	if err != nil {
		return "", fmt.Errorf("reading when process %d began: %w", pid, err)
	}
	return fmt.Sprintf("%s/%d/%s", strings.TrimSpace(string(boot)), pid, start), nil
}

// ticksPerSecond of the start times in /proc, the same on all of Linux.
const ticksPerSecond = 100

// began returns when an instance began, in whole seconds; zero for none.
func (p processes) began(instance string) (time.Time, error) {
	if instance == restart.NotRunning {
		return time.Time{}, nil
	}
	stat, err := os.ReadFile(filepath.Join(p.proc, "stat"))
	if err != nil {
		return time.Time{}, fmt.Errorf("reading when the node was booted: %w", err)
	}
	for line := range strings.Lines(string(stat)) {
		var booted int64
		if _, err := fmt.Sscanf(line, "btime %d", &booted); err != nil {
			continue
		}
		ticks, err := strconv.ParseInt(path.Base(instance), 10, 64)
		if err != nil {
			return time.Time{}, fmt.Errorf("reading when instance %s began: %w", instance, err)
		}
		return time.Unix(booted+ticks/ticksPerSecond, 0), nil
	}
	return time.Time{}, errors.New("/proc/stat has no boot time")
}

// startOf returns field 22 of /proc/<pid>/stat. Field 2, the name, is in
// parentheses and may hold anything.
func startOf(stat string) (string, error) {
	const startField, firstAfterName = 22, 3
	end := strings.LastIndex(stat, ") ")
	if end < 0 {
		return "", errors.New("it is not of the form of stat")
	}
	fields := strings.Fields(stat[end+2:])
	if len(fields) <= startField-firstAfterName {
		return "", errors.New("it is too short")
	}
	return fields[startField-firstAfterName], nil
}

// listener returns the process that listens on a unix socket, 0 when there is none.
func listener(ctx context.Context, socket string) (int, error) {
	var dialer net.Dialer
	connection, err := dialer.DialContext(ctx, "unix", socket)
	if errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("connecting to %s: %w", socket, err)
	}
	pid, err := peer(connection.(*net.UnixConn))
	return pid, errors.Join(err, connection.Close())
}

func peer(connection *net.UnixConn) (int, error) {
	raw, err := connection.SyscallConn()
	if err != nil {
		return 0, fmt.Errorf("reading who listens: %w", err)
	}
	var credentials *syscall.Ucred
	var failed error
	err = raw.Control(func(fd uintptr) {
		credentials, failed = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	})
	if err := errors.Join(err, failed); err != nil {
		return 0, fmt.Errorf("reading who listens: %w", err)
	}
	if credentials.Pid == 0 {
		return 0, errors.New("the daemon is not in the process namespace of the agent (its pod needs hostPID)")
	}
	return int(credentials.Pid), nil
}

// devicesDirectory is relative to the host root.
const devicesDirectory = "dev"

// proc is the host's /proc, and its /dev; neither is a link.
func (h host) proc() processes {
	return processes{proc: filepath.Join(h.root, "proc"), dev: filepath.Join(h.root, devicesDirectory)}
}

// serviceManagerPID listens on the sockets of socket-activated services (docker.socket of
// Debian).
const serviceManagerPID = 1

// instanceOf returns the running instance of an engine, or restart.NotRunning. An error means
// that the instance is unknown.
func (h host) instanceOf(ctx context.Context, e task.Engine) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, responseTimeout)
	defer cancel()
	socket, err := resolve(h.root, h.socket(e))
	if err != nil {
		return "", err
	}
	pid, err := listener(ctx, socket)
	if err != nil {
		return "", err
	}
	table := processes{proc: "/proc"} // the pid namespace of the pid from the kernel
	if pid == serviceManagerPID {
		if h.services == nil {
			return "", errors.New("process 1 listens for the daemon, and is not systemd")
		}
		table = h.proc()
		if pid, err = h.services(ctx, e); err != nil {
			return "", err
		}
	}
	if pid == 0 {
		return restart.NotRunning, nil
	}
	instance, err := table.instance(pid)
	if errors.Is(err, errNoProcess) {
		return restart.NotRunning, nil // it has ended meanwhile
	}
	return instance, err
}
