package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/topsops/gcu-operator/pkg/plaintext"
)

// gcPercent trades CPU, of which the agent uses little, for memory, which is scarce on edge
// nodes. GOGC overrides it.
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

// run runs the program until ctx is done or an error ends the agent, and returns the exit
// code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	command := newCommand()
	command.SetArgs(args)
	command.SetOut(plaintext.NewWriter(stdout))
	command.SetErr(plaintext.NewWriter(stderr))
	err := command.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	if failure, ok := errors.AsType[*exitError](err); ok {
		command.PrintErrln("node-agent:", plaintext.Line(err.Error()))
		return failure.code
	}
	command.PrintErrln("node-agent:", err, "(see node-agent --help)")
	return exitUsage
}
