package nodeupgrade

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/nodeupgrade/operation"
	"github.com/topsops/gcu-operator/pkg/outcome"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

// Metrics are the metrics of operations on nodes.
type Metrics struct {
	tasks    *prometheus.CounterVec
	duration *prometheus.HistogramVec
	restarts *prometheus.CounterVec
	// operations are the latest of each node.
	operations *operations
}

// NewMetrics registers the metrics of operations. It panics, as client_golang does, if they
// are already registered.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	m := &Metrics{
		tasks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gcu_node_upgrade_tasks_total",
			Help: "Tasks on nodes that ended, by result: success, failure, or unfinished for those that were not run to their end.",
		}, []string{"target", "action", "result"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "gcu_node_upgrade_task_duration_seconds",
			Help:    "Time from task start on a node until it was done or failed.",
			Buckets: []float64{1, 5, 15, 30, 60, 120, 300, 600, 1200, 3600},
		}, []string{"target", "action"}),
		restarts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gcu_runtime_restarts_total",
			Help: "Restarts of the container runtime that node agents reported, by runtime and result: success or failure.",
		}, []string{"runtime", "result"}),
		operations: newOperations(),
	}
	for _, engine := range engines { // increase() needs the zero before the first
		for _, result := range []outcome.Result{outcome.Success, outcome.Failure} {
			m.restarts.WithLabelValues(engine, string(result))
		}
	}
	registerer.MustRegister(m.tasks, m.duration, m.restarts, m.operations)
	return m
}

// count counts the tasks of an operation once, when its end was just stored: while it runs, a
// task can be done, become undone and be done again.
func (m *Metrics) count(before, after operation.Record, host *topsv1.HostReport) {
	op, was := after.Operation, before.Operation
	if op == nil || op.EndTime == nil || was != nil && was.ID == op.ID && was.EndTime != nil {
		return
	}
	for i := range op.Tasks {
		t, err := upgradeplan.ParseTask(op.Tasks[i].Name)
		if err != nil {
			continue
		}
		m.task(t, &op.Tasks[i])
		if result := host.Result(op.ID, op.Tasks[i].Name); result != nil && t.Action == upgradeplan.ActionRestartRuntime {
			m.restart(result, host.Runtime)
		}
	}
}

// task counts a task by its recorded state: done, failed, or not done (contract 93).
func (m *Metrics) task(t upgradeplan.Task, rec *topsv1.OperationTask) {
	result := outcome.Unfinished
	switch rec.State {
	case topsv1.OperationTaskDone:
		result = outcome.Success
	case topsv1.OperationTaskFailed:
		result = outcome.Failure
	}
	m.tasks.WithLabelValues(t.Target, t.Action, string(result)).Inc()
	if result != outcome.Unfinished && rec.StartTime != nil && rec.EndTime != nil {
		m.duration.WithLabelValues(t.Target, t.Action).Observe(rec.EndTime.Sub(rec.StartTime.Time).Seconds())
	}
}

const unknownEngine = "unknown"

// engines are the values of label runtime: agents report any other, which is unknown.
var engines = []string{"docker", "containerd", unknownEngine}

// restart counts a runtime restart that the agent reported.
func (m *Metrics) restart(result *topsv1.HostTaskResult, report *topsv1.RuntimeReport) {
	runtime, ended := unknownEngine, outcome.Success
	if report != nil && slices.Contains(engines, report.Engine) {
		runtime = report.Engine
	}
	switch {
	case !result.State.Final():
		return
	case result.State == topsv1.HostTaskFailed:
		ended = outcome.Failure
	}
	m.restarts.WithLabelValues(runtime, string(ended)).Inc()
}
