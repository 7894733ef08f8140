package hostagent

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/topsops/gcu-operator/pkg/hostagent/task"
)

func commandOf(t *testing.T, argv ...string) Command {
	return Command{Argv: map[task.Engine][]string{task.Docker: argv}, Directory: filepath.Join(t.TempDir(), "commands")}
}

func TestACommandIsNoShellText(t *testing.T) {
	made := filepath.Join(t.TempDir(), "made")
	if err := commandOf(t, "true", ";", "touch", made).Restart(t.Context(), task.Docker, "op"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(made); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a shell has read it: %v", err)
	}
}

func TestAFailedCommandReportsItsOutput(t *testing.T) {
	err := commandOf(t, "ls", "/no-such-file").Restart(t.Context(), task.Docker, "op")
	if err == nil || !strings.Contains(err.Error(), "/no-such-file") {
		t.Errorf("error is %v, want what ls said", err)
	}
	if err := commandOf(t, "true").Restart(t.Context(), task.Containerd, "op"); err == nil || !strings.Contains(err.Error(), "containerd") {
		t.Errorf("error is %v, want that there is none for containerd", err)
	}
}

func TestACommandIsBusyUntilItsLastProcessEnds(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "end")
	// The administrator's command is a shell here: it ends at once and leaves a process that
	// lives until the fifo is written.
	c := commandOf(t, "sh", "-c", `mkfifo "$0"; cat "$0" >&2 & exit 0`, fifo)
	if busy, err := c.Busy(t.Context(), task.Docker, "op"); busy || err != nil {
		t.Fatalf("busy=%t, %v before it began", busy, err)
	}
	if err := c.Restart(t.Context(), task.Docker, "op"); err != nil {
		t.Fatal(err)
	}
	if busy, err := c.Busy(t.Context(), task.Docker, "op"); !busy || err != nil {
		t.Errorf("busy=%t, %v while a process of it lives", busy, err)
	}
	if err := c.Restart(t.Context(), task.Docker, "op"); err == nil || !strings.Contains(err.Error(), "runs already") {
		t.Errorf("error is %v, want that it runs already", err)
	}
	if busy, err := c.Busy(t.Context(), task.Docker, "other"); busy || err != nil {
		t.Errorf("busy=%t, %v of another operation", busy, err)
	}
	if err := os.WriteFile(fifo, nil, 0); err != nil {
		t.Fatal(err)
	}
	untilItEnded(t, c)
}

// untilItEnded waits until no process of the operation op holds the output: a killed process
// holds it until the kernel has closed its files.
func untilItEnded(t *testing.T, c Command) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		busy, err := c.Busy(t.Context(), task.Docker, "op")
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("busy=%t, %v: something lives on", busy, err)
		}
		if !busy {
			return
		}
	}
}

func TestACommandIsKilledWithItsSession(t *testing.T) {
	c := commandOf(t, "sh", "-c", "sleep 600 & wait")
	c.Timeout = 100 * time.Millisecond
	err := c.Restart(t.Context(), task.Docker, "op")
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error is %v", err)
	}
	untilItEnded(t, c)
}

// An engine stops the containers first, and so the agent. Killed between stop and start, it would stay down.
func TestACommandOutlivesAnAgentThatIsStopped(t *testing.T) {
	made := filepath.Join(t.TempDir(), "made")
	c := commandOf(t, "sh", "-c", `sleep 0.3; touch "$0"`, made)
	c.Timeout = time.Minute
	ctx, stop := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, stop)
	if err := c.Restart(ctx, task.Docker, "op"); !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v, want that it goes on", err)
	}
	untilItEnded(t, c)
	if _, err := os.Stat(made); err != nil {
		t.Errorf("the command did not end by itself: %v", err)
	}
}
