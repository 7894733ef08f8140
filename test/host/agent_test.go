package host

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"k8s.io/utils/clock"

	"github.com/topsops/gcu-operator/pkg/hostagent"
	"github.com/topsops/gcu-operator/pkg/hostagent/task"
	"github.com/topsops/gcu-operator/pkg/logging"
)

// killPoint is the point at which the agent is killed.
type killPoint string

const (
	never          killPoint = ""
	beforeRecord   killPoint = "before the request is recorded"
	beforeAsking   killPoint = "after the record, before the restart"
	amidRestart    killPoint = "while the daemon is down"
	beforeTheEnd   killPoint = "after the restart, before the result is recorded"
	agentTimeLimit           = time.Minute
)

// TestMain also runs as the agent and as the restart command, which are this program.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 {
		role, spec := os.Args[1], os.Args[2]
		var err error
		switch role {
		case "restart-daemon":
			err = restartDaemon(spec)
		case "agent":
			err = runAgent(spec)
		default:
			os.Exit(m.Run())
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// agent is the input of an agent process.
type agent struct {
	Daemon daemon
	State  string
	Kill   killPoint

	ID   string
	Want task.RestartRuntime
}

func optionsOf(d daemon, state string) hostagent.Options {
	return hostagent.Options{
		StateDirectory: state,
		HostRoot:       d.Root,
		Host:           "10.12.110.166",
		Command:        map[task.Engine][]string{d.Engine: d.restartArgv()},
		RestartLog:     logging.NewDated(filepath.Join(state, "restart-docker.log"), time.Now, func(error) {}),
		Poll:           50 * time.Millisecond,
		RepeatAfter:    500 * time.Millisecond,
		Clock:          clock.RealClock{},
		Log:            logr.Discard(),
	}
}

// runAgent executes one restart and prints its result.
func runAgent(spec string) error {
	var a agent
	if err := json.Unmarshal([]byte(spec), &a); err != nil {
		return err
	}
	o := optionsOf(a.Daemon, a.State)
	command := hostagent.Command{Argv: o.Command, Directory: filepath.Join(a.State, "commands")}
	o.ServiceManager = killer{command, a}
	if a.Kill == beforeRecord {
		o.Log = killAtDecision()
	}
	e, err := hostagent.New(o)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), agentTimeLimit)
	defer cancel()
	result, err := e.Execute(ctx, task.Request{ID: a.ID, Task: "runtime_restart-runtime", RestartRuntime: &a.Want})
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(result)
}

func die() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

// killer runs the restart command and kills the agent before, during or after it.
type killer struct {
	hostagent.Command
	agent agent
}

func (k killer) Restart(ctx context.Context, e task.Engine, operation string) error {
	switch k.agent.Kill {
	case beforeAsking:
		die()
	case amidRestart:
		pids, err := k.agent.Daemon.started()
		if err != nil {
			return err
		}
		go func() { _ = k.Command.Restart(ctx, e, operation) }()
		if err := poll(time.Minute, "the daemon to end", func() bool { return !alive(pids[len(pids)-1]) }); err != nil {
			return err
		}
		die()
	case beforeTheEnd:
		if err := k.Command.Restart(ctx, e, operation); err != nil {
			return err
		}
		die()
	}
	return k.Command.Restart(ctx, e, operation)
}

// killAtDecision returns a logger that kills the agent at its first decision on the
// restart, before anything is recorded.
func killAtDecision() logr.Logger {
	return funcr.New(func(_, line string) {
		if strings.Contains(line, "Decided on a restart of the runtime") {
			die()
		}
	}, funcr.Options{Verbosity: 4})
}

// run runs the agent until it exits and returns its result, or nil if it was killed.
func (a agent) run(t *testing.T) *task.Result {
	t.Helper()
	spec, err := json.Marshal(a)
	check(t, err)
	command := exec.Command(os.Args[0], "agent", string(spec))
	var out, failure bytes.Buffer
	command.Stdout, command.Stderr = &out, &failure
	err = command.Run()
	if killed := new(exec.ExitError); errors.As(err, &killed) && killed.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL {
		if a.Kill == never {
			t.Fatal("the agent was killed")
		}
		return nil
	}
	if err != nil {
		t.Fatalf("the agent: %v: %s", err, &failure)
	}
	var result task.Result
	check(t, json.Unmarshal(out.Bytes(), &result))
	return &result
}
