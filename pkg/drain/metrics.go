package drain

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/topsops/gcu-operator/pkg/drain/eviction"
	"github.com/topsops/gcu-operator/pkg/outcome"
)

// Metrics are the metrics of drains.
type Metrics struct {
	evictions *prometheus.CounterVec

	blockedDesc *prometheus.Desc

	mu sync.Mutex
	// blocked is what blocks the drain of a node, by node.
	blocked map[string][]eviction.Blocker
}

// NewMetrics registers the metrics of drains. It panics, as client_golang does, when they are
// already registered.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	m := &Metrics{
		evictions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gcu_drain_evictions_total",
			Help: "Evictions that were tried, by result: success, refused by a PodDisruptionBudget, gone before, or failure.",
		}, []string{"result"}),
		blockedDesc: prometheus.NewDesc("gcu_drain_blocked_nodes", "Nodes whose drain is blocked, by what blocks it: "+
			"a PodDisruptionBudget refuses an eviction, the drain policy keeps a pod, or a terminating pod does not end. A node counts once under each kind.", []string{"kind"}, nil),
		blocked: map[string][]eviction.Blocker{},
	}
	for _, result := range results {
		m.evictions.WithLabelValues(string(result)) // rate() needs the zero before the first increment
	}
	registerer.MustRegister(m.evictions, m)
	return m
}

// Describe implements prometheus.Collector, for the nodes that are blocked.
func (m *Metrics) Describe(descs chan<- *prometheus.Desc) { descs <- m.blockedDesc }

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(metrics chan<- prometheus.Metric) {
	nodes := map[eviction.Blocker]int{}
	m.mu.Lock()
	for _, blockers := range m.blocked {
		for _, kind := range blockers {
			nodes[kind]++
		}
	}
	m.mu.Unlock()
	for _, kind := range eviction.Blockers {
		metrics <- prometheus.MustNewConstMetric(m.blockedDesc, prometheus.GaugeValue, float64(nodes[kind]), string(kind))
	}
}

// Ended records that the drain of a node has ended, whatever the outcome.
func (m *Metrics) Ended(node string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.blocked, node)
}

// results of an eviction, by the state of the pod after it.
var results = map[eviction.State]outcome.Result{
	eviction.Evicted: outcome.Success, eviction.Refused: outcome.Refused, eviction.Gone: outcome.Gone, eviction.Failed: outcome.Failure,
}

func (m *Metrics) evicted(s eviction.State) { m.evictions.WithLabelValues(string(results[s])).Inc() }

func (m *Metrics) passed(node string, r eviction.Result) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if blockers := r.Blockers(); len(blockers) > 0 {
		m.blocked[node] = blockers
		return
	}
	delete(m.blocked, node)
}
