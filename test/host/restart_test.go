package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	testclock "k8s.io/utils/clock/testing"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/hostagent"
	"github.com/topsops/gcu-operator/pkg/hostagent/task"
)

// Contract 86.
func TestTheRuntimeIsRestartedOnceWhereverTheAgentIsKilled(t *testing.T) {
	for _, engine := range []task.Engine{task.Docker, task.Containerd} {
		t.Run(string(engine), func(t *testing.T) {
			d := startEngine(t, engine)
			want := second
			for i, point := range []killPoint{never, beforeRecord, beforeAsking, amidRestart, beforeTheEnd} {
				want = map[string]string{first: second, second: first}[want]
				t.Run(fmt.Sprintf("killed %q", string(point)), func(t *testing.T) {
					restartOnce(t, d, agent{
						Daemon: d, State: t.TempDir(), Kill: point, ID: fmt.Sprintf("op-%d", i),
						Want: task.RestartRuntime{DefaultRuntime: want, Allowed: true},
					})
				})
			}
		})
	}
}

// restartOnce runs an agent that is killed, and then a new one.
func restartOnce(t *testing.T, d daemon, a agent) {
	before, err := d.started()
	check(t, err)
	d.configure(t, a.Want.DefaultRuntime)

	result := a.run(t)
	if (result == nil) != (a.Kill != never) {
		t.Fatalf("result %v of an agent killed at %q", result, a.Kill)
	}
	a.Kill = never
	result = a.run(t) // the new agent
	wantFacts(t, d, a, *result, task.ReasonRestarted)

	again := a.run(t)
	if diff := cmp.Diff(result, again); diff != "" {
		t.Errorf("a repeated request has another result (-before +now):\n%s", diff)
	}
	after, err := d.started()
	check(t, err)
	if len(after) != len(before)+1 {
		t.Fatalf("%d restarts, want 1", len(after)-len(before))
	}
	if pid := fmt.Sprintf("/%d/", after[len(after)-1]); !strings.Contains(result.Facts.Runtime.Instance, pid) {
		t.Errorf("instance is %s, the last start is process %s", result.Facts.Runtime.Instance, pid)
	}
	wantLog(t, a, "restart "+string(d.Engine)+" success")

	a.ID += "-next"
	wantFacts(t, d, a, *a.run(t), task.ReasonAlreadyDefault)
	wantLog(t, a, "Host 10.12.110.166 "+string(d.Engine)+" default runtime is "+a.Want.DefaultRuntime+", need not restart")
	if last, err := d.started(); err != nil || len(last) != len(after) {
		t.Errorf("restarted although the default runtime was right (%v)", err)
	}
}

func wantFacts(t *testing.T, d daemon, a agent, got task.Result, reason task.Reason) {
	t.Helper()
	runtime := got.Facts.Runtime
	if got.State != topsv1.HostTaskDone || got.Reason != reason || runtime == nil {
		t.Fatalf("result is %s %s %q, want Done %s", got.State, got.Reason, got.Message, reason)
	}
	stops := d.Engine == task.Docker // without live-restore
	if runtime.Default != a.Want.DefaultRuntime || runtime.Engine != d.Engine || runtime.RestartStopsContainers != stops || runtime.Version == "" {
		t.Errorf("runtime is %+v", *runtime)
	}
}

// lineForm is the form of restart-docker.log in the gcu-operator guide.
var lineForm = regexp.MustCompile(`^\[[A-Z][a-z]{2} [A-Z][a-z]{2} [ 0-9]\d \d\d:\d\d:\d\d [A-Z0-9+-]+ \d{4}\] \S.*$`)

// wantLog checks that exactly one line of the restart log contains a text.
func wantLog(t *testing.T, a agent, text string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(a.State, "restart-docker.log"))
	check(t, err)
	found := 0
	for line := range strings.Lines(string(data)) {
		if !lineForm.MatchString(strings.TrimSuffix(line, "\n")) {
			t.Errorf("line is %q", line)
		}
		if strings.Contains(line, text) {
			found++
		}
	}
	if found != 1 {
		t.Errorf("%d lines with %q in:\n%s", found, text, data)
	}
}

func TestWithoutAnEffectNothingIsRestarted(t *testing.T) {
	d := startEngine(t, task.Containerd)
	restart := func(t *testing.T, o hostagent.Options, id string, allowed bool) (task.Result, error) {
		t.Helper()
		e, err := hostagent.New(o)
		check(t, err)
		return e.Execute(context.Background(), task.Request{ID: id, Task: "runtime_restart-runtime",
			RestartRuntime: &task.RestartRuntime{DefaultRuntime: first, Allowed: allowed}})
	}
	before, err := d.started()
	check(t, err)

	t.Run("the configuration does not have the wanted runtime", func(t *testing.T) {
		o, clock := optionsOf(d, t.TempDir()), testclock.NewFakeClock(time.Now())
		o.Clock = clock
		for _, want := range []topsv1.HostTaskState{topsv1.HostTaskRunning, topsv1.HostTaskFailed} { // the toolkit may still be changing it
			got, err := restart(t, o, "a", true)
			if err != nil || got.State != want || got.Reason != task.ReasonNotConfigured {
				t.Errorf("result %+v, %v, want %s", got, err, want)
			}
			clock.Step(time.Minute)
		}
	})
	d.configure(t, first)
	t.Run("it is left to the administrator, and done after the administrator's restart", func(t *testing.T) {
		o := optionsOf(d, t.TempDir())
		got, err := restart(t, o, "b", false)
		if err != nil || got.State != topsv1.HostTaskWaiting || got.Reason != task.ReasonLeftToAdministrator {
			t.Fatalf("result %+v, %v", got, err)
		}
		if now, err := d.started(); err != nil || len(now) != len(before) {
			t.Fatalf("it was restarted nevertheless (%v)", err)
		}
		check(t, restartDaemon(d.file()))
		check(t, poll(agentTimeLimit, "the administrator's restart to show", func() bool {
			got, err = restart(t, o, "b", false)
			return err == nil && got.State == topsv1.HostTaskDone
		}))
		if got.Reason != task.ReasonAlreadyDefault {
			t.Errorf("result %+v, %v", got, err)
		}
	})
	d.configure(t, "runc")
	check(t, restartDaemon(d.file()))
	d.configure(t, first)
	if before, err = d.started(); err != nil {
		t.Fatal(err)
	}
	t.Run("the disk is full", func(t *testing.T) {
		state := t.TempDir()
		check(t, syscall.Mount("tmpfs", state, "tmpfs", 0, "size=64k"))
		t.Cleanup(func() { check(t, syscall.Unmount(state, syscall.MNT_DETACH)) })
		o := optionsOf(d, state)
		o.RestartLog = nil
		e, err := hostagent.New(o)
		check(t, err)
		fill(t, filepath.Join(state, "fill"))
		got, err := e.Execute(context.Background(), task.Request{ID: "c", Task: "runtime_restart-runtime",
			RestartRuntime: &task.RestartRuntime{DefaultRuntime: first, Allowed: true}})
		if !errors.Is(err, task.ErrNotRecorded) || !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("result %+v, %v; want an error about missing disk space", got, err)
		}
	})
	t.Run("the command fails", func(t *testing.T) {
		o := optionsOf(d, t.TempDir())
		o.Command = map[task.Engine][]string{d.Engine: {os.Args[0], "restart-daemon", "/no/such/daemon"}}
		got, err := restart(t, o, "d", true)
		if err != nil || got.State != topsv1.HostTaskFailed || got.Reason != task.ReasonRestartFailed || !strings.Contains(got.Message, "no such file") {
			t.Errorf("result %+v, %v", got, err)
		}
	})
	if now, err := d.started(); err != nil || len(now) != len(before) {
		t.Errorf("%d restarts (%v)", len(now)-len(before), err)
	}
}

// fill writes until the file system is full.
func fill(t *testing.T, path string) {
	t.Helper()
	file, err := os.Create(path)
	check(t, err)
	for err == nil {
		_, err = file.Write(make([]byte, 512))
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	check(t, file.Close())
}
