package hostagent

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// printHolders makes this program print the holders of the devices in the directory $DEVICES on this machine.
const printHolders = "PRINT_DEVICE_HOLDERS"

func TestMain(m *testing.M) {
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
