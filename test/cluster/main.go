// Command testcluster starts, changes and stops a real Kubernetes control plane with
// simulated nodes on this machine, for development and tests. See README.md.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/topsops/gcu-operator/test/cluster/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := cli.New().ExecuteContext(ctx)
	stop()
	if err != nil {
		// Joined errors contain line breaks.
		fmt.Fprintln(os.Stderr, "testcluster: "+strings.ReplaceAll(err.Error(), "\n", "; "))
		os.Exit(1)
	}
}
