package nodeupgrade

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

// count counts the tasks of an operation when its end was just stored: while it runs, a task can be done, become undone
// and be done again. When an operation that was resumed ends again, it counts what began or ended since.
func (m *Metrics) count(before, after operation.Record, host *topsv1.HostReport) {
	op, was := after.Operation, before.Operation
	if op == nil || op.EndTime == nil || was != nil && was.ID == op.ID && was.EndTime != nil {
		return
	}
	resumed := resumedAt(op, before.History)
	for i := range op.Tasks {
		rec := &op.Tasks[i]
		t, err := upgradeplan.ParseTask(rec.Name)
		if err != nil || !isSince(rec.StartTime, resumed) && !isSince(rec.EndTime, resumed) {
			continue
		}
		m.task(t, rec)
		if result := host.Result(op.ID, rec.Name); t.Action == upgradeplan.ActionRestartRuntime && isNew(result, rec, resumed) {
			m.restart(result, host.Runtime)
		}
	}
}

// resumedAt returns when an operation that had ended was resumed, nil if it was not.
func resumedAt(op *topsv1.OperationStatus, history []topsv1.OperationRecord) *metav1.Time {
	if slices.ContainsFunc(history, func(r topsv1.OperationRecord) bool { return r.ID == op.ID }) {
		return &op.StartTime
	}
	return nil
}

// isSince reports whether a time is not before that of a resume; all are if there was none.
func isSince(at, resumed *metav1.Time) bool {
	return resumed == nil || at != nil && !at.Before(resumed)
}

// isNew reports whether a result is of an attempt since a resume: that of an earlier one is counted already.
func isNew(result *topsv1.HostTaskResult, rec *topsv1.OperationTask, resumed *metav1.Time) bool {
	return result != nil && (resumed == nil || isSince(rec.StartTime, resumed) && result.Attempt >= rec.Attempts)
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
		m.duration.WithLabelValues(t.Target, t.Action).Observe(max(0, rec.EndTime.Sub(rec.StartTime.Time)).Seconds()) // by two clocks, if the manager changed
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
