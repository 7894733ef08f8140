package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// version is set by the build: -ldflags "-X main.version=v1.2.3".
var version = "dev"

// Exit codes, for scripts; the help of the root command tells them.
const (
	exitOK        = 0
	exitFailed    = 1
	exitUsage     = 2
	exitNotYet    = 3
	exitRefused   = 4
	exitForbidden = 5
	// exitInterrupted is what shells use for a program ended by Ctrl-C.
	exitInterrupted = 130
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is the whole program; it returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	command := newRoot(genericiooptions.IOStreams{In: stdin, Out: stdout, ErrOut: stderr})
	command.SetArgs(args)
	err := command.ExecuteContext(ctx)
	code := exitCode(ctx, err)
	switch code {
	case exitOK:
	case exitInterrupted:
		fmt.Fprintln(stderr, "interrupted")
	case exitUsage:
		fmt.Fprintln(stderr, "error:", err, "(see kubectl gcu --help)")
	default:
		fmt.Fprintln(stderr, "error:", err)
	}
	return code
}

// failure is an error of a command that was understood.
type failure struct {
	code  int
	cause error
}

func (f *failure) Error() string { return f.cause.Error() }
func (f *failure) Unwrap() error { return f.cause }

// refused is an error because the cluster is not in a state for what was asked;
// nothing was changed.
func refused(format string, args ...any) error {
	return &failure{exitRefused, fmt.Errorf(format, args...)}
}

// notYet is an error because what was waited for did not come.
func notYet(format string, args ...any) error {
	return &failure{exitNotYet, fmt.Errorf(format, args...)}
}

// misused is an error of the command line.
func misused(format string, args ...any) error {
	return &failure{exitUsage, fmt.Errorf(format, args...)}
}

// exitCode is that of an error; one without a code comes from reading flags.
func exitCode(ctx context.Context, err error) int {
	if err == nil {
		return exitOK
	}
	if ctx.Err() != nil { // whatever that made of it
		return exitInterrupted
	}
	if f, ok := errors.AsType[*failure](err); ok {
		return f.code
	}
	return exitUsage
}
