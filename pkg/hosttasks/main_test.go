package hosttasks

import (
	"fmt"
	"os"
	"testing"

	"github.com/go-logr/logr"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/topsops/gcu-operator/test/apiserver"
)

// TestMain also plays docker, and stops the control plane of all tests.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "docker" {
		fmt.Fprintln(os.Stderr, serveDocker(os.Args[2]))
		os.Exit(1)
	}
	ctrllog.SetLogger(logr.Discard())
	os.Exit(apiserver.Run(m))
}
