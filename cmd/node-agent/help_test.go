package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestEveryOTACommandHasUsage checks that every command has an example and
// completion.
func TestEveryOTACommandHasUsage(t *testing.T) {
	for _, name := range []string{"status", "upgrade", "watch", "hold", "release", "rollback"} {
		var stdout, stderr buffer
		if code := run(t.Context(), []string{"ota", name, "--help"}, &stdout, &stderr); code != exitOK ||
			!strings.Contains(stdout.String(), "Examples:\n  node-agent ota "+name) {
			t.Errorf("node-agent ota %s --help: exit code %d, %s%s", name, code, stdout.String(), stderr.String())
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		var stdout, stderr buffer
		if code := run(t.Context(), []string{"completion", shell}, &stdout, &stderr); code != exitOK || stdout.String() == "" {
			t.Errorf("completion for %s: exit code %d, %s", shell, code, stderr.String())
		}
	}
}

// TestOtherSystemsHaveTheClient: the agent itself needs Linux.
func TestOtherSystemsHaveTheClient(t *testing.T) {
	if testing.Short() {
		t.Skip("it compiles the program for other systems")
	}
	for _, system := range []string{"darwin", "windows"} {
		command := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(t.TempDir(), "node-agent"), ".")
		command.Env = append(os.Environ(), "GOOS="+system, "CGO_ENABLED=0")
		if output, err := command.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", system, err, output)
		}
	}
}
