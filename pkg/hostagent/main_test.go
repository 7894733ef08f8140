package hostagent

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

// printHolders makes this program print the holders of the devices in the directory $DEVICES on this machine.
const printHolders = "PRINT_DEVICE_HOLDERS"

// endMainThread makes this program end its main thread, and then wait for the end of its input in another one.
const endMainThread = "END_MAIN_THREAD"

func init() {
	if os.Getenv(endMainThread) != "" {
		runtime.LockOSThread() // of TestMain: the main one
	}
}

func TestMain(m *testing.M) {
	if os.Getenv(endMainThread) != "" {
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			os.Exit(0)
		}()
		_, _, err := syscall.Syscall(syscall.SYS_EXIT, 0, 0, 0)
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if os.Getenv(printHolders) == "" {
		goleak.VerifyTestMain(m)
		return
	}
	found, err := processes{proc: "/proc", dev: os.Getenv("DEVICES")}.holders()
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(found)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
