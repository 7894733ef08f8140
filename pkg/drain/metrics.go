package drain

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/topsops/gcu-operator/pkg/drain/eviction"
)

// Metrics are the metrics of drains.
type Metrics struct {
	evictions *prometheus.CounterVec

	mu      sync.Mutex
	blocked sets.Set[string]
}

// NewMetrics registers the metrics of drains. It panics, as client_golang does, when they are
// already registered.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	m := &Metrics{
		evictions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gcu_drain_evictions_total",
			Help: "Evictions that were tried, by result: evicted, refused by a PodDisruptionBudget, gone before, or failed.",
		}, []string{"result"}),
		blocked: sets.New[string](),
	}
	for _, s := range []eviction.State{eviction.Evicted, eviction.Refused, eviction.Gone, eviction.Failed} {
		m.evictions.WithLabelValues(string(s)) // rate() needs the zero before the first increment
	}
	registerer.MustRegister(m.evictions, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "gcu_drain_blocked_nodes",
		Help: "Nodes that are being drained and not getting empty: a PodDisruptionBudget refuses, or the policy keeps a pod.",
	}, m.blockedNodes))
	return m
}

// Ended records that the drain of a node has ended, whatever the outcome.
func (m *Metrics) Ended(node string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.blocked.Delete(node)
}

func (m *Metrics) evicted(s eviction.State) { m.evictions.WithLabelValues(string(s)).Inc() }

func (m *Metrics) passed(node string, r eviction.Result) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r.Stuck() {
		m.blocked.Insert(node)
		return
	}
	m.blocked.Delete(node)
}

func (m *Metrics) blockedNodes() float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return float64(m.blocked.Len())
}
