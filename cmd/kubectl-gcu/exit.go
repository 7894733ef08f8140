package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
)

// Exit codes, as documented in the help of the root command.
const (
	exitOK        = 0
	exitFailed    = 1
	exitUsage     = 2
	exitNotYet    = 3
	exitRefused   = 4
	exitForbidden = 5
	// exitInterrupted is the code of shells for Ctrl-C.
	exitInterrupted = 130
)

// failure is an error with an exit code.
type failure struct {
	code  int
	cause error
}

func (f *failure) Error() string { return f.cause.Error() }
func (f *failure) Unwrap() error { return f.cause }

// refused returns an error because the state of the cluster does not allow the request;
// nothing was changed.
func refused(format string, args ...any) error {
	return &failure{exitRefused, fmt.Errorf(format, args...)}
}

// notYet returns an error because a wait timed out or stopped, or because another client changed what was requested.
func notYet(format string, args ...any) error {
	return &failure{exitNotYet, fmt.Errorf(format, args...)}
}

// usageError returns an error of the command line or a file.
func usageError(format string, args ...any) error {
	return &failure{exitUsage, fmt.Errorf(format, args...)}
}

// exitCode returns the code of an error; cobra's errors about flags have none.
func exitCode(ctx context.Context, err error) int {
	if err == nil {
		return exitOK
	}
	if ctx.Err() != nil { // whatever error that caused
		return exitInterrupted
	}
	if f, ok := errors.AsType[*failure](err); ok {
		return f.code
	}
	return exitUsage
}

// runE makes a RunE of an action. Its errors are failures, not usage errors.
func runE(do func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return func(command *cobra.Command, args []string) error {
		err := do(command.Context(), args)
		if err == nil {
			return nil
		}
		if f, ok := errors.AsType[*failure](err); ok {
			return f
		}
		return &failure{exitFailed, err}
	}
}
