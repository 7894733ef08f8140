package nodeupgrade

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

// operations collects gauges over the latest operation of each node.
type operations struct {
	nodes, waiting, keptCordoned, oldest *prometheus.Desc

	mu   sync.Mutex
	last map[string]shownOperation
}

// shownOperation is what the metrics show of an operation.
type shownOperation struct {
	phase topsv1.OperationPhase
	// waitsFor is the reason why it waits; empty when it has ended.
	waitsFor     string
	keptCordoned bool
	// begun is the start of the oldest running task, by action.
	begun map[string]time.Time
}

func newOperations() *operations {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("gcu_node_upgrade_"+name, help, labels, nil)
	}
	return &operations{
		nodes:        desc("nodes", "Nodes by the phase of their latest operation.", "phase"),
		waiting:      desc("waiting_nodes", "Nodes with an operation that has not ended, by what it does or waits for.", "reason"),
		keptCordoned: desc("kept_cordoned_nodes", "Nodes whose operation has ended and which stay cordoned until someone decides."),
		oldest:       desc("oldest_task_start_timestamp_seconds", "When the oldest running task of an action was started; absent when none runs.", "action"),
		last:         map[string]shownOperation{},
	}
}

// show records the operation of a node; nil removes the node.
func (o *operations) show(node string, op *topsv1.OperationStatus) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if op == nil {
		delete(o.last, node)
		return
	}
	o.last[node] = shownOf(op)
}

func shownOf(op *topsv1.OperationStatus) shownOperation {
	shown := shownOperation{phase: op.Phase, keptCordoned: op.Held}
	if op.Phase.Final() {
		return shown
	}
	shown.waitsFor, shown.begun = op.Reason, map[string]time.Time{}
	for i := range op.Tasks {
		t, err := upgradeplan.ParseTask(op.Tasks[i].Name)
		start := op.Tasks[i].StartTime
		if err != nil || start == nil || op.Tasks[i].State != topsv1.OperationTaskRunning {
			continue
		}
		if first, ok := shown.begun[t.Action]; !ok || start.Time.Before(first) {
			shown.begun[t.Action] = start.Time
		}
	}
	return shown
}

// Describe implements prometheus.Collector.
func (o *operations) Describe(descs chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{o.nodes, o.waiting, o.keptCordoned, o.oldest} {
		descs <- d
	}
}

// Collect implements prometheus.Collector.
func (o *operations) Collect(metrics chan<- prometheus.Metric) {
	phases, reasons, kept, oldest := map[topsv1.OperationPhase]int{}, map[string]int{}, 0, map[string]time.Time{}
	o.mu.Lock()
	for _, shown := range o.last {
		phases[shown.phase]++
		if shown.waitsFor != "" {
			reasons[shown.waitsFor]++
		}
		if shown.keptCordoned {
			kept++
		}
		for action, begun := range shown.begun {
			if first, ok := oldest[action]; !ok || begun.Before(first) {
				oldest[action] = begun
			}
		}
	}
	o.mu.Unlock()
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		metrics <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	gauge(o.keptCordoned, float64(kept))
	for phase, nodes := range phases {
		gauge(o.nodes, float64(nodes), string(phase))
	}
	for reason, nodes := range reasons {
		gauge(o.waiting, float64(nodes), reason)
	}
	for action, begun := range oldest {
		gauge(o.oldest, float64(begun.UnixMilli())/1000, action)
	}
}
