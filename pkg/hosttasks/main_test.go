package hosttasks

import (
	"fmt"
	"os"
	"testing"

	"github.com/go-logr/logr"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
)

// TestMain plays docker too, and ends the control plane of all tests.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "docker" {
		fmt.Fprintln(os.Stderr, serveDocker(os.Args[2]))
		os.Exit(1)
	}
	ctrllog.SetLogger(logr.Discard())
	code := m.Run()
	if err := stopPlane(); err != nil {
		fmt.Fprintln(os.Stderr, "stopping the control plane:", err)
		code = 1
	}
	os.Exit(code)
}
