package hostagent

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	"github.com/google/go-cmp/cmp"
	testclock "k8s.io/utils/clock/testing"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/hostagent/restart"
	"github.com/topsops/gcu-operator/pkg/hostagent/task"
)

var noon = time.Date(2023, 5, 24, 12, 0, 0, 0, time.UTC)

func fullRecord() task.Record {
	return task.Record{
		Subject: "default runtime enflame, engine docker",
		Result: task.Result{ID: "op-1", Task: "runtime_restart-runtime", State: topsv1.HostTaskRunning, Reason: task.ReasonInProgress, Attempts: 1, Started: noon,
			Facts: task.Facts{Runtime: &task.RuntimeFacts{Engine: task.Docker, Default: "runc", Instance: "b/1/2"}, Host: &task.HostFacts{BootID: "b"}}},
		Begun: &task.Begun{Engine: task.Docker, Before: "b/1/2", Deadline: noon.Add(time.Minute), Attempts: 1, Refused: "exit status 1"},
	}
}

// newExecutor returns an Executor on a host without any engine.
func newExecutor(t *testing.T, state string, change func(*Options)) *Executor {
	t.Helper()
	o := Options{StateDirectory: state, HostRoot: fakeHost(t, map[string]string{"dev/gcu0": "", driverVersionFile: "1.0", bootIDFile: "b"}),
		Clock: testclock.NewFakeClock(noon), Log: testr.New(t)}
	change(&o)
	e, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func restartOperation(id string) task.Request {
	return task.Request{ID: id, Task: "runtime_restart-runtime", Engine: task.Docker, RestartRuntime: &task.RestartRuntime{DefaultRuntime: "enflame", Allowed: true}}
}

func TestVerifyReadsFactsAndRecordsThem(t *testing.T) {
	state := t.TempDir()
	e := newExecutor(t, state, func(*Options) {})
	got, err := e.Execute(t.Context(), task.Request{ID: "op-1", Task: "driver_verify", Verify: true})
	if err != nil || got.State != topsv1.HostTaskDone || got.Facts.Host == nil || got.Facts.Runtime != nil {
		t.Fatalf("result %+v, %v", got, err)
	}
	host := *got.Facts.Host
	if len(host.Missing) != 1 || !strings.HasPrefix(host.Missing[0], "container engine: ") {
		t.Errorf("missing %q, want that no engine answers", host.Missing)
	}
	host.Missing = nil
	cards := 1
	if diff := cmp.Diff(task.HostFacts{DriverVersion: "1.0", Devices: &cards, BootID: "b"}, host); diff != "" {
		t.Errorf("facts (-want +got):\n%s", diff)
	}
	back := newExecutor(t, state, func(*Options) {})
	if diff := cmp.Diff([]task.Result{got}, back.Results()); diff != "" {
		t.Errorf("results of the agent that comes back (-want +got):\n%s", diff)
	}
}

func TestAnOperationIDIsUsedForOneThing(t *testing.T) {
	e := newExecutor(t, t.TempDir(), func(*Options) {})
	first := task.Request{ID: "op", Task: "driver_prepull", Prepull: &task.Prepull{Images: []string{"r.example/driver:1"}}}
	if got, err := e.Execute(t.Context(), first); err != nil || got.Reason != task.ReasonNoEngine {
		t.Fatalf("result %+v, %v", got, err)
	}
	first.Prepull.Images = []string{"r.example/driver:2"}
	if _, err := e.Execute(t.Context(), first); !errors.Is(err, task.ErrConflict) {
		t.Errorf("error is %v, want a conflict", err)
	}
}

func TestTheAttemptIsEchoed(t *testing.T) {
	state := t.TempDir()
	e := newExecutor(t, state, func(*Options) {})
	for _, o := range []task.Request{
		{ID: "op", Task: "driver_prepull", Prepull: &task.Prepull{Images: []string{"r.example/driver:1"}, Note: "secret a/b is missing"}},
		{ID: "op", Task: "driver_verify", Verify: true},
	} {
		for _, attempt := range []int{1, 3} {
			o.Attempt = attempt
			got, err := e.Execute(t.Context(), o)
			if err != nil || got.Attempt != attempt {
				t.Errorf("result %+v, %v, want attempt %d", got, err, attempt)
			}
			if o.Prepull != nil && !strings.HasPrefix(got.Message, "secret a/b is missing; pulling r.example/driver:1: ") {
				t.Errorf("the message is %q", got.Message)
			}
		}
	}
	ended := fullRecord()
	ended.Result.State, ended.Result.Reason, ended.Result.Finished = topsv1.HostTaskDone, task.ReasonRestarted, noon
	if err := e.records.put(ended); err != nil {
		t.Fatal(err)
	}
	again := restartOperation("op-1")
	again.Attempt = 7
	want := ended.Result
	want.Attempt = 7
	for _, e := range []*Executor{e, newExecutor(t, state, func(*Options) {})} {
		got, err := e.Execute(t.Context(), again)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("a restart that has ended: %v (-want +got):\n%s", err, diff)
		}
	}
}

func TestInvalidOperationsAreRefused(t *testing.T) {
	e := newExecutor(t, t.TempDir(), func(*Options) {})
	for name, o := range map[string]task.Request{
		"no id":                {Task: "a_b", Verify: true},
		"an id that is a path": {ID: "../x", Task: "a_b", Verify: true},
		"no task":              {ID: "a", Verify: true},
		"no parameters":        {ID: "a", Task: "a_b"},
		"two parameters":       {ID: "a", Task: "a_b", Verify: true, Prepull: &task.Prepull{Images: []string{"x"}}},
		"another engine":       {ID: "a", Task: "a_b", Engine: "podman", Verify: true},
		"no runtime":           {ID: "a", Task: "a_b", RestartRuntime: &task.RestartRuntime{Allowed: true}},
		"a negative timeout":   {ID: "a", Task: "a_b", RestartRuntime: &task.RestartRuntime{DefaultRuntime: "x", Timeout: -1}},
		"a bad image":          {ID: "a", Task: "a_b", Prepull: &task.Prepull{Images: []string{"x", "a b"}}},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := e.Execute(t.Context(), o); !errors.Is(err, task.ErrInvalid) {
				t.Errorf("error is %v", err)
			}
		})
	}
	if got := e.Results(); len(got) != 0 {
		t.Errorf("recorded %v", got)
	}
}

func TestNothingIsDoneUnderALostRecord(t *testing.T) {
	state := t.TempDir()
	e := newExecutor(t, state, func(*Options) {})
	r := fullRecord()
	if err := errors.Join(e.records.put(r), e.records.put(r)); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(state, "tasks", "*"))
	if err != nil || len(files) != 2 {
		t.Fatalf("files %v, %v", files, err)
	}
	for _, file := range files {
		if err := os.WriteFile(file, []byte("torn"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // also after another restart
		e = newExecutor(t, state, func(*Options) {})
		if _, err := e.Execute(t.Context(), restartOperation("op-1")); !errors.Is(err, task.ErrLost) {
			t.Errorf("error is %v, want that it is lost", err)
		}
	}
	if got, err := e.Execute(t.Context(), restartOperation("op-2")); err != nil || got.Reason != task.ReasonNotConfigured {
		t.Errorf("another operation: %+v, %v", got, err)
	}
	// Repeatable tasks need no record.
	again := task.Request{ID: "op-1", Task: restartOperation("op-1").Task, Prepull: &task.Prepull{}}
	if got, err := e.Execute(t.Context(), again); err != nil || got.State != topsv1.HostTaskDone {
		t.Errorf("a prepull: %+v, %v", got, err)
	}
}

func TestWhatCannotBeRecordedIsNotBegun(t *testing.T) {
	state := t.TempDir()
	e := newExecutor(t, state, func(*Options) {})
	tasks := filepath.Join(state, "tasks")
	if err := errors.Join(os.Remove(tasks), os.WriteFile(tasks, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]task.Request{
		"restart": restartOperation("op"),
		"prepull": {ID: "op", Task: "a_prepull", Prepull: &task.Prepull{Images: []string{"x"}}},
		"verify":  {ID: "op", Task: "a_verify", Verify: true},
	} {
		if _, err := e.Execute(t.Context(), o); !errors.Is(err, task.ErrNotRecorded) {
			t.Errorf("%s: error is %v", name, err)
		}
	}
}

func TestAConfigurationThatIsNotThereIsWaitedForAMinute(t *testing.T) {
	state, clock, manager := t.TempDir(), testclock.NewFakeClock(noon), &refusing{}
	root := fakeHost(t, map[string]string{"etc/docker/daemon.json": `{"default-runtime": "runc"}`})
	run := func() task.Result { // by a freshly started agent
		t.Helper()
		e := newExecutor(t, state, func(o *Options) { o.Clock, o.ServiceManager, o.HostRoot = clock, manager, root })
		got, err := e.Execute(t.Context(), restartOperation("op"))
		if err != nil || got.Reason != task.ReasonNotConfigured || !strings.Contains(got.Message, "enflame") {
			t.Errorf("result %+v, %v", got, err)
		}
		return got
	}
	if got := run(); got.State != topsv1.HostTaskRunning {
		t.Errorf("at first it is %+v", got)
	}
	clock.Step(restart.ConfigurePatience - time.Second)
	if got := run(); got.State != topsv1.HostTaskRunning {
		t.Errorf("within the minute it is %+v", got)
	}
	clock.Step(time.Second)
	if got := run(); got.State != topsv1.HostTaskFailed {
		t.Errorf("after a minute it is %+v", got)
	}
	clock.SetTime(noon.Add(-time.Hour))
	if got := run(); got.State != topsv1.HostTaskFailed {
		t.Errorf("when the clock of the node was set back by an hour it is %+v", got)
	}
	if manager.asked != 0 {
		t.Errorf("the service manager was asked %d times", manager.asked)
	}
}

// refusing is a service manager that cannot start anything.
type refusing struct{ asked int }

func (m *refusing) Busy(context.Context, task.Engine, string) (bool, error) { return false, nil }

func (m *refusing) Restart(context.Context, task.Engine, string) error {
	m.asked++
	return errors.New("systemd says \"failed\"")
}

func TestADaemonThatDoesNotComeBackIsReportedAtOnceAndFailsAtItsDeadline(t *testing.T) {
	state, clock, manager := t.TempDir(), testclock.NewFakeClock(noon), &refusing{}
	e := newExecutor(t, state, func(o *Options) {
		o.Clock, o.ServiceManager = clock, manager
		o.HostRoot = fakeHost(t, map[string]string{"etc/docker/daemon.json": `{"default-runtime": "enflame"}`})
	})
	type end struct {
		result task.Result
		err    error
	}
	ended := make(chan end, 1)
	go func() {
		result, err := e.Execute(t.Context(), restartOperation("op"))
		ended <- end{result, err}
	}()
	for !clock.HasWaiters() {
		select {
		case got := <-ended:
			t.Fatalf("it did not wait: %+v, %v", got.result, got.err)
		case <-time.After(time.Millisecond):
		}
	}
	for _, results := range [][]task.Result{e.Results(), newExecutor(t, state, func(*Options) {}).Results()} {
		if len(results) != 1 || results[0].State != topsv1.HostTaskRunning || results[0].Reason != task.ReasonNotBack ||
			!strings.Contains(results[0].Message, `systemd says "failed"`) || !strings.Contains(results[0].Message, "run: systemctl restart docker.service") {
			t.Errorf("while it waits it tells %+v", results)
		}
	}
	clock.Step(restartOperation("op").Timeout())
	got := <-ended
	if got.err != nil || got.result.State != topsv1.HostTaskFailed || got.result.Reason != task.ReasonNotBack || !strings.Contains(got.result.Message, "/etc/docker/daemon.json") {
		t.Errorf("result %+v, %v", got.result, got.err)
	}
	if manager.asked != 1 {
		t.Errorf("the service manager was asked %d times", manager.asked)
	}
}

func TestADeadlineEndsThoughTheClockOfTheNodeWasSetBack(t *testing.T) {
	state, clock := t.TempDir(), testclock.NewFakeClock(noon.Add(-time.Hour))
	if err := newExecutor(t, state, func(*Options) {}).records.put(fullRecord()); err != nil {
		t.Fatal(err)
	}
	e := newExecutor(t, state, func(o *Options) { o.Clock, o.ServiceManager = clock, &refusing{} })
	ended := make(chan task.Result, 1)
	go func() {
		result, err := e.Execute(t.Context(), restartOperation("op-1"))
		if err != nil {
			t.Error(err)
		}
		ended <- result
	}()
	for stepped := false; ; {
		select {
		case got := <-ended:
			if got.State != topsv1.HostTaskFailed || got.Reason != task.ReasonNotBack || !stepped {
				t.Errorf("after %s: %+v", clock.Now(), got)
			}
			return
		case <-time.After(time.Millisecond):
			switch {
			case !clock.HasWaiters():
			case stepped:
				t.Fatal("it still waits")
			default:
				clock.Step(restartOperation("op-1").Timeout())
				stepped = true
			}
		}
	}
}

// killing is a service manager that kills the agent, and sets what the next one finds recorded.
type killing struct {
	refusing
	kill     context.CancelFunc
	recorded func() *task.Begun
	found    *task.Begun
}

func (m *killing) Restart(context.Context, task.Engine, string) error {
	m.found = m.recorded()
	m.kill()
	return nil
}

// TestARestartIsRecordedBeforeItIsMade: the agent ends with the runtime that it restarts.
func TestARestartIsRecordedBeforeItIsMade(t *testing.T) {
	state := t.TempDir()
	ctx, kill := context.WithCancel(t.Context())
	defer kill()
	manager := &killing{kill: kill, recorded: func() *task.Begun {
		return newExecutor(t, state, func(*Options) {}).records.of("op_runtime_restart-runtime").Begun
	}}
	e := newExecutor(t, state, func(o *Options) {
		o.ServiceManager, o.HostRoot = manager, fakeHost(t, map[string]string{"etc/docker/daemon.json": `{"default-runtime": "enflame"}`})
	})
	if _, err := e.Execute(ctx, restartOperation("op")); !errors.Is(err, context.Canceled) {
		t.Fatalf("error is %v", err)
	}
	if manager.found == nil || manager.found.Attempts != 1 {
		t.Errorf("the next agent finds %+v, and restarts it again", manager.found)
	}
}

// An administrator names the engine of the node while the restart waits because none was found. Earlier versions
// recorded it with the task.
func TestTheEngineOfARestartMayBeNamedLater(t *testing.T) {
	state := t.TempDir()
	e := newExecutor(t, state, func(*Options) {})
	asked := restartOperation("op-1")
	asked.Engine = task.Auto
	if got, err := e.Execute(t.Context(), asked); err != nil || got.Reason != task.ReasonNoEngine {
		t.Fatalf("%+v, %v", got, err)
	}
	old := e.records.of(task.KeyOf(asked.ID, asked.Task))
	old.Subject = "default runtime enflame, engine auto"
	if err := e.records.put(old); err != nil {
		t.Fatal(err)
	}
	if got, err := e.Execute(t.Context(), restartOperation("op-1")); err != nil || got.Reason != task.ReasonNotConfigured {
		t.Errorf("with its engine: %+v, %v", got, err)
	}
	other := restartOperation("op-1")
	other.RestartRuntime.DefaultRuntime = "another"
	if _, err := e.Execute(t.Context(), other); !errors.Is(err, task.ErrConflict) {
		t.Errorf("for another default runtime: %v", err)
	}
}

// The operation has ended: nothing begins a restart again, and what was begun is observed until its own deadline.
func TestAnUnrequestedRestartIsObserved(t *testing.T) {
	clock, manager := testclock.NewFakeClock(noon), &refusing{}
	e := newExecutor(t, t.TempDir(), func(o *Options) { o.Clock, o.ServiceManager = clock, manager })
	r := fullRecord()
	r.Begun = &task.Begun{Engine: task.Docker, Before: r.Begun.Before, Deadline: noon.Add(10 * time.Minute), Timeout: 10 * time.Minute}
	if err := e.records.put(r); err != nil {
		t.Fatal(err)
	}
	unended := e.Unended()
	if len(unended) != 1 || !unended[0].RestartRuntime.Observe || unended[0].RestartRuntime.DefaultRuntime != "enflame" || unended[0].Engine != task.Docker {
		t.Fatalf("%+v", unended)
	}
	f := restart.Facts{Want: *unended[0].RestartRuntime, CanRestart: true, GraceOver: true, Runtime: task.RuntimeFacts{Engine: task.Docker, Default: "runc", Instance: r.Begun.Before}, Begun: r.Begun}
	if d := restart.Decide(f); d.Step != restart.Wait {
		t.Errorf("before the deadline: %+v", d)
	}
	f.Expired = true
	if d := restart.Decide(f); d.Step != restart.Finish || d.Reason != task.ReasonNotRestarted {
		t.Errorf("after the deadline: %+v", d)
	}
	ended := make(chan task.Result, 1)
	go func() {
		result, err := e.Execute(t.Context(), unended[0])
		if err != nil {
			t.Error(err)
		}
		ended <- result
	}()
	for _, step := range []time.Duration{0, 6 * time.Minute} { // longer than a restart may take by default
		clock.Step(step)
		for !clock.HasWaiters() {
			select {
			case got := <-ended:
				t.Fatalf("it ended at %s: %+v", clock.Now(), got)
			case <-time.After(time.Millisecond):
			}
		}
	}
	clock.Step(4 * time.Minute)
	if got := <-ended; got.State != topsv1.HostTaskFailed || got.Reason != task.ReasonNotBack {
		t.Errorf("%+v", got)
	}
	if len(e.Unended()) > 0 || manager.asked > 0 {
		t.Errorf("then %+v is observed; %d restarts", e.Unended(), manager.asked)
	}
}
