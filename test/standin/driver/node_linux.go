package driver

import (
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// MakeCard makes a character device that swallows everything.
func MakeCard(path string) error {
	if err := unix.Mknod(path, unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))); err != nil {
		return fmt.Errorf("making device %s: %w", path, err)
	}
	return os.Chmod(path, 0o666) // everybody's, whatever the umask is
}

// CutOff takes all interfaces of the node down but the loopback. The process needs
// all rights and the node's processes: the first of them is in the node's network.
func CutOff() (err error) {
	// The thread is the node's from here on, so it ends with the goroutine: it is not unlocked.
	done := make(chan error)
	go func() {
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
	interfaces, err := net.Interfaces()
	if err != nil {
		return err
	}
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unix.Close(socket)) }()
	for _, i := range interfaces {
		if i.Flags&net.FlagLoopback != 0 || i.Flags&net.FlagUp == 0 {
			continue
		}
		if err := setDown(socket, i.Name); err != nil {
			return fmt.Errorf("taking interface %s down: %w", i.Name, err)
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
