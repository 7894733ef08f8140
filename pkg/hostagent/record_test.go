package hostagent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	testclock "k8s.io/utils/clock/testing"
)

var noon = time.Date(2023, 5, 24, 12, 0, 0, 0, time.UTC)

func fullRecord() record {
	return record{
		Subject: "default runtime enflame, engine docker",
		Result: Result{ID: "op-1", Task: "runtime_restart-runtime", State: Running, Reason: ReasonInProgress, Attempts: 1, Started: noon,
			Facts: Facts{Runtime: &RuntimeFacts{Engine: Docker, Default: "runc", Instance: "b/1/2"}, Host: &HostFacts{BootID: "b"}}},
		Begun: &begun{Engine: Docker, Before: "b/1/2", Deadline: noon.Add(time.Minute), Attempts: 1, Refused: "exit status 1"},
	}
}

func FuzzRecord(f *testing.F) {
	for _, r := range []record{fullRecord(), {Result: Result{ID: "a", Task: "b_c"}}} {
		data, err := recordKind.Encode(r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
		f.Add(data[:len(data)/2])
		f.Add(bytes.Replace(data, []byte("op-1"), []byte("../1"), 1))
	}
	f.Add([]byte(`{"checksum":"","entry":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := recordKind.Decode(data)
		if err != nil {
			return
		}
		if key := r.key(); filepath.Base(key) != key || !recordKind.IDPattern.MatchString(key) {
			t.Fatalf("accepted a key that is no file name: %q", key)
		}
		again, err := recordKind.Encode(r)
		if err != nil || !bytes.Equal(bytes.TrimSpace(again), bytes.TrimSpace(data)) {
			t.Fatalf("decoded and encoded again it differs (%v):\n%s\n%s", err, data, again)
		}
	})
}

func TestSuperfluousRecordsAreTheOldestThatEnded(t *testing.T) {
	records := map[string]record{}
	for i, state := range []State{Done, Running, Failed, Running, Done} {
		at := noon.Add(time.Duration(i) * time.Second)
		r := record{Result: Result{ID: fmt.Sprint("op-", i), Task: "a_b", State: state, Started: at}}
		if state != Running {
			r.Result.Finished = at
		}
		if i == 1 {
			r.Begun = &begun{} // a restart that may still take effect
		}
		records[r.key()] = r
	}
	if diff := cmp.Diff([]string{"op-0_a_b", "op-2_a_b", "op-3_a_b"}, superfluous(records, 1)); diff != "" {
		t.Errorf("keeping one (-want +got):\n%s", diff)
	}
	if got := superfluous(records, 4); got != nil {
		t.Errorf("keeping four of four: %v", got)
	}
}

// newExecutor is one on a host without any engine.
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

func restartOperation(id string) Operation {
	return Operation{ID: id, Task: "runtime_restart-runtime", RestartRuntime: &RestartRuntime{DefaultRuntime: "enflame", Allowed: true, Engine: Docker}}
}

func TestVerifyReadsFactsAndRecordsThem(t *testing.T) {
	state := t.TempDir()
	e := newExecutor(t, state, func(*Options) {})
	got, err := e.Execute(t.Context(), Operation{ID: "op-1", Task: "driver_verify", Verify: &Verify{}})
	if err != nil || got.State != Done || got.Facts.Host == nil || got.Facts.Runtime != nil {
		t.Fatalf("result %+v, %v", got, err)
	}
	host := *got.Facts.Host
	if len(host.Missing) != 1 || !strings.HasPrefix(host.Missing[0], "container engine: ") {
		t.Errorf("missing %q, want that no engine answers", host.Missing)
	}
	host.Missing = nil
	cards := 1
	if diff := cmp.Diff(HostFacts{DriverVersion: "1.0", Devices: &cards, BootID: "b"}, host); diff != "" {
		t.Errorf("facts (-want +got):\n%s", diff)
	}
	back := newExecutor(t, state, func(*Options) {})
	if diff := cmp.Diff([]Result{got}, back.Results()); diff != "" {
		t.Errorf("results of the agent that comes back (-want +got):\n%s", diff)
	}
}

func TestAnOperationIDIsUsedForOneThing(t *testing.T) {
	e := newExecutor(t, t.TempDir(), func(*Options) {})
	first := Operation{ID: "op", Task: "driver_prepull", Prepull: &Prepull{Images: []string{"r.example/driver:1"}}}
	if got, err := e.Execute(t.Context(), first); err != nil || got.Reason != ReasonNoEngine {
		t.Fatalf("result %+v, %v", got, err)
	}
	first.Prepull.Images = []string{"r.example/driver:2"}
	if _, err := e.Execute(t.Context(), first); !errors.Is(err, ErrConflict) {
		t.Errorf("error is %v, want a conflict", err)
	}
}

func TestTheAttemptIsEchoed(t *testing.T) {
	state := t.TempDir()
	e := newExecutor(t, state, func(*Options) {})
	for _, o := range []Operation{
		{ID: "op", Task: "driver_prepull", Prepull: &Prepull{Images: []string{"r.example/driver:1"}, Note: "secret a/b is missing"}},
		{ID: "op", Task: "driver_verify", Verify: &Verify{}},
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
	ended.Result.State, ended.Result.Reason, ended.Result.Finished = Done, ReasonRestarted, noon
	if err := e.put(ended); err != nil {
		t.Fatal(err)
	}
	restart := restartOperation("op-1")
	restart.Attempt = 7
	want := ended.Result
	want.Attempt = 7
	for _, e := range []*Executor{e, newExecutor(t, state, func(*Options) {})} {
		got, err := e.Execute(t.Context(), restart)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("a restart that has ended: %v (-want +got):\n%s", err, diff)
		}
	}
}

func TestInvalidOperationsAreRefused(t *testing.T) {
	e := newExecutor(t, t.TempDir(), func(*Options) {})
	verify := &Verify{}
	for name, o := range map[string]Operation{
		"no id":                {Task: "a_b", Verify: verify},
		"an id that is a path": {ID: "../x", Task: "a_b", Verify: verify},
		"no task":              {ID: "a", Verify: verify},
		"no parameters":        {ID: "a", Task: "a_b"},
		"two parameters":       {ID: "a", Task: "a_b", Verify: verify, Prepull: &Prepull{Images: []string{"x"}}},
		"another engine":       {ID: "a", Task: "a_b", Verify: &Verify{Engine: "podman"}},
		"no runtime":           {ID: "a", Task: "a_b", RestartRuntime: &RestartRuntime{Allowed: true}},
		"a negative timeout":   {ID: "a", Task: "a_b", RestartRuntime: &RestartRuntime{DefaultRuntime: "x", Timeout: -1}},
		"a bad image":          {ID: "a", Task: "a_b", Prepull: &Prepull{Images: []string{"x", "a b"}}},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := e.Execute(t.Context(), o); !errors.Is(err, ErrInvalid) {
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
	if err := errors.Join(e.put(r), e.put(r)); err != nil {
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
	for range 2 { // also when it comes back once more
		e = newExecutor(t, state, func(*Options) {})
		if _, err := e.Execute(t.Context(), restartOperation("op-1")); !errors.Is(err, ErrLost) {
			t.Errorf("error is %v, want that it is lost", err)
		}
	}
	if got, err := e.Execute(t.Context(), restartOperation("op-2")); err != nil || got.Reason != ReasonNotConfigured {
		t.Errorf("another operation: %+v, %v", got, err)
	}
	// What may be done again needs no record.
	again := Operation{ID: "op-1", Task: restartOperation("op-1").Task, Prepull: &Prepull{}}
	if got, err := e.Execute(t.Context(), again); err != nil || got.State != Done {
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
	for name, o := range map[string]Operation{
		"restart": restartOperation("op"),
		"prepull": {ID: "op", Task: "a_prepull", Prepull: &Prepull{Images: []string{"x"}}},
		"verify":  {ID: "op", Task: "a_verify", Verify: &Verify{}},
	} {
		if _, err := e.Execute(t.Context(), o); !errors.Is(err, ErrNotRecorded) {
			t.Errorf("%s: error is %v", name, err)
		}
	}
}

func TestAConfigurationThatIsNotThereIsWaitedForAMinute(t *testing.T) {
	state, clock, manager := t.TempDir(), testclock.NewFakeClock(noon), &refusing{}
	root := fakeHost(t, map[string]string{"etc/docker/daemon.json": `{"default-runtime": "runc"}`})
	run := func() Result { // by an agent that has just come back
		t.Helper()
		e := newExecutor(t, state, func(o *Options) { o.Clock, o.ServiceManager, o.HostRoot = clock, manager, root })
		got, err := e.Execute(t.Context(), restartOperation("op"))
		if err != nil || got.Reason != ReasonNotConfigured || !strings.Contains(got.Message, "enflame") {
			t.Errorf("result %+v, %v", got, err)
		}
		return got
	}
	if got := run(); got.State != Running {
		t.Errorf("at first it is %+v", got)
	}
	clock.Step(configurePatience - time.Second)
	if got := run(); got.State != Running {
		t.Errorf("within the minute it is %+v", got)
	}
	clock.Step(time.Second)
	if got := run(); got.State != Failed {
		t.Errorf("after a minute it is %+v", got)
	}
	if manager.asked != 0 {
		t.Errorf("the service manager was asked %d times", manager.asked)
	}
}

// refusing is a service manager that cannot start anything.
type refusing struct{ asked int }

func (m *refusing) Busy(context.Context, Engine, string) (bool, error) { return false, nil }

func (m *refusing) Restart(context.Context, Engine, string) error {
	m.asked++
	return errors.New("systemd says \"failed\"")
}

func TestADaemonThatDoesNotComeBackIsToldOfAtOnceAndFailsAtItsDeadline(t *testing.T) {
	state, clock, manager := t.TempDir(), testclock.NewFakeClock(noon), &refusing{}
	e := newExecutor(t, state, func(o *Options) {
		o.Clock, o.ServiceManager = clock, manager
		o.HostRoot = fakeHost(t, map[string]string{"etc/docker/daemon.json": `{"default-runtime": "enflame"}`})
	})
	type end struct {
		result Result
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
	for _, results := range [][]Result{e.Results(), newExecutor(t, state, func(*Options) {}).Results()} {
		if len(results) != 1 || results[0].State != Running || results[0].Reason != ReasonNotBack ||
			!strings.Contains(results[0].Message, `systemd says "failed"`) || !strings.Contains(results[0].Message, "run: systemctl restart docker.service") {
			t.Errorf("while it waits it tells %+v", results)
		}
	}
	clock.Step(defaultRestartTimeout)
	got := <-ended
	if got.err != nil || got.result.State != Failed || got.result.Reason != ReasonNotBack || !strings.Contains(got.result.Message, "/etc/docker/daemon.json") {
		t.Errorf("result %+v, %v", got.result, got.err)
	}
	if manager.asked != 1 {
		t.Errorf("the service manager was asked %d times", manager.asked)
	}
}

func TestCredentialsForAnImage(t *testing.T) {
	secret := func(auths string) corev1.Secret {
		return corev1.Secret{Type: corev1.SecretTypeDockerConfigJson, Data: map[string][]byte{corev1.DockerConfigJsonKey: []byte(`{"auths":{` + auths + `}}`)}}
	}
	old := corev1.Secret{Type: corev1.SecretTypeDockercfg, Data: map[string][]byte{corev1.DockerConfigKey: []byte(`{"https://r.example":{"username":"old","password":"p"}}`)}}
	tests := map[string]struct {
		image   string
		secrets []corev1.Secret
		want    []string
	}{
		"without secrets":                {"r.example/a:1", nil, []string{""}},
		"of the registry":                {"r.example/a:1", []corev1.Secret{secret(`"r.example":{"username":"u","password":"p"}`)}, []string{"u"}},
		"as base64":                      {"r.example/a:1", []corev1.Secret{secret(`"r.example":{"auth":"dTpw"}`)}, []string{"u"}},
		"of another registry":            {"r.example/a:1", []corev1.Secret{secret(`"q.example":{"username":"u","password":"p"}`)}, []string{""}},
		"with another port":              {"r.example:5000/a:1", []corev1.Secret{secret(`"r.example":{"username":"u","password":"p"}`)}, []string{""}},
		"of a part of the registry":      {"r.example/team/a:1", []corev1.Secret{secret(`"r.example/team":{"username":"t","password":"p"},"r.example":{"username":"u","password":"p"}`)}, []string{"t"}},
		"with a wildcard":                {"eu.r.example/a:1", []corev1.Secret{secret(`"*.r.example":{"username":"u","password":"p"}`)}, []string{"u"}},
		"of Docker Hub, by its old name": {"busybox", []corev1.Secret{secret(`"https://index.docker.io/v1/":{"username":"hub","password":"p"}`)}, []string{"hub"}},
		"several, in their order":        {"r.example/a:1", []corev1.Secret{secret(`"r.example":{"username":"u","password":"p"}`), old, old}, []string{"u", "old"}},
		"with a wildcard for one part":   {"a.b.r.example/a:1", []corev1.Secret{secret(`"*.r.example":{"username":"u","password":"p"}`)}, []string{""}},
		"of an API of the registry":      {"r.example/team/a:1", []corev1.Secret{secret(`"https://r.example/v2/team":{"username":"u","password":"p"}`)}, []string{"u"}},
		"of another part":                {"r.example/other/a:1", []corev1.Secret{secret(`"r.example/team":{"username":"u","password":"p"}`)}, []string{""}},
		"of one registry written twice":  {"r.example/a:1", []corev1.Secret{secret(`"https://r.example":{"username":"s","password":"p"},"http://r.example":{"username":"h","password":"p"}`)}, []string{"h"}},
		"of another type of secret":      {"r.example/a:1", []corev1.Secret{{Type: corev1.SecretTypeOpaque, Data: map[string][]byte{corev1.DockerConfigJsonKey: []byte("{")}}}, []string{""}},
		"by digest":                      {"r.example/a@sha256:" + strings.Repeat("0", 64), []corev1.Secret{old}, []string{"old"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			found, err := credentialsFor(test.image, test.secrets)
			if err != nil {
				t.Fatal(err)
			}
			var users []string
			for _, credential := range found {
				users = append(users, credential.Username)
			}
			if diff := cmp.Diff(test.want, users); diff != "" {
				t.Errorf("users (-want +got):\n%s", diff)
			}
		})
	}
	torn := secret(`"r.example":{"password":"s3cret`)
	torn.Name = "pull"
	if _, err := credentialsFor("r.example/a:1", []corev1.Secret{torn}); err == nil || !strings.Contains(err.Error(), "pull") || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("error is %v, want one that names the secret and not what is in it", err)
	}
}
