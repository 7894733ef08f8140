package main

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
	// Only of node-agent ota.
	exitNotDone  = 3
	exitTimedOut = 4
)

// exitError is an error with an exit code.
type exitError struct {
	code  int
	cause error
}

func (e *exitError) Error() string { return e.cause.Error() }
func (e *exitError) Unwrap() error { return e.cause }
