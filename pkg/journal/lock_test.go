package journal

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/go-logr/logr/testr"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
)

// lockNow locks a directory if no other process has locked it.
func lockNow(t *testing.T, directory string) (unlock func() error, err error) {
	t.Helper()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	return Lock(ended, directory, clock.RealClock{}, testr.New(t))
}

// A process that hangs in the kernel keeps its lock: who waits says which process that is, and what to do.
func TestALockThatIsNotReleasedIsReported(t *testing.T) {
	directory, fake := t.TempDir(), clocktesting.NewFakeClock(time.Unix(0, 0))
	unlock, err := lockNow(t, directory)
	if err != nil {
		t.Fatal(err)
	}
	lines := make(chan string, 100)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := Lock(ctx, directory, fake, funcr.New(func(_, line string) { lines <- line }, funcr.Options{}))
		ended <- err
	}()
	said := func(within time.Duration) (said []string) {
		t.Helper()
		for range within / lockRetry {
			for !fake.HasWaiters() {
				runtime.Gosched()
			}
			fake.Step(lockRetry)
		}
		for !fake.HasWaiters() {
			runtime.Gosched()
		}
		for len(lines) > 0 {
			said = append(said, <-lines)
		}
		return said
	}
	process := fmt.Sprintf("process %d", os.Getpid())
	if first := said(lockStuck - lockRetry); len(first) != 1 || !strings.Contains(first[0], process) {
		t.Errorf("first it says %q", first)
	}
	if then := said(10 * lockStuck); len(then) != 10 || !strings.Contains(then[0], process) || !strings.Contains(then[0], "reboot the node") {
		t.Errorf("then it says %q", then)
	}
	cancel()
	<-ended
	if err := unlock(); err != nil {
		t.Fatal(err)
	}
}

func TestTheHolderOfALock(t *testing.T) {
	const locks = "1: POSIX  ADVISORY  WRITE 11 08:01:77 0 EOF\n2: FLOCK  ADVISORY  WRITE 12 08:01:78 0 EOF\n3: FLOCK  ADVISORY  WRITE 13 08:01:77 0 EOF\n3: -> FLOCK  ADVISORY  WRITE 14 08:01:77 0 EOF\n"
	for file, want := range map[string]string{"08:01:77": "13", "08:01:78": "12", "08:02:77": ""} {
		if got := flockHolder(locks, file); got != want {
			t.Errorf("file %s: %q, want %q", file, got, want)
		}
	}
}

func TestALockIsWaitedFor(t *testing.T) {
	directory, fake := filepath.Join(t.TempDir(), "new"), clocktesting.NewFakeClock(time.Unix(0, 0))
	unlock, err := lockNow(t, directory)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lockNow(t, directory); !errors.Is(err, context.Canceled) {
		t.Errorf("locked twice: %v", err)
	}
	locked := make(chan error)
	go func() {
		unlock, err := Lock(t.Context(), directory, fake, logr.Discard())
		if err == nil {
			err = unlock()
		}
		locked <- err
	}()
	for !fake.HasWaiters() {
		select {
		case err := <-locked:
			t.Fatalf("locked twice: %v", err)
		default:
		}
	}
	child := exec.Command("sleep", "60") // as a restart command, which outlives the agent
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = child.Wait() }()
	defer func() { _ = child.Process.Kill() }()
	if err := unlock(); err != nil {
		t.Fatal(err)
	}
	fake.Step(lockRetry)
	if err := <-locked; err != nil {
		t.Error(err)
	}
}

// lockIn makes a process of this program lock a directory until it is killed.
const lockIn = "LOCK_DIRECTORY"

func TestALockEndsWithItsProcess(t *testing.T) {
	if directory := os.Getenv(lockIn); directory != "" {
		_, err := lockNow(t, directory)
		fmt.Println(err)
		_, _ = io.ReadAll(os.Stdin)
		return
	}
	directory := t.TempDir()
	child := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	child.Env = append(os.Environ(), lockIn+"="+directory)
	_, inErr := child.StdinPipe()
	out, outErr := child.StdoutPipe()
	if err := errors.Join(inErr, outErr, child.Start()); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "<nil>\n" {
		t.Errorf("the other process: %q, %v", line, err)
	}
	if _, err := lockNow(t, directory); err == nil {
		t.Error("two processes have locked it")
	}
	_ = child.Process.Kill()
	_ = child.Wait()
	unlock, err := lockNow(t, directory)
	if err != nil {
		t.Fatalf("when the other process is dead: %v", err)
	}
	if err := unlock(); err != nil {
		t.Error(err)
	}
}

func TestADirectoryThatCannotBeLocked(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := lockNow(t, file); err == nil || errors.Is(err, context.Canceled) {
		t.Errorf("error is %v", err)
	}
}
