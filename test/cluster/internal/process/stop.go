package process

import (
	"fmt"
	"strings"
	"syscall"
	"time"
)

// stopPoll is the poll interval for stopping processes.
const stopPoll = 20 * time.Millisecond

// Stop stops all processes together and returns when they have exited: it sends
// SIGTERM, and SIGKILL after grace. It does not return early, so that no process is
// left. Processes that no longer exist are ignored.
func Stop(records []Record, grace time.Duration) error {
	signal(records, syscall.SIGTERM)
	left := waitGone(records, grace)
	if len(left) == 0 {
		return nil
	}
	signal(left, syscall.SIGKILL)
	if left = waitGone(left, grace); len(left) == 0 {
		return nil
	}
	var names []string
	for _, r := range left {
		names = append(names, fmt.Sprintf("%s (pid %d)", r.Name, r.PID))
	}
	return fmt.Errorf("stopping %s: still running after being killed", strings.Join(names, ", "))
}

// Signal sends a signal to a process that runs.
func Signal(r Record, s syscall.Signal) error {
	if !r.Alive() {
		return fmt.Errorf("signalling %s: it does not run", r.Name)
	}
	if err := syscall.Kill(r.PID, s); err != nil {
		return fmt.Errorf("signalling %s (pid %d): %w", r.Name, r.PID, err)
	}
	return nil
}

// Kill kills a process, like a crash, and returns when it has exited.
func Kill(r Record, grace time.Duration) error {
	if err := Signal(r, syscall.SIGKILL); err != nil {
		return err
	}
	if len(waitGone([]Record{r}, grace)) > 0 {
		return fmt.Errorf("killing %s (pid %d): still running", r.Name, r.PID)
	}
	return nil
}

func signal(records []Record, s syscall.Signal) {
	for _, r := range records {
		if r.Alive() {
			// A process that has exited meanwhile needs no signal.
			_ = syscall.Kill(r.PID, s)
		}
	}
}

// waitGone waits until no process runs or timeout has passed, and returns those that
// still run.
func waitGone(records []Record, timeout time.Duration) []Record {
	deadline := time.Now().Add(timeout)
	for {
		var left []Record
		for _, r := range records {
			if r.Alive() {
				left = append(left, r)
			}
		}
		if len(left) == 0 || time.Now().After(deadline) {
			return left
		}
		records = left
		time.Sleep(stopPoll)
	}
}
