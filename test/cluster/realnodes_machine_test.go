//go:build realnodes

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// realNodes is a cluster with real nodes. Except for its number, its resources on the
// machine are found without the program under test.
type realNodes struct {
	*running
	number int
	// seen are the start times of the nodes' processes, by id.
	seen map[int]string
}

// numberOf returns N, which is in the names of all the nodes' resources on the machine.
func numberOf(t *testing.T, dir string) int {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "testcluster.json"))
	if err != nil {
		t.Fatal(err)
	}
	var state struct{ Real struct{ Number int } }
	if err := json.Unmarshal(data, &state); err != nil || state.Real.Number == 0 {
		t.Fatalf("no number in %s (%v)", data, err)
	}
	return state.Real.Number
}

// interruptedUp runs up and kills it as soon as a node runs.
func (c command) interruptedUp(t *testing.T, name string) *realNodes {
	t.Helper()
	r := &realNodes{running: &running{command: c, dir: filepath.Join(t.TempDir(), name)}}
	stop := watchdog(t, c.path, r.dir)
	t.Cleanup(func() {
		defer stop()
		if _, err := os.Stat(filepath.Join(r.dir, "testcluster.json")); err == nil {
			r.must(t, "down", "--dir", r.dir)
		}
	})
	up := exec.Command(c.path, "up", "--dir", r.dir, "--real-nodes", "2")
	var printed bytes.Buffer
	up.Stderr = &printed
	if err := up.Start(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		running, err := filepath.Glob(filepath.Join(r.dir, "logs/real-1/kubelet.log"))
		if err == nil && len(running) == 1 {
			break
		}
		if time.Now().After(deadline) {
			_ = up.Process.Kill()
			_ = up.Wait()
			t.Fatalf("no node was started:\n%s%s", &printed, r.logs(t))
		}
	}
	if err := up.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = up.Wait()
	r.number = numberOf(t, r.dir)
	r.remember(t)
	if len(r.seen) == 0 {
		t.Fatal("found no processes on the nodes")
	}
	return r
}

// forget removes the state file of a cluster, so that its nodes have no owner.
func (r *realNodes) forget(t *testing.T) {
	t.Helper()
	for _, pid := range r.pids(t) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	if err := os.Remove(filepath.Join(r.dir, "testcluster.json")); err != nil {
		t.Fatal(err)
	}
}

// processes returns the first process of a node and the start times of all, by id.
func (r *realNodes) processes(t *testing.T, node string) (first int, all map[int]string) {
	t.Helper()
	all = map[int]string{}
	root := fmt.Sprintf("/sys/fs/cgroup/pids/tc%d-%s", r.number, node)
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		root = fmt.Sprintf("/sys/fs/cgroup/tc%d-%s", r.number, node)
	}
	// Groups may appear and disappear meanwhile.
	_ = filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Base(path) != "cgroup.procs" {
			return nil
		}
		data, _ := os.ReadFile(path)
		for _, field := range strings.Fields(string(data)) {
			pid, _ := strconv.Atoi(field)
			name, start, alive := processStart(pid)
			if !alive {
				continue
			}
			all[pid] = start
			if name == "(runsvdir)" {
				first = pid
			}
		}
		return nil
	})
	return first, all
}

// processStart returns the name and the start time of a process that is not a zombie.
func processStart(pid int) (name, start string, alive bool) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", "", false
	}
	end := strings.LastIndex(string(data), ")")
	fields := strings.Fields(string(data[end+1:]))
	return string(data[strings.IndexByte(string(data), '('):][:end-strings.IndexByte(string(data), '(')+1]), fields[19], fields[0] != "Z"
}

func (r *realNodes) remember(t *testing.T) {
	t.Helper()
	r.seen = map[int]string{}
	for i := 1; i <= 3; i++ {
		_, all := r.processes(t, fmt.Sprintf("real-%d", i))
		for pid, start := range all {
			r.seen[pid] = start
		}
	}
}

// mustHaveEnded fails if a process in seen still runs.
func (r *realNodes) mustHaveEnded(t *testing.T) {
	t.Helper()
	for pid, start := range r.seen {
		if name, now, alive := processStart(pid); alive && now == start {
			t.Errorf("process %d %s is left", pid, name)
		}
	}
}

// mustBeGone fails if any resource of the cluster is left on the machine.
func (r *realNodes) mustBeGone(t *testing.T) {
	t.Helper()
	r.mustHaveEnded(t)
	name := fmt.Sprintf("tc%d", r.number)
	for _, argv := range [][]string{{"ip", "netns", "list"}, {"ip", "-oneline", "link"}, {"ip", "route"}, {"cat", "/proc/self/mountinfo"}, {"ls", "/run/netns"}} {
		out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v: %s", argv, err, out)
		}
		for line := range strings.Lines(string(out)) {
			if strings.Contains(line, name) || strings.Contains(line, r.dir+"/") {
				t.Errorf("%v still shows %s", argv, line)
			}
		}
	}
	for _, pattern := range []string{"/sys/fs/cgroup/" + name + "*", "/sys/fs/cgroup/*/" + name + "*", fmt.Sprintf("/run/gcu-testcluster/%d", r.number)} {
		if left, err := filepath.Glob(pattern); err != nil || len(left) != 0 {
			t.Errorf("left: %v (%v)", left, err)
		}
	}
}
