package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
)

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

// usageError is an error of the command line.
func usageError(format string, args ...any) error {
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

// runE makes a RunE of what a command does: its errors are no longer those of the
// command line.
func runE(act func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return func(command *cobra.Command, args []string) error {
		err := act(command.Context(), args)
		if err == nil {
			return nil
		}
		if f, ok := errors.AsType[*failure](err); ok {
			return f
		}
		return &failure{exitFailed, err}
	}
}
