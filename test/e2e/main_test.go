// Package e2e runs the programs of this project against two real control planes. On
// one, many stories run side by side, each on six nodes of its own, with one manager
// for all; a fleet is beside them. The other is for the stories that need a cluster
// for themselves, one after the other: that of the demo, those in which managers die,
// and the examples, which take every GCU node.
//
// A story names what it makes after itself, and looks at that and its own nodes only, so
// it may run beside any other, in any order. Where it shows that something does not
// happen, it does not wait for a while but for a fence (fence_test.go).
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

// interrupted ends when somebody presses Ctrl-C, so that clusters are taken down.
var interrupted context.Context

func TestMain(m *testing.M) {
	flag.Parse()
	// Stories mostly wait; what bounds them are the nodes.
	if err := flag.Set("test.parallel", "64"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	log.SetLogger(logr.Discard()) // of the clients
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	interrupted = ctx
	code := m.Run()
	if err := errors.Join(crowd.stop(code != 0), single.stop(code != 0)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	stop()
	os.Exit(code)
}

// testContext ends on Ctrl-C, and before the deadline of the whole run.
func testContext(t *testing.T, timeout time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(interrupted, timeout)
	t.Cleanup(cancel)
	return ctx
}
