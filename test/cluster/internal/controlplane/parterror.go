package controlplane

import (
	"fmt"
	"os"
	"strings"
)

// PartError is the failure of one component of the control plane.
type PartError struct {
	// Name is the component's name, such as "kube-apiserver".
	Name string
	// Log is the path of its log file.
	Log string
	err error
}

// Error returns the failure and names the log to read.
func (e *PartError) Error() string {
	return fmt.Sprintf("%s %v; read %s", e.Name, e.err, e.Log)
}

// Unwrap returns the underlying error.
func (e *PartError) Unwrap() error { return e.err }

// LogTail returns the last n lines of the component's log, or why it cannot be read.
func (e *PartError) LogTail(n int) string {
	data, err := os.ReadFile(e.Log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

func logSays(path, what string) bool {
	data, err := os.ReadFile(path)
	return err == nil && strings.Contains(string(data), what)
}
