package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // maintenance windows know time zones wherever the manager runs
)

// version is set by the build: -ldflags "-X main.version=v1.2.3".
var version = "dev"

// Exit codes.
const (
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := newCommand().ExecuteContext(ctx)
	stop()
	if err == nil {
		return
	}
	if _, ok := errors.AsType[*runError](err); ok {
		os.Exit(exitFailed)
	}
	fmt.Fprintf(os.Stderr, "manager: %v (see manager --help)\n", err)
	os.Exit(exitUsage)
}

// runError is an error that no other flag would have avoided. It is in the log.
type runError struct{ cause error }

func (e *runError) Error() string { return e.cause.Error() }
func (e *runError) Unwrap() error { return e.cause }
