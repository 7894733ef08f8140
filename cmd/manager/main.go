package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // time zones of maintenance windows, on any image
)

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
