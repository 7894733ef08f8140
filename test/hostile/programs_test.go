package hostile

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// programs is the folder of the programs that tests run.
var programs string

// built are the programs that were built, by name.
var built sync.Map

// program returns a program of cmd, which is built once.
func program(t *testing.T, name string) string {
	t.Helper()
	build, _ := built.LoadOrStore(name, sync.OnceValues(func() (string, error) {
		path := filepath.Join(programs, name)
		if output, err := exec.Command("go", "build", "-o", path, "../../cmd/"+name).CombinedOutput(); err != nil {
			return "", fmt.Errorf("building %s: %w: %s", name, err, output)
		}
		return path, nil
	}))
	path, err := build.(func() (string, error))()
	check(t, err)
	return path
}

// shortFolder returns a folder for a test whose name is short, for the sockets in it.
func shortFolder(t *testing.T) string {
	t.Helper()
	folder, err := os.MkdirTemp("", "gcu")
	check(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	return folder
}
