package daemonupdater

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
)

// Reasons of a pod deletion in gcu_rollout_pods_deleted_total.
const (
	deleteReasonOutdated    = "outdated"
	deleteReasonUnavailable = "outdated_unavailable"
)

// Metrics are the rollout metrics of the manager.
type Metrics struct {
	nodes          *prometheus.GaugeVec
	maxUnavailable *prometheus.GaugeVec
	unavailable    *prometheus.GaugeVec
	halted         *prometheus.GaugeVec
	podsDeleted    *prometheus.CounterVec
}

// NewMetrics registers the rollout metrics. It panics, as client_golang does,
// when they are registered already.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
		registerer.MustRegister(v)
		return v
	}
	m := &Metrics{
		nodes:          gauge("gcu_rollout_nodes", "Nodes of a rollout group by state: updated, in-flight, pending, skipped or failed.", "rollout", "state"),
		maxUnavailable: gauge("gcu_rollout_max_unavailable", "Nodes of a rollout group that may be unavailable at once.", "rollout"),
		unavailable:    gauge("gcu_rollout_unavailable", "Nodes of a rollout group that count against max-unavailable now.", "rollout"),
		halted:         gauge("gcu_rollout_halted", "1 when too many nodes failed and no new node is started, else 0.", "rollout"),
		podsDeleted: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gcu_rollout_pods_deleted_total",
			Help: "Pods deleted so that a newer revision replaces them.",
		}, []string{"rollout", "reason"}),
	}
	registerer.MustRegister(m.podsDeleted)
	return m
}

func (m *Metrics) podDeleted(g Group, reason string) {
	m.podsDeleted.WithLabelValues(g.String(), reason).Inc()
}

// show sets the gauges of a group.
func (m *Metrics) show(g Group, d rollout.Decision) {
	name := g.String()
	for _, s := range rollout.States {
		m.nodes.WithLabelValues(name, string(s)).Set(float64(d.Counts.Of(s)))
	}
	m.maxUnavailable.WithLabelValues(name).Set(float64(d.Limit))
	m.unavailable.WithLabelValues(name).Set(float64(d.Used))
	halted := 0.0
	if d.Halted != "" {
		halted = 1
	}
	m.halted.WithLabelValues(name).Set(halted)
}

// forget removes the series of a group that is gone.
func (m *Metrics) forget(g Group) {
	match := prometheus.Labels{"rollout": g.String()}
	for _, v := range []*prometheus.GaugeVec{m.nodes, m.maxUnavailable, m.unavailable, m.halted} {
		v.DeletePartialMatch(match)
	}
	m.podsDeleted.DeletePartialMatch(match)
}
