package drain

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/topsops/gcu-operator/pkg/drain/eviction"
)

// states returns a result with one pod in each of the given states.
func states(all ...eviction.State) eviction.Result {
	r := eviction.Result{NodeReady: true}
	for _, s := range all {
		r.Pods = append(r.Pods, eviction.Outcome{State: s})
	}
	return r
}

func TestMetricsCountBlockedNodes(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := NewMetrics(registry)
	m.evicted(eviction.Evicted)
	m.evicted(eviction.Refused)
	m.evicted(eviction.Refused)
	m.passed("n1", states(eviction.Refused))
	m.passed("n1", states(eviction.Refused))
	m.passed("n2", states(eviction.Blocked))
	m.passed("n6", eviction.Result{NodeReady: true, Pods: []eviction.Outcome{{State: eviction.Blocked}, {State: eviction.Terminating, Reason: "it does not end"}}})
	m.passed("n3", states(eviction.Terminating, eviction.Running, eviction.Failed))
	m.passed("n4", states(eviction.Refused))
	m.passed("n4", states(eviction.Terminating))
	m.passed("n5", states(eviction.Blocked))
	m.Ended("n5")
	want := `
# HELP gcu_drain_blocked_nodes Nodes whose drain is blocked, by what blocks it: a PodDisruptionBudget refuses an eviction, the drain policy keeps a pod, or a terminating pod does not end. A node counts once under each kind.
# TYPE gcu_drain_blocked_nodes gauge
gcu_drain_blocked_nodes{kind="disruption-budget"} 1
gcu_drain_blocked_nodes{kind="policy"} 2
gcu_drain_blocked_nodes{kind="terminating"} 1
# HELP gcu_drain_evictions_total Evictions that were tried, by result: success, refused by a PodDisruptionBudget, gone before, or failure.
# TYPE gcu_drain_evictions_total counter
gcu_drain_evictions_total{result="failure"} 0
gcu_drain_evictions_total{result="gone"} 0
gcu_drain_evictions_total{result="refused"} 2
gcu_drain_evictions_total{result="success"} 1
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}
