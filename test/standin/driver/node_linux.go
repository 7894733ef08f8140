package driver

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// MakeCard creates a character device that discards all data.
func MakeCard(path string) error {
	if err := unix.Mknod(path, unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))); err != nil {
		return fmt.Errorf("making device %s: %w", path, err)
	}
	return os.Chmod(path, 0o666) // regardless of the umask
}

// CutOff takes down the node's interfaces to other networks. The process must be
// privileged and in the node's PID namespace, whose first process is in the node's
// network.
func CutOff() error {
	done := make(chan error)
	go func() {
		// This thread joins another network namespace. It stays locked, so it ends with the
		// goroutine.
		runtime.LockOSThread()
		done <- cutHere()
	}()
	return <-done
}

func cutHere() (err error) {
	network, err := os.Open("/proc/1/ns/net")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, network.Close()) }()
	if err := unix.Setns(int(network.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("joining the network of the node: %w", err)
	}
	routes, err := os.ReadFile("/proc/thread-self/net/route")
	if err != nil {
		return err
	}
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unix.Close(socket)) }()
	for line := range strings.Lines(string(routes)) {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[1] != "00000000" {
			continue // no default route
		}
		if err := setDown(socket, fields[0]); err != nil {
			return fmt.Errorf("taking interface %s down: %w", fields[0], err)
		}
	}
	return nil
}

func setDown(socket int, name string) error {
	request, err := unix.NewIfreq(name)
	if err != nil {
		return err
	}
	if err := unix.IoctlIfreq(socket, unix.SIOCGIFFLAGS, request); err != nil {
		return err
	}
	request.SetUint16(request.Uint16() &^ unix.IFF_UP)
	return unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, request)
}
