package nodeupgrade

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/nodeupgrade/operation"
	"github.com/topsops/gcu-operator/pkg/outcome"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

var noon = metav1.NewTime(time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC))

func TestMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := NewMetrics(registry)
	task := func(name string, state topsv1.OperationTaskState) topsv1.OperationTask {
		start := metav1.NewTime(noon.Add(-20 * time.Second))
		return topsv1.OperationTask{Name: "n1_" + name, State: state, StartTime: &start, EndTime: &noon}
	}
	record := func(end *metav1.Time, tasks ...topsv1.OperationTask) operation.Record {
		return operation.Record{Operation: &topsv1.OperationStatus{ID: "op", Phase: topsv1.OperationRunning, EndTime: end, Tasks: tasks}}
	}
	host := &topsv1.HostReport{Runtime: &topsv1.RuntimeReport{Engine: "docker"}, Results: []topsv1.HostTaskResult{
		{Operation: "op", Task: "n1_node_restart-runtime", State: topsv1.HostTaskFailed}}}
	steps := []operation.Record{
		record(nil, task("driver_replace", "Running"), task("node_restart-runtime", "Running"), task("node_soak", "Pending")),
		record(nil, task("driver_replace", "Done"), task("node_restart-runtime", "Running"), task("node_soak", "Pending")),
		record(nil, task("driver_replace", "Running"), task("node_restart-runtime", "Running"), task("node_soak", "Pending")),
		record(&noon, task("driver_replace", "Done"), task("node_restart-runtime", "Failed"), task("node_soak", "Pending")),
		record(&noon, task("driver_replace", "Done"), task("node_restart-runtime", "Failed"), task("node_soak", "Pending")),
	}
	before := operation.Record{}
	for _, after := range steps {
		m.count(before, after, host)
		before = after
	}
	host.Runtime.Engine = "\x1b[2J-" + strings.Repeat("x", 50) // an agent reports what it likes
	m.count(steps[2], steps[3], host)
	want := `
# HELP gcu_node_upgrade_tasks_total Tasks on nodes that ended, by result: success, failure, or unfinished for those that were not run to their end.
# TYPE gcu_node_upgrade_tasks_total counter
gcu_node_upgrade_tasks_total{action="replace",result="success",target="driver"} 2
gcu_node_upgrade_tasks_total{action="restart-runtime",result="failure",target="node"} 2
gcu_node_upgrade_tasks_total{action="soak",result="unfinished",target="node"} 2
# HELP gcu_runtime_restarts_total Restarts of the container runtime that node agents reported, by runtime and result: success or failure.
# TYPE gcu_runtime_restarts_total counter
gcu_runtime_restarts_total{result="failure",runtime="containerd"} 0
gcu_runtime_restarts_total{result="failure",runtime="docker"} 1
gcu_runtime_restarts_total{result="failure",runtime="unknown"} 1
gcu_runtime_restarts_total{result="success",runtime="containerd"} 0
gcu_runtime_restarts_total{result="success",runtime="docker"} 0
gcu_runtime_restarts_total{result="success",runtime="unknown"} 0
`
	err := testutil.GatherAndCompare(registry, strings.NewReader(want), "gcu_node_upgrade_tasks_total", "gcu_runtime_restarts_total")
	if err != nil {
		t.Error(err)
	}
	if n := testutil.CollectAndCount(m.duration); n != 2 {
		t.Errorf("%d durations, want those of the replacement and the restart", n)
	}
}

// An operation that ended is resumed when one of its tasks is retried or skipped, and ends again. What was counted at its first
// end is not counted then.
func TestAnOperationThatWasResumedCountsOnce(t *testing.T) {
	minute := func(m int) *metav1.Time { return new(metav1.NewTime(noon.Add(time.Duration(m) * time.Minute))) }
	task := func(name string, state topsv1.OperationTaskState, attempts int32, start, end *metav1.Time) topsv1.OperationTask {
		return topsv1.OperationTask{Name: "n1_" + name, State: state, Attempts: attempts, StartTime: start, EndTime: end}
	}
	replaced := task("driver_replace", "Done", 1, minute(1), minute(2))
	result := func(attempt int32, state topsv1.HostTaskState) *topsv1.HostReport {
		return &topsv1.HostReport{Runtime: &topsv1.RuntimeReport{Engine: "docker"}, Results: []topsv1.HostTaskResult{
			{Operation: "op", Task: "n1_node_restart-runtime", Attempt: attempt, State: state}}}
	}
	type end struct {
		start, end *metav1.Time
		host       *topsv1.HostReport
		tasks      []topsv1.OperationTask
	}
	for _, tt := range []struct {
		name string
		ends []end
		// tasks are the counts of tasks by action and result, and durations those of durations.
		tasks     map[string]float64
		restarts  map[string]float64
		durations uint64
	}{
		{"its restart failed, and is skipped", []end{
			{minute(0), minute(3), result(1, topsv1.HostTaskFailed), []topsv1.OperationTask{replaced, task("node_restart-runtime", "Failed", 1, minute(2), minute(3)), task("node_uncordon", "Pending", 0, nil, nil), task("node_verify", "Pending", 0, nil, nil)}},
			{minute(9), minute(10), result(1, topsv1.HostTaskFailed), []topsv1.OperationTask{replaced, task("node_restart-runtime", "Skipped", 1, nil, minute(9)), task("node_uncordon", "Done", 1, minute(9), minute(10)), task("node_verify", "Pending", 0, nil, nil)}},
		}, map[string]float64{"driver replace success": 1, "node restart-runtime failure": 1, "node restart-runtime unfinished": 1, "node uncordon unfinished": 1, "node uncordon success": 1, "node verify unfinished": 1},
			map[string]float64{"failure": 1}, 3},
		{"its restart succeeded, and a later task is retried", []end{
			{minute(0), minute(4), result(1, topsv1.HostTaskDone), []topsv1.OperationTask{replaced, task("node_restart-runtime", "Done", 1, minute(2), minute(3)), task("driver_verify", "Failed", 1, minute(3), minute(4))}},
			{minute(9), minute(10), result(1, topsv1.HostTaskDone), []topsv1.OperationTask{replaced, task("node_restart-runtime", "Done", 1, minute(2), minute(3)), task("driver_verify", "Done", 2, minute(9), minute(10))}},
		}, map[string]float64{"driver replace success": 1, "node restart-runtime success": 1, "driver verify failure": 1, "driver verify success": 1},
			map[string]float64{"success": 1}, 4},
		{"its restart failed, and is retried twice", []end{
			{minute(0), minute(3), result(1, topsv1.HostTaskFailed), []topsv1.OperationTask{replaced, task("node_restart-runtime", "Failed", 1, minute(2), minute(3))}},
			{minute(9), minute(10), result(2, topsv1.HostTaskFailed), []topsv1.OperationTask{replaced, task("node_restart-runtime", "Failed", 2, minute(9), minute(10))}},
			{minute(19), minute(20), result(3, topsv1.HostTaskDone), []topsv1.OperationTask{replaced, task("node_restart-runtime", "Done", 3, minute(19), minute(20))}},
		}, map[string]float64{"driver replace success": 1, "node restart-runtime failure": 2, "node restart-runtime success": 1},
			map[string]float64{"failure": 2, "success": 1}, 4},
		{"its restart failed, and is retried by an agent that says nothing", []end{
			{minute(0), minute(3), result(1, topsv1.HostTaskFailed), []topsv1.OperationTask{task("node_restart-runtime", "Failed", 1, minute(2), minute(3))}},
			{minute(9), minute(10), result(1, topsv1.HostTaskFailed), []topsv1.OperationTask{task("node_restart-runtime", "Failed", 2, minute(9), minute(10))}},
		}, map[string]float64{"node restart-runtime failure": 2}, map[string]float64{"failure": 1}, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, before := NewMetrics(prometheus.NewRegistry()), operation.Record{}
			for _, e := range tt.ends {
				running := operation.Record{Operation: &topsv1.OperationStatus{ID: "op", Phase: topsv1.OperationRunning, StartTime: *e.start, Tasks: e.tasks}, History: before.History}
				m.count(before, running, e.host)
				ended := operation.Record{Operation: running.Operation.DeepCopy(), History: []topsv1.OperationRecord{{ID: "other"}, {ID: "op"}}}
				ended.Operation.Phase, ended.Operation.EndTime = topsv1.OperationFailed, e.end
				m.count(running, ended, e.host)
				before = ended
			}
			counted := map[string]float64{}
			for _, action := range []string{"driver replace", "driver verify", "node restart-runtime", "node uncordon", "node verify"} {
				for _, r := range []outcome.Result{outcome.Success, outcome.Failure, outcome.Unfinished} {
					target, name, _ := strings.Cut(action, " ")
					if n := testutil.ToFloat64(m.tasks.WithLabelValues(target, name, string(r))); n > 0 {
						counted[action+" "+string(r)] = n
					}
				}
			}
			if diff := cmp.Diff(tt.tasks, counted); diff != "" {
				t.Error(diff)
			}
			for _, r := range []outcome.Result{outcome.Success, outcome.Failure} {
				if n := testutil.ToFloat64(m.restarts.WithLabelValues("docker", string(r))); n != tt.restarts[string(r)] {
					t.Errorf("%v restarts are a %s, want %v", n, r, tt.restarts[string(r)])
				}
			}
			if n := observations(t, m); n != tt.durations {
				t.Errorf("%d durations, want %d", n, tt.durations)
			}
		})
	}
}

// A task that another manager began, whose clock is ahead, does not lower the sum.
func TestATaskThatEndsBeforeItsStartTookNoTime(t *testing.T) {
	m, start := NewMetrics(prometheus.NewRegistry()), metav1.NewTime(noon.Add(time.Minute))
	m.task(upgradeplan.Task{Target: upgradeplan.TargetDriver, Action: upgradeplan.ActionReplace}, &topsv1.OperationTask{State: topsv1.OperationTaskDone, StartTime: &start, EndTime: &noon})
	if n, took := observed(t, m); n != 1 || took != 0 {
		t.Errorf("%d tasks took %v seconds, want one that took 0", n, took)
	}
}

// observations counts the durations of all tasks.
func observations(t *testing.T, m *Metrics) uint64 {
	t.Helper()
	n, _ := observed(t, m)
	return n
}

// observed counts the durations of all tasks, and adds them up.
func observed(t *testing.T, m *Metrics) (n uint64, seconds float64) {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(m.duration)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, metric := range f.GetMetric() {
			n += metric.GetHistogram().GetSampleCount()
			seconds += metric.GetHistogram().GetSampleSum()
		}
	}
	return n, seconds
}

func TestMetricsOfTheLatestOperations(t *testing.T) {
	start, earlier := metav1.NewTime(noon.Add(-20*time.Second)), metav1.NewTime(noon.Add(-time.Minute))
	running := func(start metav1.Time) *topsv1.OperationStatus {
		return &topsv1.OperationStatus{ID: "op", Phase: topsv1.OperationRunning, Reason: "DrainBlocked", Tasks: []topsv1.OperationTask{
			{Name: "n_node_evict", State: topsv1.OperationTaskRunning, StartTime: &start}, {Name: "n_node_soak", State: topsv1.OperationTaskPending}}}
	}
	m := NewMetrics(prometheus.NewRegistry())
	m.operations.show("n1", running(start))
	m.operations.show("n2", running(earlier))
	m.operations.show("n3", &topsv1.OperationStatus{ID: "op", Phase: topsv1.OperationQuarantined, Reason: "CrashLoop", Held: true, EndTime: &noon})
	want := `
# HELP gcu_node_upgrade_kept_cordoned_nodes Nodes whose operation has ended and which stay cordoned until someone decides.
# TYPE gcu_node_upgrade_kept_cordoned_nodes gauge
gcu_node_upgrade_kept_cordoned_nodes 1
# HELP gcu_node_upgrade_nodes Nodes by the phase of their latest operation.
# TYPE gcu_node_upgrade_nodes gauge
gcu_node_upgrade_nodes{phase="Quarantined"} 1
gcu_node_upgrade_nodes{phase="Running"} 2
# HELP gcu_node_upgrade_oldest_task_start_timestamp_seconds When the oldest running task of an action was started; absent when none runs.
# TYPE gcu_node_upgrade_oldest_task_start_timestamp_seconds gauge
gcu_node_upgrade_oldest_task_start_timestamp_seconds{action="evict"} 1.89349914e+09
# HELP gcu_node_upgrade_waiting_nodes Nodes with an operation that has not ended, by what it does or waits for.
# TYPE gcu_node_upgrade_waiting_nodes gauge
gcu_node_upgrade_waiting_nodes{reason="DrainBlocked"} 2
`
	if err := testutil.CollectAndCompare(m.operations, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
	for _, node := range []string{"n1", "n2", "n3"} {
		m.operations.show(node, nil)
	}
	if n := testutil.CollectAndCount(m.operations); n != 1 {
		t.Errorf("%d series are left without an operation, want the number of cordoned nodes", n)
	}
}

// Whatever the number of nodes, operations have the same series: with 10 000 nodes as with three.
func TestTheSeriesOfOperationsDoNotGrowWithTheNodes(t *testing.T) {
	series := func(nodes int) int {
		t.Helper()
		registry := prometheus.NewRegistry()
		m := NewMetrics(registry)
		for i := range nodes {
			node := fmt.Sprint("n", i)
			op := &topsv1.OperationStatus{ID: node, Phase: topsv1.OperationRunning, Reason: "DrainBlocked",
				Tasks: []topsv1.OperationTask{{Name: node + "_node_evict", State: topsv1.OperationTaskRunning, StartTime: &noon}}}
			m.operations.show(node, op)
		}
		n, err := testutil.GatherAndCount(registry)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if few, many := series(3), series(10_000); few != many {
		t.Errorf("%d series with 3 nodes, %d with 10000", few, many)
	}
}
