package metrics

import (
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/report"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
)

// decision is what the metrics show of the last decision about a group. It shares no memory with it,
// because a decision is valid only until the next one.
type decision struct {
	strategy, revision string
	counts             rollout.Counts
	limit, used        int
	eta                time.Duration
	waiting            []rollout.Waiting
	waves              []rollout.WaveProgress
	conditions         map[string]bool
	// haltedFor is the most common reason of the failures; "" if the rollout is not halted.
	haltedFor rollout.Reason
	// rejected is true while a revision that was rolled back is remembered.
	rejected bool
	// oldestStart is the earliest start of a node in flight, zero if there is none.
	oldestStart time.Time
	// progress is when a node was last started or finished, or made progress in between; zero if none did.
	progress time.Time
	// offlineSince is when the longest current outage of a skipped node began, zero if no node is skipped.
	offlineSince time.Time
}

func decisionOf(in rollout.Input, d *rollout.Decision) decision {
	shown := decision{
		strategy: string(in.Settings.Strategy), revision: d.Ledger.Revision,
		counts: d.Counts, limit: d.MaxUnavailable, used: d.Used, eta: d.ETA(),
		waiting: slices.Clone(d.Waiting), waves: slices.Clone(d.Ledger.Waves),
		progress: latest(lastProgress(&d.Ledger), d.LastTaskEnd), offlineSince: d.OfflineSince,
		conditions: map[string]bool{
			topsv1.RolloutAccepted: observed.NotAccepted(&in) == nil,
			topsv1.RolloutHalted:   d.Halted != "",
			topsv1.RolloutPaused:   in.Settings.Paused,
			topsv1.RolloutComplete: report.IsComplete(in, *d),
		},
	}
	if d.Halted != "" {
		shown.haltedFor = mostCommon(d.Ledger.Failures)
	}
	for _, s := range d.Ledger.Slots {
		if !s.Queued && (shown.oldestStart.IsZero() || s.Since.Before(shown.oldestStart)) {
			shown.oldestStart = s.Since
		}
	}
	return shown
}

// mostCommon returns the most common reason of failures. If several are equally common, it returns the one that
// reached that number first.
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

// lastProgress is when the nodes of a rollout last made progress, as its ledger has it: that of an earlier version has only starts. A start
// that retries a denied deletion is no progress.
func lastProgress(l *rollout.Ledger) time.Time {
	if l.LastProgress.IsZero() {
		return l.LastStart
	}
	return l.LastProgress
}

// latest returns the latest time.
func latest(times ...time.Time) time.Time { return slices.MaxFunc(times, time.Time.Compare) }

// decisions collects the gauges of all groups.
type decisions struct {
	nodes, maxUnavailable, unavailable, waiting, halted, rejected, eta *prometheus.Desc
	oldestStart, progress, offlineSince, info, condition               *prometheus.Desc
	wave, updatedInWave                                                *prometheus.Desc

	mu   sync.Mutex
	last map[observed.Group]decision
}

func newDecisions() *decisions {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("gcu_rollout_"+name, help, append([]string{"rollout"}, labels...), nil)
	}
	return &decisions{
		nodes:          desc("nodes", "Nodes of a rollout group by state: updated, in-flight, pending, held, skipped, failed or pinned.", "state"),
		maxUnavailable: desc("max_unavailable", "Nodes of a rollout group that may be unavailable at once."),
		unavailable:    desc("unavailable", "Nodes of a rollout group that count against max-unavailable now."),
		waiting:        desc("waiting_nodes", "Nodes of a rollout group that are pending or held, by what they wait for.", "reason"),
		halted:         desc("halted", "1 while the rollout is halted because too many nodes failed, with the most common reason of the failures; absent otherwise.", "reason"),
		rejected:       desc("revision_rejected", "1 after a rollback by failure.action of a policy, until there is another revision or the rollout is resumed; else 0."),
		eta:            desc("eta_seconds", "Estimated seconds until the started and pending nodes of a rollout group finish; absent when not known."),
		oldestStart:    desc("oldest_start_timestamp_seconds", "Earliest start of a node in flight, as a Unix timestamp; absent when none is in flight."),
		progress: desc("last_progress_timestamp_seconds", "Last time that a node was started or finished, another of its pods was due to be deleted, or a task of its operation ended, "+
			"as a Unix timestamp; absent when there is none."),
		offlineSince:  desc("oldest_offline_timestamp_seconds", "Start of the longest current outage among skipped outdated nodes, as a Unix timestamp; absent when none is skipped."),
		info:          desc("info", "1, with the strategy of a rollout group and the revision to which its nodes are upgraded.", "strategy", "revision"),
		condition:     desc("condition", "1 when a condition of the DaemonRollout is true, else 0: Accepted, Complete, Halted or Paused.", "condition"),
		wave:          desc("wave_nodes", "Nodes of a wave of the policy of a rollout group.", "wave"),
		updatedInWave: desc("wave_updated_nodes", "Nodes of a wave of the policy of a rollout group that are updated.", "wave"),
		last:          map[observed.Group]decision{},
	}
}

// set replaces the decision about a group.
func (c *decisions) set(g observed.Group, d decision) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last[g] = d
}

func (c *decisions) forget(g observed.Group) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.last, g)
}

// Describe implements prometheus.Collector.
func (c *decisions) Describe(descs chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.nodes, c.maxUnavailable, c.unavailable, c.waiting, c.halted, c.rejected, c.eta,
		c.oldestStart, c.progress, c.offlineSince, c.info, c.condition, c.wave, c.updatedInWave} {
		descs <- d
	}
}

// Collect implements prometheus.Collector.
func (c *decisions) Collect(metrics chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for g, d := range c.last {
		c.collect(g.String(), d, func(desc *prometheus.Desc, value float64, labels ...string) {
			metrics <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
		})
	}
}

func (c *decisions) collect(name string, d decision, gauge func(desc *prometheus.Desc, value float64, labels ...string)) {
	for _, s := range rollout.States {
		gauge(c.nodes, float64(d.counts.Of(s)), name, string(s))
	}
	gauge(c.maxUnavailable, float64(d.limit), name)
	gauge(c.unavailable, float64(d.used), name)
	gauge(c.info, 1, name, d.strategy, d.revision)
	for _, w := range d.waiting {
		gauge(c.waiting, float64(w.Nodes), name, string(w.Reason))
	}
	for condition, is := range d.conditions {
		gauge(c.condition, oneIf(is), name, condition)
	}
	gauge(c.rejected, oneIf(d.rejected), name)
	for _, w := range d.waves {
		gauge(c.wave, float64(w.Total), name, w.Name)
		gauge(c.updatedInWave, float64(w.Updated), name, w.Name)
	}
	if d.haltedFor != "" {
		gauge(c.halted, 1, name, string(d.haltedFor))
	}
	if d.eta > 0 {
		gauge(c.eta, d.eta.Seconds(), name)
	}
	for desc, at := range map[*prometheus.Desc]time.Time{c.oldestStart: d.oldestStart, c.progress: d.progress, c.offlineSince: d.offlineSince} {
		if !at.IsZero() {
			gauge(desc, float64(at.UnixMilli())/1000, name)
		}
	}
}

func oneIf(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
