package hostagent

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/topsops/gcu-operator/pkg/hostagent/procfs"
	"github.com/topsops/gcu-operator/pkg/hostagent/task"
)

// holders returns the processes that have a device of the accelerator open. Without the
// capability SYS_PTRACE the kernel shows only what those with no more rights than the agent
// have open. A process that cannot be looked at hides no other. Processes that end meanwhile are left out; kernel
// threads have nothing open.
func (p processes) holders() (task.DeviceHolders, error) {
	entries, err := os.ReadDir(p.proc)
	if err != nil {
		return task.DeviceHolders{}, fmt.Errorf("listing processes: %w", err)
	}
	devices, err := p.devices()
	if err != nil {
		return task.DeviceHolders{}, fmt.Errorf("listing devices: %w", err)
	}
	var found []task.DeviceHolder
	initSeen, visible := false, true
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		initSeen = initSeen || pid == 1
		holder, err := p.holder(pid, devices)
		switch {
		case isGone(err):
		case err != nil:
			visible = false
		case holder != nil:
			found = append(found, *holder)
		}
	}
	// A /proc mounted with hidepid does not even list the processes of others.
	return task.DeviceHoldersOf(found, visible && initSeen), nil
}

// isGone reports whether an error means that a process has ended.
func isGone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) }

// holder describes a process, nil when it has no device open. The kernel shows with a thread that has ended nothing of what
// the process still has open: the look counts only if the thread has not ended after it.
func (p processes) holder(pid int, devices procfs.Devices) (*task.DeviceHolder, error) {
	directory := filepath.Join(p.proc, strconv.Itoa(pid))
	h, err := seenWith(directory, devices)
	status, gone := os.ReadFile(filepath.Join(directory, "status"))
	if gone != nil {
		return nil, gone
	}
	if procfs.Ended(string(status)) {
		h, err = seenWithThreads(directory, devices)
	}
	if err != nil || h == nil {
		return nil, err
	}
	h.PID = pid
	h.Command, h.UID, err = procfs.Identity(string(status))
	return h, err
}

// maxListings bounds how often the threads of a process are listed.
const maxListings = 10

// seenWithThreads returns what is seen with the threads of a process whose main thread has ended, nil if no device is. One
// that lives after it was looked at shows all that the process has open. Those that end may have begun others, and a list
// during which one ends may lack the next ones: only their number tells that all have ended.
func seenWithThreads(process string, devices procfs.Devices) (*task.DeviceHolder, error) {
	for range maxListings {
		threads, err := os.ReadDir(filepath.Join(process, "task"))
		if err != nil {
			return nil, err
		}
		for _, thread := range threads {
			directory := filepath.Join(process, "task", thread.Name())
			h, err := seenWith(directory, devices)
			if h != nil {
				return h, nil
			}
			status, gone := os.ReadFile(filepath.Join(directory, "status"))
			if !isGone(gone) && !isGone(err) && !procfs.Ended(string(status)) {
				return nil, errors.Join(err, gone)
			}
		}
		status, err := os.ReadFile(filepath.Join(process, "status"))
		if err != nil || procfs.HasOneThread(string(status)) {
			return nil, err
		}
	}
	return nil, errors.New("the threads of a process end faster than they can be looked at")
}

// seenWith returns the device and the container of a process as the kernel shows them with one of its threads, nil if no
// device is open. It counts as outside of pods if the kernel does not tell its cgroup, as one with a path of more than 4095 bytes.
func seenWith(thread string, devices procfs.Devices) (*task.DeviceHolder, error) {
	device, err := deviceOf(thread, devices)
	if err != nil || device == "" {
		return nil, err
	}
	h := &task.DeviceHolder{Device: device}
	cgroup, err := os.ReadFile(filepath.Join(thread, "cgroup"))
	switch {
	case isGone(err):
		return nil, err
	case err == nil:
		h.Container, h.PodUID = procfs.ContainerOf(string(cgroup))
	}
	return h, nil
}

// deviceOf returns the first device that a process has open or mapped, "" for none.
func deviceOf(directory string, devices procfs.Devices) (string, error) {
	fds, err := os.Open(filepath.Join(directory, "fd"))
	if err != nil {
		return "", err
	}
	open, err := firstOpened(fds, devices)
	if err := errors.Join(err, fds.Close()); err != nil || open != "" {
		return open, err
	}
	maps, err := os.Open(filepath.Join(directory, "maps"))
	if err != nil {
		return "", err
	}
	device, err := devices.Mapped(maps, func(path string) (procfs.File, error) { return lookBelow(filepath.Join(directory, "root"), path) })
	return device, errors.Join(err, maps.Close())
}

// namesAtATime bounds what is held of a process, which may have millions of files open.
const namesAtATime = 1024

// firstOpened returns the first device that is open in a directory /proc/PID/fd, "" for none.
func firstOpened(fds *os.File, devices procfs.Devices) (first string, err error) {
	for {
		names, err := fds.Readdirnames(namesAtATime)
		for _, name := range names {
			device, err := opened(filepath.Join(fds.Name(), name), devices)
			if err != nil {
				return "", err
			}
			if device != "" && (first == "" || device < first) {
				first = device
			}
		}
		if errors.Is(err, io.EOF) {
			return first, nil
		}
		if err != nil {
			return "", err
		}
	}
}

// opened returns the device that a process has open at a link in /proc/PID/fd, "" for none.
func opened(fd string, devices procfs.Devices) (string, error) {
	link, err := os.Readlink(fd)
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && !filepath.IsAbs(link):
		return "", nil // closed meanwhile, or a socket, a pipe and the like
	case errors.Is(err, syscall.ENAMETOOLONG):
		link = "" // the kernel tells no path of more than 4095 bytes: the number of the device has to do
	case err != nil:
		return "", err
	}
	file, err := look(fd, 0)
	if err != nil {
		return "", nil //nolint:nilerr // closed meanwhile, or a file whose server is gone or shows it to its owner only: no device
	}
	return devices.Opened(link, file), nil
}

// devices returns the character devices of the host.
func (p processes) devices() (procfs.Devices, error) {
	entries, err := os.ReadDir(p.dev)
	if err != nil {
		return procfs.Devices{}, err
	}
	files := map[string]procfs.File{}
	for _, entry := range entries {
		if entry.Type()&fs.ModeCharDevice == 0 {
			continue
		}
		file, err := look(filepath.Join(p.dev, entry.Name()), unix.AT_SYMLINK_NOFOLLOW)
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed meanwhile
		}
		if err != nil {
			return procfs.Devices{}, err
		}
		files[entry.Name()] = file
	}
	return procfs.DevicesOf(files), nil
}

// look returns what the kernel knows of a file. It asks no server and no FUSE program for it, which may
// not respond, if the kernel is new enough (4.11) and the engine of the agent lets it.
func look(path string, flags int) (procfs.File, error) {
	var found unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, flags|unix.AT_STATX_DONT_SYNC, 0, &found)
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) {
		return lookLong(path, flags)
	}
	return procfs.File{Character: found.Mode&unix.S_IFMT == unix.S_IFCHR, Number: unix.Mkdev(found.Rdev_major, found.Rdev_minor),
		Major: found.Dev_major, Minor: found.Dev_minor, Inode: found.Ino}, err
}

// resolveCached is RESOLVE_CACHED of openat2(2), which x/sys lacks.
const resolveCached = 0x20

// lookBelow is look for a path below the root of a process. No server or FUSE program is asked for that path. On a kernel
// before 5.12 it always fails.
func lookBelow(root, path string) (file procfs.File, err error) {
	below, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return procfs.File{}, err
	}
	defer func() { err = errors.Join(err, unix.Close(below)) }()
	fd, err := unix.Openat2(below, path, &unix.OpenHow{Flags: unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_IN_ROOT | resolveCached})
	if err != nil {
		return procfs.File{}, err
	}
	defer func() { err = errors.Join(err, unix.Close(fd)) }()
	return look("/proc/self/fd/"+strconv.Itoa(fd), 0)
}

// lookLong is look for a kernel or an engine that knows no statx.
func lookLong(path string, flags int) (procfs.File, error) {
	var found unix.Stat_t
	err := unix.Fstatat(unix.AT_FDCWD, path, &found, flags)
	return procfs.File{Character: found.Mode&unix.S_IFMT == unix.S_IFCHR, Number: found.Rdev,
		Major: unix.Major(found.Dev), Minor: unix.Minor(found.Dev), Inode: found.Ino}, err
}
