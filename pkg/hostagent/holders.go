package hostagent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"github.com/topsops/gcu-operator/pkg/hostagent/procfs"
	"github.com/topsops/gcu-operator/pkg/hostagent/task"
)

// holders returns the processes that have a device of the accelerator open. Without the
// capability SYS_PTRACE the kernel shows only what those with no more rights than the agent
// have open. Processes that end meanwhile are left out; kernel threads have nothing open.
func (p processes) holders() (task.DeviceHolders, error) {
	entries, err := os.ReadDir(p.proc)
	if err != nil {
		return task.DeviceHolders{}, fmt.Errorf("listing processes: %w", err)
	}
	var found []task.DeviceHolder
	initSeen, visible := false, true
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		initSeen = initSeen || pid == 1
		holder, err := p.holder(pid)
		switch {
		case errors.Is(err, fs.ErrPermission):
			visible = false
		case errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH):
		case err != nil:
			return task.DeviceHolders{}, fmt.Errorf("looking at process %d: %w", pid, err)
		case holder != nil:
			found = append(found, *holder)
		}
	}
	// A /proc mounted with hidepid does not even list the processes of others.
	return task.DeviceHoldersOf(found, visible && initSeen), nil
}

// holder describes a process, nil when it has no device open.
func (p processes) holder(pid int) (*task.DeviceHolder, error) {
	directory := filepath.Join(p.proc, strconv.Itoa(pid))
	device, err := deviceOf(directory)
	if err != nil || device == "" {
		return nil, err
	}
	status, err := os.ReadFile(filepath.Join(directory, "status"))
	if err != nil {
		return nil, err
	}
	cgroup, err := os.ReadFile(filepath.Join(directory, "cgroup"))
	if err != nil {
		return nil, err
	}
	h := &task.DeviceHolder{PID: pid, Device: device}
	h.Container, h.PodUID = procfs.ContainerOf(string(cgroup))
	h.Command, h.UID, err = procfs.Identity(string(status))
	return h, err
}

// deviceOf returns the first device that a process has open or mapped, "" for none.
func deviceOf(directory string) (string, error) {
	fds, err := os.Open(filepath.Join(directory, "fd"))
	if err != nil {
		return "", err
	}
	names, err := fds.Readdirnames(-1)
	if err := errors.Join(err, fds.Close()); err != nil {
		return "", err
	}
	var open []string
	for _, name := range names {
		link, err := os.Readlink(filepath.Join(directory, "fd", name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // closed meanwhile
		}
		if err != nil {
			return "", err
		}
		if device := procfs.Device(link); device != "" {
			open = append(open, device)
		}
	}
	if len(open) > 0 {
		return slices.Min(open), nil
	}
	maps, err := os.Open(filepath.Join(directory, "maps"))
	if err != nil {
		return "", err
	}
	device, err := procfs.Mapped(maps)
	return device, errors.Join(err, maps.Close())
}
