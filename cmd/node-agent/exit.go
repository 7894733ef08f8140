package main

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
	// Those of node-agent ota only.
	exitNotDone  = 3
	exitTimedOut = 4
)

// exitError is an error with the exit code of the program.
type exitError struct {
	code  int
	cause error
}

func (e *exitError) Error() string { return e.cause.Error() }
func (e *exitError) Unwrap() error { return e.cause }
