package guard

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"unsafe"

	"github.com/topsops/gcu-operator/pkg/connections"
)

// NoGroup restricts a socket to root.
const NoGroup = -1

// ListenSocket listens on a unix socket for root and the members of a group. It replaces a
// socket file that a killed process left at the path, and creates the directory if needed.
// It returns an error if another process listens there.
func ListenSocket(path string, group int) (net.Listener, error) {
	if other, err := net.Dial("unix", path); err == nil {
		_ = other.Close()
		return nil, fmt.Errorf("another process listens on %s", path)
	}
	directory := filepath.Dir(path)
	if err := os.MkdirAll(directory, 0o755); err != nil { //nolint:gosec // G301: the socket has its own permissions
		return nil, err
	}
	// Create the socket in a private directory, and move it once its mode is set.
	private, err := os.MkdirTemp(directory, ".")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(private) }() // empty by then
	made := filepath.Join(private, "s")
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: made, Net: "unix"})
	if err != nil {
		return nil, err
	}
	listener.SetUnlinkOnClose(false)
	if err := restrict(made, group); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	if err := os.Rename(made, path); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	info, err := os.Lstat(path)
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return &socket{listener, path, info}, nil
}

func restrict(path string, group int) error {
	if group == NoGroup {
		return os.Chmod(path, 0o600)
	}
	if err := os.Chown(path, -1, group); err != nil {
		return fmt.Errorf("giving the socket to group %d, which needs the capability CHOWN or membership (supplementalGroups): %w", group, err)
	}
	return os.Chmod(path, 0o660) //nolint:gosec // G302: the group is the one that may connect
}

// socket removes its file when closed, unless another process has replaced the file by
// then.
type socket struct {
	net.Listener
	path string
	info os.FileInfo
}

// Close closes the listener and removes its file.
func (s *socket) Close() error {
	if now, err := os.Lstat(s.path); err == nil && os.SameFile(now, s.info) {
		_ = os.Remove(s.path) // if this fails, the next agent replaces it
	}
	return s.Listener.Close()
}

// Addr returns the path of the socket.
func (s *socket) Addr() net.Addr { return &net.UnixAddr{Name: s.path, Net: "unix"} }

// Peer admits root and the members of a group, identified by the kernel's credentials of
// the peer process.
func Peer(group int) Caller {
	return func(r *http.Request) *Denial {
		uid, groups, err := peerOf(connections.Of(r.Context()))
		switch {
		case err != nil:
			return &Denial{Status: http.StatusForbidden, Reason: "Forbidden", Message: fmt.Sprintf("The caller cannot be identified: %v.", err)}
		case uid == 0 || group != NoGroup && slices.Contains(groups, uint32(group)):
			return nil
		}
		return &Denial{Status: http.StatusForbidden, Reason: "Forbidden",
			Message: fmt.Sprintf("User %d may not use this socket: call as root, or as a member of the group of --ota-socket-group.", uid)}
	}
}

// peerOf returns the user and the groups of the process that opened a connection.
func peerOf(c *connections.Connection) (uid uint32, groups []uint32, err error) {
	if c == nil {
		return 0, nil, errors.New("there is no connection")
	}
	unix, ok := c.Conn.(*net.UnixConn)
	if !ok {
		return 0, nil, errors.New("the connection is not one of a socket")
	}
	raw, err := unix.SyscallConn()
	if err != nil {
		return 0, nil, err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		credentials, err := syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
		if err != nil {
			failed = err
			return
		}
		uid = credentials.Uid
		groups, failed = peerGroups(fd)
		groups = append(groups, credentials.Gid)
	})
	return uid, groups, errors.Join(err, failed)
}

const (
	soPeerGroups = 59    // SO_PEERGROUPS, since Linux 4.13; missing in package syscall
	maxGroups    = 65536 // NGROUPS_MAX
)

// peerGroups returns the supplementary groups of the process at the other end.
func peerGroups(fd uintptr) ([]uint32, error) {
	groups := make([]uint32, 64)
	for {
		size := uint32(len(groups) * 4)
		_, _, errno := syscall.Syscall6(syscall.SYS_GETSOCKOPT, fd, syscall.SOL_SOCKET, soPeerGroups,
			uintptr(unsafe.Pointer(&groups[0])), uintptr(unsafe.Pointer(&size)), 0) //nolint:gosec // G103: package syscall has no call for this option
		switch {
		case errno == syscall.ENOPROTOOPT: // older kernel: only the primary group is known
			return nil, nil
		case errno == syscall.ERANGE && size/4 <= maxGroups:
			groups = make([]uint32, size/4)
		case errno != 0:
			return nil, errno
		default:
			return groups[:size/4], nil
		}
	}
}
