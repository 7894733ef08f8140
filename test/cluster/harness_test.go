package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	// patience is the timeout of eventually.
	patience = 40 * time.Second
	// eventuallyPoll is its poll interval.
	eventuallyPoll = 100 * time.Millisecond
	// logTail is how much of each log a failure shows, in bytes.
	logTail = 1500
)

// command is the testcluster program, built from this module.
type command struct{ path string }

func build(t *testing.T) command {
	t.Helper()
	path := filepath.Join(t.TempDir(), "testcluster")
	// The build is reproducible.
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", path, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building testcluster: %v\n%s", err, out)
	}
	return command{path: path}
}

// run runs testcluster and returns its output, error output and error.
func (c command) run(args ...string) (stdout, stderr string, err error) {
	cmd := exec.Command(c.path, args...)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err = cmd.Run()
	return out.String(), errOut.String(), err
}

func (c command) must(t *testing.T, args ...string) string {
	t.Helper()
	stdout, stderr, err := c.run(args...)
	if err != nil {
		t.Fatalf("testcluster %s: %v\n%s%s", strings.Join(args, " "), err, stdout, stderr)
	}
	return stdout
}

// mustFail runs testcluster, which must fail with one line that contains want.
func (c command) mustFail(t *testing.T, want string, args ...string) {
	t.Helper()
	stdout, stderr, err := c.run(args...)
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 1 {
		t.Fatalf("testcluster %s: got %v, want exit status 1\n%s%s", strings.Join(args, " "), err, stdout, stderr)
	}
	line := strings.TrimSuffix(stderr, "\n")
	if !strings.HasPrefix(line, "testcluster: ") || strings.Contains(line, "\n") || !strings.Contains(line, want) {
		t.Errorf("testcluster %s: got error %q, want one line with %q", strings.Join(args, " "), stderr, want)
	}
}

// running is a cluster that is up.
type running struct {
	command
	dir    string
	client kubernetes.Interface
}

// up starts a cluster that is removed at the end of the test, even if the test is
// killed.
func (c command) up(t *testing.T, name string, flags ...string) *running {
	t.Helper()
	r := &running{command: c, dir: filepath.Join(t.TempDir(), name)}
	stop := watchdog(t, c.path, r.dir)
	t.Cleanup(func() {
		defer stop()
		if _, err := os.Stat(filepath.Join(r.dir, "testcluster.json")); err == nil {
			r.must(t, "down", "--dir", r.dir)
		}
	})
	stdout := r.must(t, append([]string{"up", "--dir", r.dir}, flags...)...)
	kubeconfig := filepath.Join(r.dir, "admin.kubeconfig")
	if stdout != kubeconfig+"\n" {
		t.Fatalf("up printed %q, want the kubeconfig's path %q alone", stdout, kubeconfig)
	}
	r.client = clientFor(t, kubeconfig)
	return r
}

// watchdog starts a process that removes the cluster if this process is killed or
// times out, when no cleanup runs. It waits for EOF on a pipe that only this process
// holds open.
func watchdog(t *testing.T, program, dir string) (stop func()) {
	t.Helper()
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatalf("making a pipe: %v", err)
	}
	script := `read -r done || { "$0" down --dir "$1"; rm -rf "$(dirname "$0")"; } >/dev/null 2>&1`
	cmd := exec.Command("/bin/sh", "-c", script, program, dir)
	cmd.Stdin = reader
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		t.Fatalf("starting the watchdog: %v", err)
	}
	_ = reader.Close()
	return func() {
		_, _ = writer.WriteString("done\n")
		_ = writer.Close()
		_ = cmd.Wait()
	}
}

func clientFor(t *testing.T, kubeconfig string) kubernetes.Interface {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatalf("reading the kubeconfig: %v", err)
	}
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatalf("making a client: %v", err)
	}
	return client
}

// pids returns the process ids in the cluster's state file, by name.
func (r *running) pids(t *testing.T) map[string]int {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(r.dir, "testcluster.json"))
	if err != nil {
		t.Fatalf("reading the state: %v", err)
	}
	var state struct {
		Processes []struct {
			Name string
			PID  int
		}
	}
	if err := json.Unmarshal(data, &state); err != nil {
		t.Fatalf("reading the state: %v", err)
	}
	pids := map[string]int{}
	for _, p := range state.Processes {
		pids[p.Name] = p.PID
	}
	return pids
}

// processesOf returns the command lines of all processes on this machine that contain
// the directory. It does not rely on the program under test.
func processesOf(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatalf("listing processes: %v", err)
	}
	var found []string
	for _, file := range files {
		data, err := os.ReadFile(file)
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		// The slash excludes the watchdog, whose command line contains the directory
		// itself.
		if err == nil && bytes.Contains(data, []byte(dir+"/")) && pid != os.Getpid() {
			found = append(found, strings.ReplaceAll(string(data), "\x00", " "))
		}
	}
	return found
}

// logs returns the end of every log of the cluster.
func (r *running) logs(t *testing.T) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(r.dir, "logs", "*.log"))
	if err != nil {
		t.Fatalf("listing logs: %v", err)
	}
	var out strings.Builder
	for _, file := range files {
		data, _ := os.ReadFile(file)
		out.WriteString("== " + filepath.Base(file) + "\n" + string(data[max(0, len(data)-logTail):]))
	}
	return out.String()
}

// eventually polls holds until it returns "", and fails with its last result on
// timeout.
func eventually(t *testing.T, holds func(ctx context.Context) string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	last := ""
	for ctx.Err() == nil {
		answer := holds(ctx)
		if answer == "" {
			return
		}
		if ctx.Err() == nil {
			last = answer
		}
		time.Sleep(eventuallyPoll)
	}
	t.Fatalf("timed out after %s: %s", patience, last)
}

var (
	get    = metav1.GetOptions{}
	create = metav1.CreateOptions{}
)
