package metrics

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
)

// halfWay returns a decision with one of everything that is counted.
func halfWay(start time.Time) rollout.Decision {
	return rollout.Decision{
		Ledger: rollout.Ledger{
			Revision: "r1",
			Slots:    []rollout.Slot{{Node: "b", Since: start}, {Node: "c", Since: start.Add(time.Minute)}},
			Failures: []rollout.Failure{{Node: "a", Reason: rollout.ReasonNodeLost}, {Node: "d", Reason: rollout.ReasonCrashLooping},
				{Node: "e", Reason: rollout.ReasonCrashLooping}},
			Usual: 30 * time.Second,
		},
		Counts:   rollout.Counts{Total: 9, Updated: 2, InFlight: 2, Pending: 1, Skipped: 1, Failed: 3},
		Waiting:  []rollout.Waiting{{Reason: rollout.ReasonBudgetExhausted, Nodes: 1}},
		Limit:    2,
		Used:     2,
		Halted:   "3 nodes failed",
		Finished: []time.Duration{20 * time.Second},
	}
}

func TestMetricsOfARollout(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	now := start.Add(2 * time.Minute)
	registry := prometheus.NewRegistry()
	m := New(registry, func() time.Time { return now })
	g := observed.Group{Kind: observed.KindDaemonSet, Namespace: "default", Name: "driver"}
	d := halfWay(start)
	m.Show(g, d)
	m.Count(g, rollout.Ledger{Revision: "r1", Failures: d.Ledger.Failures[:1]}, d)
	m.Count(g, d.Ledger, rollout.Decision{Ledger: d.Ledger}) // the same decision again counts nothing
	want := `
# HELP gcu_rollout_eta_seconds Time the started and pending nodes of a rollout group take at the usual pace; 0 when not known.
# TYPE gcu_rollout_eta_seconds gauge
gcu_rollout_eta_seconds{rollout="default/driver"} 60
# HELP gcu_rollout_failures_total Nodes that failed after they were started.
# TYPE gcu_rollout_failures_total counter
gcu_rollout_failures_total{reason="CrashLooping",rollout="default/driver"} 2
# HELP gcu_rollout_halted 1 when too many nodes failed, for the reason most of them have, and no new node is started.
# TYPE gcu_rollout_halted gauge
gcu_rollout_halted{reason="CrashLooping",rollout="default/driver"} 1
# HELP gcu_rollout_nodes Nodes of a rollout group by state: updated, in-flight, pending, held, skipped or failed.
# TYPE gcu_rollout_nodes gauge
gcu_rollout_nodes{rollout="default/driver",state="failed"} 3
gcu_rollout_nodes{rollout="default/driver",state="held"} 0
gcu_rollout_nodes{rollout="default/driver",state="in-flight"} 2
gcu_rollout_nodes{rollout="default/driver",state="pending"} 1
gcu_rollout_nodes{rollout="default/driver",state="skipped"} 1
gcu_rollout_nodes{rollout="default/driver",state="updated"} 2
# HELP gcu_rollout_oldest_in_flight_seconds Age of the oldest slot of a rollout group; absent when no node is in flight.
# TYPE gcu_rollout_oldest_in_flight_seconds gauge
gcu_rollout_oldest_in_flight_seconds{rollout="default/driver"} 120
# HELP gcu_rollout_waiting_nodes Nodes of a rollout group that are pending or held, by what they wait for.
# TYPE gcu_rollout_waiting_nodes gauge
gcu_rollout_waiting_nodes{reason="BudgetExhausted",rollout="default/driver"} 1
`
	names := []string{"gcu_rollout_eta_seconds", "gcu_rollout_failures_total", "gcu_rollout_halted", "gcu_rollout_nodes", "gcu_rollout_oldest_in_flight_seconds", "gcu_rollout_waiting_nodes"}
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), names...); err != nil {
		t.Error(err)
	}
	if n := testutil.CollectAndCount(m.nodeDuration); n != 1 {
		t.Errorf("%d duration histograms, want 1", n)
	}
	d.Halted, d.Ledger.Slots = "", nil
	m.Show(g, d)
	if n := testutil.CollectAndCount(m.halted) + testutil.CollectAndCount(m.oldest); n != 0 {
		t.Errorf("%d series of halted and oldest are left after the halt, want none", n)
	}
	m.Forget(g)
	if n, err := testutil.GatherAndCount(registry); err != nil || n != 0 {
		t.Errorf("%d series are left of a group that is gone (%v)", n, err)
	}
}
