package hostapi

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/hostagent/task"
)

// asking returns a NodeUpgrade of node-a with an operation whose tasks have begun.
func asking(tasks ...string) *topsv1.NodeUpgrade {
	n := &topsv1.NodeUpgrade{ObjectMeta: metav1.ObjectMeta{Name: "node-a", UID: "nu"}}
	n.Spec.Operation = &topsv1.NodeOperation{ID: "op", NodeUID: "node-uid", Targets: []topsv1.OperationTarget{{
		Component: "driver", DaemonSet: topsv1.NamespacedRef{Namespace: "kube-system", Name: "driver"},
		Images: []string{"r.example/driver:2"}, PullSecrets: []string{"s"},
	}}}
	n.Status.Operation = &topsv1.OperationStatus{ID: "op", Phase: topsv1.OperationRunning}
	for _, t := range tasks {
		n.Status.Operation.Tasks = append(n.Status.Operation.Tasks, topsv1.OperationTask{Name: t, State: topsv1.OperationTaskRunning, Attempts: 2})
	}
	return n
}

func TestTheAgentsTasksArePicked(t *testing.T) {
	n := asking("node-a_node_precheck", "node-a_driver_prepull", "node-a_node_cordon", "node-a_node_evict", "node-a_driver_replace",
		"node-a_driver_verify", "node-a_node_restart-runtime", "node-a_runtime_verify", "node-a_allocatable_verify", "node-a_node_soak",
		"node-b_driver_prepull", "garbage", "node-a_driver_restart-runtime")
	var got []string
	for _, a := range TasksOf(n) {
		got = append(got, a.String())
		if a.Attempt != 2 || a.Key() != "op_"+a.Target+"_"+a.Action {
			t.Errorf("%s is %+v", a.Task, a)
		}
	}
	want := []string{"node-a_driver_prepull", "node-a_driver_verify", "node-a_node_restart-runtime", "node-a_runtime_verify"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("tasks (-want +got):\n%s", diff)
	}
}

func TestWhatATaskMeansToTheExecutor(t *testing.T) {
	n := asking("node-a_driver_prepull", "node-a_node_restart-runtime", "node-a_runtime_verify", "node-a_nfd_prepull")
	n.Spec.Operation.Deadlines = topsv1.OperationDeadlines{PrepullSeconds: 60}
	var got []task.Request
	var failed []string
	for _, a := range TasksOf(n) {
		o, err := a.Request(task.Docker, true)
		if err != nil {
			failed = append(failed, err.Error())
			continue
		}
		got = append(got, o)
	}
	want := []task.Request{
		{ID: "op", Task: "driver_prepull", Attempt: 2, Engine: task.Docker,
			Prepull: &task.Prepull{Images: []string{"r.example/driver:2"}, Timeout: time.Minute}},
		{ID: "op", Task: "node_restart-runtime", Attempt: 2, Engine: task.Docker,
			RestartRuntime: &task.RestartRuntime{DefaultRuntime: "enflame", Allowed: true}},
		{ID: "op", Task: "runtime_verify", Attempt: 2, Engine: task.Docker, Verify: true},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("operations (-want +got):\n%s", diff)
	}
	if !slices.Equal(failed, []string{"the operation has no target nfd"}) {
		t.Errorf("errors %q", failed)
	}
	for _, o := range got {
		if err := o.Validate(); err != nil {
			t.Errorf("%s: %v", o.Task, err)
		}
	}
}

// TestARestartIsAllowedByTheFlag: an operation that asks for a restart does not allow it.
func TestARestartIsAllowedByTheFlag(t *testing.T) {
	tasks := TasksOf(asking("node-a_node_restart-runtime"))
	if len(tasks) != 1 {
		t.Fatalf("%d tasks are asked for", len(tasks))
	}
	o, err := tasks[0].Request(task.Docker, false)
	if err != nil || o.RestartRuntime == nil || o.RestartRuntime.Allowed {
		t.Errorf("with --restart-runtime=false: %v, %+v", err, o.RestartRuntime)
	}
}

func TestAnAttemptIsAnsweredOnce(t *testing.T) {
	a := TasksOf(asking("node-a_driver_prepull"))[0]
	for _, test := range []struct {
		state   topsv1.HostTaskState
		attempt int
		want    bool
	}{
		{topsv1.HostTaskDone, 2, true}, {topsv1.HostTaskFailed, 2, true}, {topsv1.HostTaskDone, 3, true},
		{topsv1.HostTaskDone, 1, false}, {topsv1.HostTaskFailed, 1, false},
		{topsv1.HostTaskRunning, 2, false}, {topsv1.HostTaskWaiting, 2, false},
	} {
		if got := a.Answered(task.Result{State: test.state, Attempt: test.attempt}); got != test.want {
			t.Errorf("%s of attempt %d answers attempt 2: %t", test.state, test.attempt, got)
		}
	}
}

func TestAnOperationThatIsOlderThanTheLastOneIsIgnored(t *testing.T) {
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	n := asking("node-a_driver_prepull")
	n.Status.Operation.StartTime = metav1.NewTime(noon)
	a := TasksOf(n)[0]
	for name, test := range map[string]struct {
		last task.Result
		want bool
	}{
		"after one that began before":               {task.Result{ID: "last", State: topsv1.HostTaskDone, Since: noon.Add(-time.Hour)}, false},
		"before one that is done":                   {task.Result{ID: "last", State: topsv1.HostTaskDone, Since: noon.Add(time.Hour)}, true},
		"before one that failed":                    {task.Result{ID: "last", State: topsv1.HostTaskFailed, Since: noon.Add(time.Hour)}, true},
		"before one of which nothing has ended":     {task.Result{ID: "last", State: topsv1.HostTaskRunning, Since: noon.Add(time.Hour)}, false},
		"by as much as two clocks may differ":       {task.Result{ID: "last", State: topsv1.HostTaskDone, Since: noon.Add(clockSkew)}, false},
		"the same one, granted later":               {task.Result{ID: "op", State: topsv1.HostTaskDone, Since: noon.Add(time.Hour)}, false},
		"after one of which the begin is not known": {task.Result{ID: "last", State: topsv1.HostTaskDone}, false},
	} {
		if got := a.Outdated([]task.Result{test.last}, nil); got != test.want {
			t.Errorf("an operation %s: ignored %t, want %t", name, got, test.want)
		}
		if test.last.ID == "last" && a.Outdated([]task.Result{test.last}, []topsv1.OperationRecord{{ID: "before"}, {ID: "last"}}) {
			t.Errorf("an operation %s, which ended before it: ignored, though only the clock of the operator was set back", name)
		}
	}
	if o, err := a.Request(task.Auto, true); err != nil || !o.Since.Equal(noon) {
		t.Errorf("the executor is told %+v, %v", o, err)
	}
}

func TestRefusals(t *testing.T) {
	a := TasksOf(asking("node-a_node_restart-runtime"))[0]
	for err, want := range map[error]topsv1.HostTaskState{
		task.ErrInvalid: topsv1.HostTaskFailed, task.ErrConflict: topsv1.HostTaskFailed, task.ErrLost: topsv1.HostTaskFailed,
		task.ErrBusy: topsv1.HostTaskRunning, task.ErrNotRecorded: topsv1.HostTaskRunning, errors.New("other"): topsv1.HostTaskRunning,
	} {
		got := a.Refused(err)
		if got.State != want || got.Reason == "" || got.Message != err.Error() || got.Attempt != 2 || got.ID != "op" || got.Task != "node_restart-runtime" {
			t.Errorf("%v: %+v, want %s", err, got, want)
		}
	}
}
