package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/test/apiserver"
)

// runsManager in the environment makes the test binary run the manager.
const runsManager = "TEST_RUNS_MANAGER"

func TestMain(m *testing.M) {
	if os.Getenv(runsManager) != "" {
		main()
		return
	}
	os.Exit(apiserver.Run(m))
}

// patience is how long a test waits for the manager.
const patience = 30 * time.Second

func TestLogFileOfAManager(t *testing.T) {
	server := apiserver.Shared(t)
	cluster, kubeconfig := server.Client(t, apiserver.Admin), server.KubeconfigFile(t)
	dir := filepath.Join(t.TempDir(), "topscloud", "gcu-operator")
	path := filepath.Join(dir, logFile)
	flags := []string{"--kubeconfig", kubeconfig, "--metrics-bind-address=0", "--health-probe-bind-address=0", "--upgrade-api-bind-address=0"}

	first := startManager(t, append(flags, "--log-dir", dir)...)
	gr := &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: "enflame-gcu-resource"}}
	if err := cluster.Create(t.Context(), gr); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Delete(context.Background(), gr); err != nil {
			t.Error(err)
		}
		removeFinalizer(t, cluster, gr)
	})
	eventually(t, func() string { return lacks(path, regexp.MustCompile(`(?s)(Starting workers.*){3}`)) })
	identity := fmt.Sprintf("gcuResource(name:%s, uuid:%s)", gr.Name, gr.UID)
	t.Run("contract 57: what concerns a gr names it and its uuid", func(t *testing.T) {
		line := regexp.MustCompile(` INFO gcuresource/\w+\.go:\d+ Adding finalizer ` + regexp.QuoteMeta(identity))
		eventually(t, func() string { return lacks(path, line) })
	})
	t.Run("contract 55: after SIGTERM the file holds the last line, and the exit code is 0", func(t *testing.T) {
		if err := first.terminate(t); err != nil {
			t.Errorf("the manager ended with %v: %s", err, first.stderr)
		}
		// An event that was on its way may say afterwards that it was not sent.
		if missing := lacks(path, regexp.MustCompile(`Stopped\n([^\n]* events/event_broadcaster\.go:\d+ [^\n]*\n)*\z`)); missing != "" {
			t.Error(missing)
		}
	})
	before := read(t, path)
	t.Run("contract 55: the log survives a restart, the next manager appends", func(t *testing.T) {
		second := startManager(t, append(flags, "--log-dir", dir)...)
		eventually(t, func() string { return lacks(path, regexp.MustCompile(`(?s)Stopped\n.*(Starting workers.*){3}`)) })
		if err := second.terminate(t); err != nil {
			t.Errorf("the manager ended with %v: %s", err, second.stderr)
		}
		if text := read(t, path); !strings.HasPrefix(text, before) {
			t.Errorf("the lines of the first manager are gone: %s", text)
		}
	})
	t.Run("contract 56: every line has time, level, file and line", func(t *testing.T) {
		shape := regexp.MustCompile(`^\d{4}/\d\d/\d\d \d\d:\d\d:\d\d (INFO|WARNING|ERROR) [\w./-]+\.go:\d+ .+\n$`)
		for line := range strings.Lines(read(t, path)) {
			if !shape.MatchString(line) {
				t.Errorf("unlike the contract's: %q", line)
			}
		}
	})
	t.Run("contract 55: why a manager ends is in the file", func(t *testing.T) {
		absent := startManager(t, "--kubeconfig=/does/not/exist", "--log-dir", dir)
		if err := absent.wait(t); err == nil {
			t.Error("it ended well")
		}
		if missing := lacks(path, regexp.MustCompile(` ERROR \S+ Stopped by an error error=".*/does/not/exist.*"\n\z`)); missing != "" {
			t.Error(missing)
		}
	})
	t.Run("contract 55: a directory that cannot be written is a warning, the manager works all the same", func(t *testing.T) {
		third := startManager(t, append(flags, "--log-dir", path)...) // the directory's path is a file
		removeFinalizer(t, cluster, gr)
		eventually(t, func() string {
			if err := cluster.Get(t.Context(), client.ObjectKeyFromObject(gr), gr); err != nil || len(gr.Finalizers) == 0 {
				return fmt.Sprintf("the finalizer is not back: %v", err)
			}
			return ""
		})
		if err := third.terminate(t); err != nil {
			t.Errorf("the manager ended with %v", err)
		}
		if n := strings.Count(third.stderr.String(), `"level":"warn","ts"`); n != 1 {
			t.Errorf("standard error has %d warnings, want one: %s", n, third.stderr)
		}
	})
}

func removeFinalizer(t *testing.T, cluster client.Client, gr *topsv1.GcuResource) {
	t.Helper()
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null},"spec":{"nfd":{"notDeploy":true}}}`))
	if err := cluster.Patch(context.Background(), gr, patch); err != nil {
		t.Fatal(err)
	}
}

// process is a manager in its own process.
type process struct {
	*exec.Cmd
	stderr *bytes.Buffer
	ended  chan error
}

func startManager(t *testing.T, args ...string) *process {
	t.Helper()
	p := &process{Cmd: exec.Command(os.Args[0], args...), stderr: &bytes.Buffer{}, ended: make(chan error, 1)}
	p.Env = append(os.Environ(), runsManager+"=1")
	p.Stderr = p.stderr
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Process.Kill() }) // already exited, unless the test failed
	go func() { p.ended <- p.Wait() }()
	return p
}

// terminate sends SIGTERM to the manager and returns its exit error.
func (p *process) terminate(t *testing.T) error {
	t.Helper()
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	return p.wait(t)
}

func (p *process) wait(t *testing.T) error {
	t.Helper()
	select {
	case err := <-p.ended:
		return err
	case <-time.After(patience):
		t.Fatal("the manager does not end")
		return nil
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// lacks returns what is missing in a file, "" if it has the text.
func lacks(path string, text *regexp.Regexp) string {
	content, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	if !text.Match(content) {
		return fmt.Sprintf("%s has no %s:\n%s", path, text, content)
	}
	return ""
}

// eventually polls; check returns what is still missing.
func eventually(t *testing.T, check func() string) {
	t.Helper()
	missing := check()
	for deadline := time.Now().Add(patience); missing != "" && time.Now().Before(deadline); missing = check() {
		time.Sleep(50 * time.Millisecond)
	}
	if missing != "" {
		t.Fatal(missing)
	}
}
