package nodeupgrade

import (
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/nodeupgrade/operation"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

// Results of a task in gcu_node_upgrade_tasks_total (contract statement 93), and of
// a restart in gcu_runtime_restarts_total.
const (
	resultDone = "done"
	resultFail = "fail"
	resultUndo = "undo"
)

// Metrics are the metrics of operations on nodes.
type Metrics struct {
	tasks    *prometheus.CounterVec
	duration *prometheus.HistogramVec
	restarts *prometheus.CounterVec
	oldest   *oldestTasks
}

// NewMetrics registers the metrics of operations. It panics, as client_golang does, when they
// are already registered. clock returns the time of a scrape.
func NewMetrics(registerer prometheus.Registerer, clock func() time.Time) *Metrics {
	m := &Metrics{
		tasks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gcu_node_upgrade_tasks_total",
			Help: "Tasks on nodes that ended, by result: done, fail, or undo for those that were not run to their end.",
		}, []string{"target", "action", "result"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "gcu_node_upgrade_task_duration_seconds",
			Help:    "Time from task start on a node until it was done or failed.",
			Buckets: []float64{1, 5, 15, 30, 60, 120, 300, 600, 1200, 3600},
		}, []string{"target", "action"}),
		restarts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gcu_runtime_restarts_total",
			Help: "Restarts of the container runtime that node agents reported, by runtime and result: done or fail.",
		}, []string{"runtime", "result"}),
		oldest: &oldestTasks{
			desc: prometheus.NewDesc("gcu_node_upgrade_oldest_task_seconds",
				"Age of the oldest running task of an action; absent when none runs.", []string{"action"}, nil),
			clock: clock, begun: map[string]map[string]time.Time{},
		},
	}
	registerer.MustRegister(m.tasks, m.duration, m.restarts, m.oldest)
	return m
}

// show records the running tasks of a node; a nil op clears them.
func (m *Metrics) show(node string, op *topsv1.OperationStatus) {
	var begun map[string]time.Time
	if !operation.Over(op) {
		for i := range op.Tasks {
			t, err := upgradeplan.ParseTask(op.Tasks[i].Name)
			start := op.Tasks[i].StartTime
			if err != nil || start == nil || op.Tasks[i].State != topsv1.OperationTaskRunning {
				continue
			}
			if first, ok := begun[t.Action]; ok && first.Before(start.Time) {
				continue
			}
			if begun == nil {
				begun = map[string]time.Time{}
			}
			begun[t.Action] = start.Time
		}
	}
	m.oldest.set(node, begun)
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

// task counts a task by its recorded state (contract statement 93).
func (m *Metrics) task(t upgradeplan.Task, rec *topsv1.OperationTask) {
	result := resultUndo
	switch rec.State {
	case topsv1.OperationTaskDone:
		result = resultDone
	case topsv1.OperationTaskFailed:
		result = resultFail
	}
	m.tasks.WithLabelValues(t.Target, t.Action, result).Inc()
	if result != resultUndo && rec.StartTime != nil && rec.EndTime != nil {
		m.duration.WithLabelValues(t.Target, t.Action).Observe(rec.EndTime.Sub(rec.StartTime.Time).Seconds())
	}
}

// engines are the values of label runtime: agents report any other.
var engines = []string{"docker", "containerd"}

// restart counts a runtime restart that the agent reported.
func (m *Metrics) restart(result *topsv1.HostTaskResult, report *topsv1.RuntimeReport) {
	runtime, outcome := "unknown", resultDone
	if report != nil && slices.Contains(engines, report.Engine) {
		runtime = report.Engine
	}
	switch {
	case !result.State.Final():
		return
	case result.State == topsv1.HostTaskFailed:
		outcome = resultFail
	}
	m.restarts.WithLabelValues(runtime, outcome).Inc()
}

// oldestTasks is a gauge per action, computed at scrape time so that it grows between
// reconciles.
type oldestTasks struct {
	desc  *prometheus.Desc
	clock func() time.Time

	mu sync.Mutex
	// begun is the start of the oldest running task, by node and action.
	begun map[string]map[string]time.Time
}

func (o *oldestTasks) set(node string, begun map[string]time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(begun) == 0 {
		delete(o.begun, node)
		return
	}
	o.begun[node] = begun
}

// Describe implements prometheus.Collector.
func (o *oldestTasks) Describe(descs chan<- *prometheus.Desc) { descs <- o.desc }

// Collect implements prometheus.Collector.
func (o *oldestTasks) Collect(metrics chan<- prometheus.Metric) {
	o.mu.Lock()
	oldest := map[string]time.Time{}
	for _, actions := range o.begun {
		for action, begun := range actions {
			if first, ok := oldest[action]; !ok || begun.Before(first) {
				oldest[action] = begun
			}
		}
	}
	o.mu.Unlock()
	now := o.clock()
	for action, begun := range oldest {
		metrics <- prometheus.MustNewConstMetric(o.desc, prometheus.GaugeValue, now.Sub(begun).Seconds(), action)
	}
}
