package nodeupgrade

import (
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
	now := noon.Time
	registry := prometheus.NewRegistry()
	m := NewMetrics(registry, func() time.Time { return now })
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
	m.show("n1", steps[0].Operation)
	younger := steps[0].Operation.DeepCopy()
	younger.Tasks[0].StartTime = &noon
	m.show("n2", younger)
	now = now.Add(10 * time.Second)
	want := `
# HELP gcu_node_upgrade_oldest_task_seconds Age of the oldest running task of an action; absent when none runs.
# TYPE gcu_node_upgrade_oldest_task_seconds gauge
gcu_node_upgrade_oldest_task_seconds{action="replace"} 30
gcu_node_upgrade_oldest_task_seconds{action="restart-runtime"} 30
# HELP gcu_node_upgrade_tasks_total Tasks on nodes that ended, by result: done, fail, or undo for those that were not run to their end.
# TYPE gcu_node_upgrade_tasks_total counter
gcu_node_upgrade_tasks_total{action="replace",result="done",target="driver"} 2
gcu_node_upgrade_tasks_total{action="restart-runtime",result="fail",target="node"} 2
gcu_node_upgrade_tasks_total{action="soak",result="undo",target="node"} 2
# HELP gcu_runtime_restarts_total Restarts of the container runtime that node agents reported, by runtime and result: done or fail.
# TYPE gcu_runtime_restarts_total counter
gcu_runtime_restarts_total{result="fail",runtime="docker"} 1
gcu_runtime_restarts_total{result="fail",runtime="unknown"} 1
`
	err := testutil.GatherAndCompare(registry, strings.NewReader(want), "gcu_node_upgrade_oldest_task_seconds", "gcu_node_upgrade_tasks_total", "gcu_runtime_restarts_total")
	if err != nil {
		t.Error(err)
	}
	m.show("n1", nil)
	m.show("n2", nil)
	if n := testutil.CollectAndCount(m.oldest); n != 0 {
		t.Errorf("%d actions run on no node", n)
	}
	if n := testutil.CollectAndCount(m.duration); n != 2 {
		t.Errorf("%d durations, want those of the replacement and the restart", n)
	}
}
