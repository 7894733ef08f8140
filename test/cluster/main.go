// Command testcluster starts, changes and stops a real Kubernetes control plane
// with simulated nodes on this machine, for development and tests. README.md
// tells how to use it.
package main

import (
	"context"
	"embed"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/topsops/gcu-operator/test/cluster/internal/cli"
)

// controlPlaneModule is the Go module that the control plane is built from: this
// module's own go.mod and go.sum, which pin every version, and the etcd command.
// It travels inside the binary, so that testcluster runs from any directory.
//
//go:embed go.mod go.sum etcd/main.go pause/main.go
var controlPlaneModule embed.FS

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := cli.New(controlPlaneModule).ExecuteContext(ctx)
	stop()
	if err != nil {
		// Joined errors come with line breaks.
		fmt.Fprintln(os.Stderr, "testcluster: "+strings.ReplaceAll(err.Error(), "\n", "; "))
		os.Exit(1)
	}
}
