// Package metrics defines the metrics of rollouts. Gauges are set from the decision of a pass, and
// removed with their group; counters grow with the effects that were carried out. Labels are the
// group and closed lists such as states and reasons, never a node or a pod.
package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
)

// Reasons of a pod deletion in gcu_rollout_pods_deleted_total.
const (
	Outdated            = "outdated"
	OutdatedUnavailable = "outdated_unavailable"
)

// Metrics are the rollout metrics of the manager.
type Metrics struct {
	nodes          *prometheus.GaugeVec
	maxUnavailable *prometheus.GaugeVec
	unavailable    *prometheus.GaugeVec
	waiting        *prometheus.GaugeVec
	halted         *prometheus.GaugeVec
	eta            *prometheus.GaugeVec
	oldest         *ageGauge
	podsDeleted    *prometheus.CounterVec
	failures       *prometheus.CounterVec
	nodeDuration   *prometheus.HistogramVec
}

// New registers the rollout metrics. Like client_golang, it panics if they are already
// registered. clock returns the time of a scrape.
func New(registerer prometheus.Registerer, clock func() time.Time) *Metrics {
	m := &Metrics{
		nodes:          gauge("gcu_rollout_nodes", "Nodes of a rollout group by state: updated, in-flight, pending, held, skipped or failed.", "state"),
		maxUnavailable: gauge("gcu_rollout_max_unavailable", "Nodes of a rollout group that may be unavailable at once."),
		unavailable:    gauge("gcu_rollout_unavailable", "Nodes of a rollout group that count against max-unavailable now."),
		waiting:        gauge("gcu_rollout_waiting_nodes", "Nodes of a rollout group that are pending or held, by what they wait for.", "reason"),
		halted:         gauge("gcu_rollout_halted", "1 when too many nodes failed, for the reason most of them have, and no new node is started.", "reason"),
		eta:            gauge("gcu_rollout_eta_seconds", "Time the started and pending nodes of a rollout group take at the usual pace; 0 when not known."),
		oldest:         newAgeGauge("gcu_rollout_oldest_in_flight_seconds", "Age of the oldest slot of a rollout group; absent when no node is in flight.", clock),
		podsDeleted:    counter("gcu_rollout_pods_deleted_total", "Pods deleted so that a newer revision replaces them.", "reason"),
		failures:       counter("gcu_rollout_failures_total", "Nodes that failed after they were started.", "reason"),
		nodeDuration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "gcu_rollout_node_duration_seconds",
			Help:    "Time from a node's start until every pod on it is at the newest revision and available.",
			Buckets: []float64{1, 2, 5, 10, 30, 60, 120, 300, 600, 1200, 3600},
		}, []string{"rollout"}),
	}
	registerer.MustRegister(m.nodes, m.maxUnavailable, m.unavailable, m.waiting, m.halted, m.eta, m.oldest, m.podsDeleted, m.failures, m.nodeDuration)
	return m
}

func gauge(name, help string, labels ...string) *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, append([]string{"rollout"}, labels...))
}

func counter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, append([]string{"rollout"}, labels...))
}

// PodDeleted counts a deleted pod by reason.
func (m *Metrics) PodDeleted(g observed.Group, reason string) {
	m.podsDeleted.WithLabelValues(g.String(), reason).Inc()
}

// Show sets the gauges of a group.
func (m *Metrics) Show(g observed.Group, d rollout.Decision) {
	name := g.String()
	for _, s := range rollout.States {
		m.nodes.WithLabelValues(name, string(s)).Set(float64(d.Counts.Of(s)))
	}
	m.maxUnavailable.WithLabelValues(name).Set(float64(d.Limit))
	m.unavailable.WithLabelValues(name).Set(float64(d.Used))
	m.eta.WithLabelValues(name).Set(d.ETA().Seconds())
	m.waiting.DeletePartialMatch(prometheus.Labels{"rollout": name})
	for _, w := range d.Waiting {
		m.waiting.WithLabelValues(name, string(w.Reason)).Set(float64(w.Nodes))
	}
	m.halted.DeletePartialMatch(prometheus.Labels{"rollout": name})
	if d.Halted != "" {
		m.halted.WithLabelValues(name, string(mostCommon(d.Ledger.Failures))).Set(1)
	}
	var oldest time.Time
	for _, s := range d.Ledger.Slots {
		if !s.Queued && (oldest.IsZero() || s.Since.Before(oldest)) {
			oldest = s.Since
		}
	}
	m.oldest.set(name, oldest)
}

// mostCommon returns the most common reason of failures; of equally common ones, that of the
// first node.
func mostCommon(failures []rollout.Failure) rollout.Reason {
	count := map[rollout.Reason]int{}
	var most rollout.Reason
	for _, f := range failures {
		if count[f.Reason]++; count[f.Reason] > count[most] {
			most = f.Reason
		}
	}
	return most
}

// Count adds what is new in a stored decision: nodes that finished, and nodes that failed.
func (m *Metrics) Count(g observed.Group, before rollout.Ledger, d rollout.Decision) {
	for _, took := range d.Finished {
		m.nodeDuration.WithLabelValues(g.String()).Observe(took.Seconds())
	}
	known := map[string]bool{}
	for _, f := range before.Failures {
		known[f.Node] = before.Revision == d.Ledger.Revision
	}
	for _, f := range d.Ledger.Failures {
		if !known[f.Node] {
			m.failures.WithLabelValues(g.String(), string(f.Reason)).Inc()
		}
	}
}

// Forget removes the series of a group that is gone.
func (m *Metrics) Forget(g observed.Group) {
	match := prometheus.Labels{"rollout": g.String()}
	for _, v := range []*prometheus.GaugeVec{m.nodes, m.maxUnavailable, m.unavailable, m.waiting, m.halted, m.eta} {
		v.DeletePartialMatch(match)
	}
	m.podsDeleted.DeletePartialMatch(match)
	m.failures.DeletePartialMatch(match)
	m.nodeDuration.DeletePartialMatch(match)
	m.oldest.set(g.String(), time.Time{})
}
