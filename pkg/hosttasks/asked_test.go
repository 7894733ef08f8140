package hosttasks

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/hostagent"
)

// asking is a NodeUpgrade of node-a with an operation whose tasks have begun.
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
	for _, a := range askedOf(n) {
		got = append(got, a.task.String())
		if a.attempt != 2 || a.key() != (key{"op", a.task.Target + "_" + a.task.Action}) {
			t.Errorf("%s is %+v", a.task, a)
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
	var got []hostagent.Operation
	var failed []string
	for _, a := range askedOf(n) {
		o, err := a.forExecutor(hostagent.Docker, true, credentials{note: "a note"})
		if err != nil {
			failed = append(failed, err.Error())
			continue
		}
		got = append(got, o)
	}
	want := []hostagent.Operation{
		{ID: "op", Task: "driver_prepull", Attempt: 2,
			Prepull: &hostagent.Prepull{Images: []string{"r.example/driver:2"}, Note: "a note", Engine: hostagent.Docker, Timeout: time.Minute}},
		{ID: "op", Task: "node_restart-runtime", Attempt: 2,
			RestartRuntime: &hostagent.RestartRuntime{DefaultRuntime: "enflame", Allowed: true, Engine: hostagent.Docker}},
		{ID: "op", Task: "runtime_verify", Attempt: 2, Verify: &hostagent.Verify{Engine: hostagent.Docker}},
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

func TestAnAttemptIsAnsweredOnce(t *testing.T) {
	a := askedOf(asking("node-a_driver_prepull"))[0]
	for _, test := range []struct {
		state   hostagent.State
		attempt int
		want    bool
	}{
		{hostagent.Done, 2, true}, {hostagent.Failed, 2, true}, {hostagent.Done, 3, true},
		{hostagent.Done, 1, false}, {hostagent.Failed, 1, false},
		{hostagent.Running, 2, false}, {hostagent.Waiting, 2, false},
	} {
		if got := a.answered(test.state, test.attempt); got != test.want {
			t.Errorf("%s of attempt %d answers attempt 2: %t", test.state, test.attempt, got)
		}
	}
}

func TestAnOperationThatIsOlderThanTheLastOneIsIgnored(t *testing.T) {
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	n := asking("node-a_driver_prepull")
	n.Status.Operation.StartTime = metav1.NewTime(noon)
	a := askedOf(n)[0]
	for name, test := range map[string]struct {
		last hostagent.Result
		want bool
	}{
		"after one that began before":               {hostagent.Result{ID: "last", State: hostagent.Done, Since: noon.Add(-time.Hour)}, false},
		"before one that is done":                   {hostagent.Result{ID: "last", State: hostagent.Done, Since: noon.Add(time.Hour)}, true},
		"before one that failed":                    {hostagent.Result{ID: "last", State: hostagent.Failed, Since: noon.Add(time.Hour)}, true},
		"before one of which nothing has ended":     {hostagent.Result{ID: "last", State: hostagent.Running, Since: noon.Add(time.Hour)}, false},
		"by as much as two clocks may differ":       {hostagent.Result{ID: "last", State: hostagent.Done, Since: noon.Add(clockSkew)}, false},
		"the same one, granted later":               {hostagent.Result{ID: "op", State: hostagent.Done, Since: noon.Add(time.Hour)}, false},
		"after one of which the begin is not known": {hostagent.Result{ID: "last", State: hostagent.Done}, false},
	} {
		if got := a.outdated([]hostagent.Result{test.last}); got != test.want {
			t.Errorf("an operation %s: ignored %t, want %t", name, got, test.want)
		}
	}
	if o, err := a.forExecutor(hostagent.Auto, true, credentials{}); err != nil || !o.Since.Equal(noon) {
		t.Errorf("the executor is told %+v, %v", o, err)
	}
}
