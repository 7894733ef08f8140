package nodeupgrade

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/nodeupgrade/operation"
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
