// Package metrics defines the metrics of rollouts. Gauges are collected from the last decision of
// each group, all at once; counters are increased when effects are carried out. Labels are the group,
// closed lists such as states and reasons, the waves of its policy and its revision, never a node or
// a pod.
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
	decisions    *decisions
	podsDeleted  *counter
	failures     *counter
	rollbacks    *counter
	nodeDuration *prometheus.HistogramVec
	requestWait  *prometheus.HistogramVec
	gate         *prometheus.GaugeVec
}

// New registers the rollout metrics. Like client_golang, it panics if they are already
// registered.
func New(registerer prometheus.Registerer) *Metrics {
	m := &Metrics{
		decisions:   newDecisions(),
		podsDeleted: newCounter("gcu_rollout_pods_deleted_total", "Pods deleted so that a newer revision replaces them.", "reason"),
		failures:    newCounter("gcu_rollout_failures_total", "Nodes that failed after they were started.", "reason"),
		rollbacks:   newCounter("gcu_rollout_rollbacks_total", "Rollbacks to the last known good revision by failure.action of a policy."),
		nodeDuration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "gcu_rollout_node_duration_seconds",
			Help:    "Time from a node's start until every pod on it is at the newest revision and available.",
			Buckets: []float64{1, 2, 5, 10, 30, 60, 120, 300, 600, 1200, 3600},
		}, []string{"rollout"}),
		requestWait: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "gcu_rollout_request_wait_seconds",
			Help:    "Time from an OTA request on a node, by the node's clock, until the node was given its slot.",
			Buckets: []float64{1, 5, 15, 60, 300, 900, 3600, 6 * 3600, 24 * 3600, 7 * 24 * 3600},
		}, []string{"rollout"}),
		gate: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "gcu_gate_available",
			Help: "1 if the admission policy of the gate is installed and served, 0 if it is not although --gate is set."}, nil),
	}
	registerer.MustRegister(m.decisions, m.podsDeleted, m.failures, m.rollbacks, m.nodeDuration, m.requestWait, m.gate)
	return m
}

// Gate shows whether the gate is available. It is not called without --gate.
func (m *Metrics) Gate(available bool) {
	value := 0.0
	if available {
		value = 1
	}
	m.gate.WithLabelValues().Set(value)
}

// PodDeleted counts a deleted pod by reason.
func (m *Metrics) PodDeleted(g observed.Group, reason string) {
	m.podsDeleted.add(series{g.String(), reason}, 1)
}

// Started records how long a request of a node waited for its slot.
func (m *Metrics) Started(g observed.Group, waited time.Duration) {
	m.requestWait.WithLabelValues(g.String()).Observe(waited.Seconds())
}

// Show shows the decision about a group, and whether a revision is rejected.
func (m *Metrics) Show(g observed.Group, in rollout.Input, d rollout.Decision, rejected bool) {
	shown := decisionOf(in, &d)
	shown.rejected = rejected
	m.decisions.set(g, shown)
	m.initSeries(g.String())
}

// initSeries creates the series of a group: a counter shows a zero before the first event.
func (m *Metrics) initSeries(group string) {
	m.rollbacks.add(series{group: group}, 0)
	m.nodeDuration.WithLabelValues(group)
	m.requestWait.WithLabelValues(group)
	for _, reason := range []string{Outdated, OutdatedUnavailable} {
		m.podsDeleted.add(series{group, reason}, 0)
	}
	for _, reason := range rollout.FailureReasons {
		m.failures.add(series{group, string(reason)}, 0)
	}
}

// RolledBack counts a rollback of a group.
func (m *Metrics) RolledBack(g observed.Group) { m.rollbacks.add(series{group: g.String()}, 1) }

// Count counts what is new in a stored decision: nodes that finished, and nodes that failed.
func (m *Metrics) Count(g observed.Group, before rollout.Ledger, d rollout.Decision) {
	for _, took := range d.Finished {
		m.nodeDuration.WithLabelValues(g.String()).Observe(took.Seconds())
	}
	known := make(map[string]time.Time, len(before.Failures))
	for i := range before.Failures {
		known[before.Failures[i].Node] = before.Failures[i].Since
	}
	for _, f := range d.Ledger.Failures {
		if since, is := known[f.Node]; !is || !since.Equal(f.Since) { // a failure is kept across revisions
			m.failures.add(series{g.String(), string(f.Reason)}, 1)
		}
	}
}

// Forget removes the series of a group that is gone.
func (m *Metrics) Forget(g observed.Group) {
	m.decisions.forget(g)
	for _, c := range []*counter{m.podsDeleted, m.failures, m.rollbacks} {
		c.forget(g.String())
	}
	match := prometheus.Labels{"rollout": g.String()}
	m.nodeDuration.DeletePartialMatch(match)
	m.requestWait.DeletePartialMatch(match)
}
