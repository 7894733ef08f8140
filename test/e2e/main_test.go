// Package e2e runs the programs of this project against real control planes. On
// one, many stories run in parallel, each on nodes of its own;
// they share one manager. On another, stories that need a whole cluster run one after
// the other: the demo's story, those in which managers are killed, and the examples,
// which use every GCU node. The third is for outages of the control plane itself
// (outages_test.go), which make long runs. The soak (soak_test.go), of make long and make
// soak, has a build tag and a cluster of its own.
//
// The objects of a story have unique names, and it checks only these and its own nodes,
// so stories may run in parallel and in any order. To verify that something does not
// happen, a story waits for a fence (fence_test.go) instead of sleeping.
package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// interrupted is done on Ctrl-C, so that clusters are removed.
var interrupted context.Context

func TestMain(m *testing.M) {
	flag.Parse()
	// Stories mostly wait; the number of nodes limits them.
	if err := flag.Set("test.parallel", "64"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	log.SetLogger(logr.Discard()) // silences the clients
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	interrupted = ctx
	code := m.Run()
	if err := errors.Join(crowd.stop(code != 0), single.stop(code != 0), fragile.stop(code != 0)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	stop()
	os.Exit(code)
}

// testContext returns a context that ends on Ctrl-C, and before the deadline of the
// whole run.
func testContext(t *testing.T, timeout time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(interrupted, timeout)
	t.Cleanup(cancel)
	return ctx
}
