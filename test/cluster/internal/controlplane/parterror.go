package controlplane

import (
	"fmt"
	"os"
	"strings"
)

// PartError is the failure of one part of the control plane; its log says more.
type PartError struct {
	// Name is the part's name, such as "kube-apiserver".
	Name string
	// Log is the path of its log file.
	Log string
	err error
}

// Error says what happened and which log to read.
func (e *PartError) Error() string {
	return fmt.Sprintf("%s %v; read %s", e.Name, e.err, e.Log)
}

// Unwrap returns what happened.
func (e *PartError) Unwrap() error { return e.err }

// LogTail returns the last n lines of the part's log, or why it cannot be read.
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
