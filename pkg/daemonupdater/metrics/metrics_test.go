package metrics

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/topsops/gcu-operator/pkg/daemonset"
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
			Usual: 30 * time.Second, LastStart: start.Add(time.Minute),
			Waves: []rollout.WaveProgress{{Name: "canary", Total: 3, Updated: 1}},
		},
		Counts:         rollout.Counts{Total: 9, Updated: 2, InFlight: 2, Pending: 1, Skipped: 1, Failed: 3},
		Waiting:        []rollout.Waiting{{Reason: rollout.ReasonBudgetExhausted, Nodes: 1}},
		MaxUnavailable: 2,
		Used:           2,
		Halted:         "3 nodes failed",

		OfflineSince: start.Add(-time.Hour),
		Finished:     []time.Duration{20 * time.Second},
	}
}

// collected are several collectors as one.
type collected []prometheus.Collector

func (c collected) Describe(descs chan<- *prometheus.Desc) {
	for _, one := range c {
		one.Describe(descs)
	}
}

func (c collected) Collect(metrics chan<- prometheus.Metric) {
	for _, one := range c {
		one.Collect(metrics)
	}
}

func TestMetricsOfARollout(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	registry := prometheus.NewRegistry()
	m := New(registry)
	g := observed.Group{Kind: observed.KindDaemonSet, Namespace: "default", Name: "driver"}
	d := halfWay(start)
	in := rollout.Input{Settings: daemonset.Settings{Strategy: daemonset.OTA, Paused: true}}
	m.Show(g, in, d, true)
	m.RolledBack(g)
	testutil.CollectAndCount(collected{m.rollbacks, m.failures})                                                                            // shows zero
	m.Count(g, rollout.Ledger{Revision: "r1", Failures: append([]rollout.Failure{{Node: "d", Since: start}}, d.Ledger.Failures[:1]...)}, d) // node d failed again
	m.Count(g, d.Ledger, rollout.Decision{Ledger: d.Ledger})                                                                                // the same decision again counts nothing
	next := d.Ledger
	next.Revision = "r2" // the failures are kept: the revisions of what failed are still targets
	m.Count(g, d.Ledger, rollout.Decision{Ledger: next})
	want := `
# HELP gcu_rollout_condition 1 when a condition of the DaemonRollout is true, else 0: Accepted, Complete, Halted or Paused.
# TYPE gcu_rollout_condition gauge
gcu_rollout_condition{condition="Accepted",rollout="default/driver"} 1
gcu_rollout_condition{condition="Complete",rollout="default/driver"} 0
gcu_rollout_condition{condition="Halted",rollout="default/driver"} 1
gcu_rollout_condition{condition="Paused",rollout="default/driver"} 1
# HELP gcu_rollout_eta_seconds Estimated seconds until the started and pending nodes of a rollout group finish; absent when not known.
# TYPE gcu_rollout_eta_seconds gauge
gcu_rollout_eta_seconds{rollout="default/driver"} 60
# HELP gcu_rollout_failures_total Nodes that failed after they were started.
# TYPE gcu_rollout_failures_total counter
gcu_rollout_failures_total{reason="CrashLooping",rollout="default/driver"} 2
gcu_rollout_failures_total{reason="NodeLost",rollout="default/driver"} 0
gcu_rollout_failures_total{reason="OperationAborted",rollout="default/driver"} 0
gcu_rollout_failures_total{reason="OperationFailed",rollout="default/driver"} 0
gcu_rollout_failures_total{reason="ProgressDeadlineExceeded",rollout="default/driver"} 0
gcu_rollout_failures_total{reason="Quarantined",rollout="default/driver"} 0
# HELP gcu_rollout_halted 1 while the rollout is halted because too many nodes failed, with the most common reason of the failures; absent otherwise.
# TYPE gcu_rollout_halted gauge
gcu_rollout_halted{reason="CrashLooping",rollout="default/driver"} 1
# HELP gcu_rollout_info 1, with the strategy of a rollout group and the revision to which its nodes are upgraded.
# TYPE gcu_rollout_info gauge
gcu_rollout_info{revision="r1",rollout="default/driver",strategy="OTA"} 1
# HELP gcu_rollout_last_progress_timestamp_seconds Last time that a node was started or finished, another of its pods was due to be deleted, or a task of its operation ended, as a Unix timestamp; absent when there is none.
# TYPE gcu_rollout_last_progress_timestamp_seconds gauge
gcu_rollout_last_progress_timestamp_seconds{rollout="default/driver"} 1.76722566e+09
# HELP gcu_rollout_max_unavailable Nodes of a rollout group that may be unavailable at once.
# TYPE gcu_rollout_max_unavailable gauge
gcu_rollout_max_unavailable{rollout="default/driver"} 2
# HELP gcu_rollout_nodes Nodes of a rollout group by state: updated, in-flight, pending, held, skipped, failed or pinned.
# TYPE gcu_rollout_nodes gauge
gcu_rollout_nodes{rollout="default/driver",state="failed"} 3
gcu_rollout_nodes{rollout="default/driver",state="held"} 0
gcu_rollout_nodes{rollout="default/driver",state="in-flight"} 2
gcu_rollout_nodes{rollout="default/driver",state="pending"} 1
gcu_rollout_nodes{rollout="default/driver",state="pinned"} 0
gcu_rollout_nodes{rollout="default/driver",state="skipped"} 1
gcu_rollout_nodes{rollout="default/driver",state="updated"} 2
# HELP gcu_rollout_oldest_offline_timestamp_seconds Start of the longest current outage among skipped outdated nodes, as a Unix timestamp; absent when none is skipped.
# TYPE gcu_rollout_oldest_offline_timestamp_seconds gauge
gcu_rollout_oldest_offline_timestamp_seconds{rollout="default/driver"} 1.767222e+09
# HELP gcu_rollout_oldest_start_timestamp_seconds Earliest start of a node in flight, as a Unix timestamp; absent when none is in flight.
# TYPE gcu_rollout_oldest_start_timestamp_seconds gauge
gcu_rollout_oldest_start_timestamp_seconds{rollout="default/driver"} 1.7672256e+09
# HELP gcu_rollout_revision_rejected 1 after a rollback by failure.action of a policy, until there is another revision or the rollout is resumed; else 0.
# TYPE gcu_rollout_revision_rejected gauge
gcu_rollout_revision_rejected{rollout="default/driver"} 1
# HELP gcu_rollout_rollbacks_total Rollbacks to the last known good revision by failure.action of a policy.
# TYPE gcu_rollout_rollbacks_total counter
gcu_rollout_rollbacks_total{rollout="default/driver"} 1
# HELP gcu_rollout_unavailable Nodes of a rollout group that count against max-unavailable now.
# TYPE gcu_rollout_unavailable gauge
gcu_rollout_unavailable{rollout="default/driver"} 2
# HELP gcu_rollout_waiting_nodes Nodes of a rollout group that are pending or held, by what they wait for.
# TYPE gcu_rollout_waiting_nodes gauge
gcu_rollout_waiting_nodes{reason="BudgetExhausted",rollout="default/driver"} 1
# HELP gcu_rollout_wave_nodes Nodes of a wave of the policy of a rollout group.
# TYPE gcu_rollout_wave_nodes gauge
gcu_rollout_wave_nodes{rollout="default/driver",wave="canary"} 3
# HELP gcu_rollout_wave_updated_nodes Nodes of a wave of the policy of a rollout group that are updated.
# TYPE gcu_rollout_wave_updated_nodes gauge
gcu_rollout_wave_updated_nodes{rollout="default/driver",wave="canary"} 1
`
	if err := testutil.CollectAndCompare(collected{m.decisions, m.failures, m.rollbacks}, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
	if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) > 0 {
		t.Errorf("promlint: %v, %v", problems, err)
	}
	m.Started(g, time.Minute)
	if n := testutil.CollectAndCount(collected{m.nodeDuration, m.requestWait}); n != 2 {
		t.Errorf("%d histograms, want 2", n)
	}
	d.Halted, d.Ledger.Slots = "", nil
	m.Show(g, in, d, false)
	for _, name := range []string{"gcu_rollout_halted", "gcu_rollout_oldest_start_timestamp_seconds"} {
		if n, err := testutil.GatherAndCount(registry, name); n != 0 || err != nil {
			t.Errorf("%d series of %s are left after the halt (%v)", n, name, err)
		}
	}
	m.Forget(g)
	if n, err := testutil.GatherAndCount(registry); err != nil || n != 0 {
		t.Errorf("%d series are left of a group that is gone (%v)", n, err)
	}
}

// TestLastProgress: a manager that has seen nothing go on shows what is stored, and the tasks of operations.
func TestLastProgress(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(minutes int) time.Time { return start.Add(time.Duration(minutes) * time.Minute) }
	g := observed.Group{Namespace: "default", Name: "driver"}
	for _, tt := range []struct {
		name string
		d    rollout.Decision
		want time.Time
	}{
		{"nothing has begun", rollout.Decision{}, time.Time{}},
		{"a node finished after the last start", rollout.Decision{Ledger: rollout.Ledger{LastStart: at(2), LastProgress: at(5)}}, at(5)},
		{"a ledger of an earlier version", rollout.Decision{Ledger: rollout.Ledger{LastStart: at(2)}}, at(2)},
		{"a deletion that was denied is tried again", rollout.Decision{Ledger: rollout.Ledger{LastStart: at(5), LastProgress: at(2)}}, at(2)},
		{"a task has ended", rollout.Decision{Ledger: rollout.Ledger{LastStart: at(2), LastProgress: at(2)}, LastTaskEnd: at(4)}, at(4)},
	} {
		m := New(prometheus.NewRegistry())
		m.Show(g, rollout.Input{Now: at(9)}, tt.d, false)
		if got := m.decisions.last[g].progress; !got.Equal(tt.want) {
			t.Errorf("%s: the last progress was at %v, want %v", tt.name, got, tt.want)
		}
	}
}

// TestGate: without the gate there is no series.
func TestGate(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := New(registry)
	if n := testutil.CollectAndCount(m.gate); n != 0 {
		t.Errorf("%d series without the gate", n)
	}
	m.Gate(true)
	m.Gate(false)
	want := "# HELP gcu_gate_available 1 if the admission policy of the gate is installed and served, 0 if it is not although --gate is set.\n# TYPE gcu_gate_available gauge\ngcu_gate_available 0\n"
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "gcu_gate_available"); err != nil {
		t.Error(err)
	}
}

// Whatever the number of nodes, a group has the same series; those of its first pass are all there, at
// zero.
func TestTheSeriesOfAGroupDoNotGrowWithItsNodes(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	series := func(nodes int) int {
		t.Helper()
		registry := prometheus.NewRegistry()
		m := New(registry)
		in, d := rollout.Input{Settings: daemonset.Settings{Strategy: daemonset.OTA}}, halfWay(start)
		d.Ledger.Slots, d.Counts = nil, rollout.Counts{Total: nodes, InFlight: nodes}
		for i := range nodes {
			name := fmt.Sprint("node-", i)
			in.Nodes = append(in.Nodes, rollout.Node{Name: name})
			d.Ledger.Slots = append(d.Ledger.Slots, rollout.Slot{Node: name, Since: start})
			d.Finished = append(d.Finished, time.Minute)
		}
		m.Show(observed.Group{Namespace: "default", Name: "driver"}, in, d, false)
		before, err := testutil.GatherAndCount(registry)
		if err != nil {
			t.Fatal(err)
		}
		m.Count(observed.Group{Namespace: "default", Name: "driver"}, rollout.Ledger{}, d)
		m.PodDeleted(observed.Group{Namespace: "default", Name: "driver"}, Outdated)
		m.RolledBack(observed.Group{Namespace: "default", Name: "driver"})
		after, err := testutil.GatherAndCount(registry)
		if err != nil || after != before {
			t.Errorf("%d series before the first event, %d after it (%v)", before, after, err)
		}
		return after
	}
	if few, many := series(10), series(10_000); few != many || many > 60 {
		t.Errorf("%d series with 10 nodes, %d with 10000, want the same and at most 60", few, many)
	}
}

// A new leader deletes pods, finds failures and rolls back in its first pass, before a scrape: increase() needs a zero before the
// first event.
func TestTheFirstScrapeShowsNoEvent(t *testing.T) {
	for name, event := range map[string]func(*Metrics, observed.Group){
		`gcu_rollout_rollbacks_total{rollout="default/driver"}`:                      (*Metrics).RolledBack,
		`gcu_rollout_pods_deleted_total{reason="outdated",rollout="default/driver"}`: func(m *Metrics, g observed.Group) { m.PodDeleted(g, Outdated) },
		`gcu_rollout_failures_total{reason="CrashLooping",rollout="default/driver"}`: func(m *Metrics, g observed.Group) {
			m.Count(g, rollout.Ledger{}, rollout.Decision{Ledger: rollout.Ledger{Failures: []rollout.Failure{{Node: "a", Reason: rollout.ReasonCrashLooping}}}})
		},
	} {
		registry := prometheus.NewRegistry()
		m, g := New(registry), observed.Group{Namespace: "default", Name: "driver"}
		shows := func(want string) {
			t.Helper()
			if got := scraped(t, registry, name); got != want {
				t.Errorf("%s is %q, want %q", name, got, want)
			}
		}
		event(m, g)
		m.Show(g, rollout.Input{}, rollout.Decision{}, true)
		shows("0")
		shows("1")
		event(m, g)
		shows("2")
		m.Forget(g)
		shows("")
	}
}

// scraped returns the value of a series in a scrape, "" if it is not there.
func scraped(t *testing.T, registry *prometheus.Registry, series string) string {
	t.Helper()
	response := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(response, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for line := range strings.Lines(response.Body.String()) {
		if value, is := strings.CutPrefix(line, series+" "); is {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
