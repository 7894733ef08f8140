package host

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/topsops/gcu-operator/pkg/hostagent"
	"github.com/topsops/gcu-operator/pkg/hostagent/task"
	"github.com/topsops/gcu-operator/test/install"
	"github.com/topsops/gcu-operator/test/need"
)

const (
	first  = "enflame"
	second = "enflame-b"
)

// daemon is a container engine below a directory that serves as the host's root. The
// process that restarts it reads it from a file.
type daemon struct {
	Root   string
	Engine task.Engine
	Argv   []string
	Socket string
	Config string
}

func (d daemon) file() string   { return filepath.Join(d.Root, string(d.Engine)+".json") }
func (d daemon) starts() string { return filepath.Join(d.Root, string(d.Engine)+".starts") }
func (d daemon) log() string    { return filepath.Join(d.Root, string(d.Engine)+".log") }

// restartArgv returns the restart command that an administrator would configure.
func (d daemon) restartArgv() []string { return []string{os.Args[0], "restart-daemon", d.file()} }

// startEngine starts a daemon whose default runtime is runc.
func startEngine(t *testing.T, engine task.Engine) daemon {
	t.Helper()
	needHost(t)
	root, err := os.MkdirTemp("", "host")
	if err != nil {
		t.Fatal(err)
	}
	d := daemon{Root: root, Engine: engine}
	t.Cleanup(func() { d.remove(t) })
	at := func(elements ...string) string { return filepath.Join(append([]string{root}, elements...)...) }
	for _, directory := range []string{"etc/docker", "etc/containerd", "run/containerd", "dev", "sys/module/enflame", "proc/sys/kernel/random"} {
		check(t, os.MkdirAll(at(directory), 0o755))
	}
	switch engine {
	case task.Docker:
		d.Socket, d.Config = at("run/docker.sock"), at("etc/docker/daemon.json")
		d.Argv = []string{"dockerd", "--config-file", d.Config, "--data-root", at("data"), "--exec-root", at("exec"),
			"--pidfile", at("pid"), "--host", "unix://" + d.Socket, "--bridge", "none", "--iptables=false"}
	case task.Containerd:
		d.Socket, d.Config = at("run/containerd/containerd.sock"), at("etc/containerd/config.toml")
		d.Argv = []string{"containerd", "--config", d.Config}
	}
	d.configure(t, "runc")
	spec, err := json.Marshal(d)
	check(t, err)
	check(t, os.WriteFile(d.file(), spec, 0o600))
	check(t, d.start())
	check(t, d.await())
	e, err := hostagent.New(optionsOf(d, t.TempDir()))
	check(t, err)
	check(t, poll(30*time.Second, "an answer of "+string(engine), func() bool { // it listens before it is initialized
		facts, err := e.Facts(t.Context(), engine)
		return err == nil && facts.Runtime != nil
	}))
	return d
}

// configure writes the configuration that the next start reads.
func (d daemon) configure(t *testing.T, runtime string) {
	t.Helper()
	config := fmt.Sprintf(`{"default-runtime": %q, "runtimes": {%q: {"path": "runc"}, %q: {"path": "runc"}}}`, runtime, first, second)
	if d.Engine == task.Containerd {
		const cri = `plugins."io.containerd.grpc.v1.cri"`
		config = fmt.Sprintf("version = 2\nroot = %q\nstate = %q\n[grpc]\naddress = %q\n", filepath.Join(d.Root, "data"), filepath.Join(d.Root, "state"), d.Socket)
		config += fmt.Sprintf("[%s]\nrestrict_oom_score_adj = true\n[%s.cni]\nconf_dir = %q\n", cri, cri, filepath.Join(d.Root, "cni"))
		config += fmt.Sprintf("[%s.containerd]\nsnapshotter = \"native\"\ndefault_runtime_name = %q\n", cri, runtime)
		for _, name := range []string{"runc", first, second} {
			config += fmt.Sprintf("[%s.containerd.runtimes.%s]\nruntime_type = \"io.containerd.runc.v2\"\n", cri, name)
		}
	}
	check(t, os.WriteFile(d.Config, []byte(config), 0o600))
}

// start starts the daemon in its own session and records its process.
func (d daemon) start() error {
	log, err := os.OpenFile(d.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	command := exec.Command(d.Argv[0], d.Argv[1:]...)
	command.Stdout, command.Stderr = log, log
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := command.Start(); err != nil {
		return err
	}
	go func() { _ = command.Wait() }() // reaps it while this process lives
	starts, err := os.OpenFile(d.starts(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(starts, command.Process.Pid)
	return errors.Join(err, starts.Close())
}

// started returns the processes of all starts, oldest first.
func (d daemon) started() ([]int, error) {
	data, err := os.ReadFile(d.starts())
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, field := range strings.Fields(string(data)) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			return nil, err
		}
		pids = append(pids, pid)
	}
	return pids, nil
}

// await polls until the daemon listens.
func (d daemon) await() error {
	return poll(30*time.Second, "the socket of "+string(d.Engine), func() bool {
		connection, err := net.Dial("unix", d.Socket)
		if err == nil {
			err = connection.Close()
		}
		return err == nil
	})
}

// stop stops the last started process.
func (d daemon) stop(signal syscall.Signal) error {
	pids, err := d.started()
	if err != nil {
		return err
	}
	pid := pids[len(pids)-1]
	if err := syscall.Kill(pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return poll(30*time.Second, "the end of "+string(d.Engine), func() bool { return !alive(pid) })
}

func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

// restartDaemon restarts a daemon, like a service manager.
func restartDaemon(file string) error {
	var d daemon
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, &d); err != nil {
		return err
	}
	if err := d.stop(syscall.SIGTERM); err != nil {
		return err
	}
	if err := d.start(); err != nil {
		return err
	}
	return d.await()
}

// remove stops the daemon and removes its files and mounts, even if the test failed.
func (d daemon) remove(t *testing.T) {
	if t.Failed() {
		if data, err := os.ReadFile(d.log()); err == nil {
			t.Logf("end of the log of %s:\n%s", d.Engine, data[max(0, len(data)-2000):])
		}
	}
	if err := d.stop(syscall.SIGTERM); err != nil {
		t.Logf("stopping %s: %v", d.Engine, err)
		_ = d.stop(syscall.SIGKILL)
	}
	// A failed test may have started more than one.
	if pids, err := d.started(); err == nil {
		for _, pid := range pids {
			// The id may have been reused by another process.
			if line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err == nil && strings.Contains(string(line), d.Root) {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	}
	// dockerd has its own containerd, which survives if dockerd is killed.
	if data, err := os.ReadFile(filepath.Join(d.Root, "exec/containerd/containerd.pid")); err == nil {
		if pid, err := strconv.Atoi(strings.TrimSpace(string(data))); err == nil && alive(pid) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	for _, mount := range mountsBelow(d.Root) {
		if err := syscall.Unmount(mount, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmounting %s: %v", mount, err)
		}
	}
	if err := os.RemoveAll(d.Root); err != nil {
		t.Errorf("removing %s: %v", d.Root, err)
	}
}

// mountsBelow returns mount points, deepest first.
func mountsBelow(root string) []string {
	data, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return nil
	}
	var mounts []string
	for line := range strings.Lines(string(data)) {
		if fields := strings.Fields(line); len(fields) > 1 && strings.HasPrefix(fields[1], root+"/") {
			mounts = append(mounts, fields[1])
		}
	}
	slices.Sort(mounts)
	slices.Reverse(mounts)
	return mounts
}

// needHost installs missing daemons, and skips the test where they cannot run.
func needHost(t *testing.T) {
	t.Helper()
	const what = "restarting and pulling with a real dockerd and containerd"
	if os.Getuid() != 0 {
		need.Skip(t, what+" needs root")
	}
	if err := install.Programs(t.Context(), "dockerd", "containerd", "runc", "dbus-daemon"); err != nil {
		need.Skip(t, what+": "+err.Error())
	}
}

// poll waits for an effect of other processes.
func poll(limit time.Duration, what string, done func() bool) error {
	for deadline := time.Now().Add(limit); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			return fmt.Errorf("waited %s for %s", limit, what)
		}
	}
	return nil
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
