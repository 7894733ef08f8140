package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
)

// gcPercent trades CPU, of which the agent uses next to none, for memory, of which an
// edge node has little. GOGC overrides it.
const gcPercent = 50

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is the whole program: it returns when ctx is done or the agent cannot go
// on, with the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	command := newCommand()
	command.SetArgs(args)
	command.SetOut(stdout)
	command.SetErr(stderr)
	err := command.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	if failure, ok := errors.AsType[*exitError](err); ok {
		command.PrintErrln("node-agent:", err)
		return failure.code
	}
	command.PrintErrln("node-agent:", err, "(see node-agent --help)")
	return exitUsage
}
