// Package agents has the metrics about the reports of node agents in their NodeUpgrades, summed over the
// fleet.
package agents

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
)

const (
	// Silence is the time without a report after which an agent counts as silent. Agents report at
	// least once a minute.
	Silence = 3 * time.Minute
	// maxVersions bounds the series of a metric: agents write what they like.
	maxVersions = 16
	// otherVersions is the label of the versions beyond.
	otherVersions = "other"
	// collectTimeout bounds the wait for a cache that is not synchronized.
	collectTimeout = time.Second
)

// agents collects the metrics from a cache.
type agents struct {
	cache                  client.Reader
	elected                <-chan struct{}
	clock                  func() time.Time
	nodes, silent, drivers *prometheus.Desc
	// inOperation counts the silent agents on whose nodes an operation has not ended.
	inOperation *prometheus.Desc

	mu sync.Mutex
	// reports are the last reports by node.
	reports map[string]report
}

// report is the last report of a node: its time, by the clock of the node, and when it was first seen here.
type report struct{ time, seen time.Time }

// Register registers the metrics. They have values once elected is closed, so that only one manager
// has them. Like client_golang, it panics if they are already registered.
func Register(registerer prometheus.Registerer, cache client.Reader, elected <-chan struct{}, clock func() time.Time) {
	registerer.MustRegister(&agents{cache: cache, elected: elected, clock: clock, reports: map[string]report{},
		nodes:  prometheus.NewDesc("gcu_node_agent_nodes", "Nodes by the version of their node agent; the rarest versions count as other.", []string{"version"}, nil),
		silent: prometheus.NewDesc("gcu_node_agent_silent_nodes", "Ready nodes whose node agent has reported before, but not for over three minutes.", nil, nil),
		inOperation: prometheus.NewDesc("gcu_node_agent_silent_in_operation_nodes",
			"Ready nodes with an operation that has not ended whose node agent has not reported for three minutes.", nil, nil),
		drivers: prometheus.NewDesc("gcu_node_driver_nodes", "Nodes by the version of the loaded driver, empty for none; the rarest versions count as other.", []string{"version"}, nil),
	})
}

// Describe implements prometheus.Collector.
func (a *agents) Describe(descs chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{a.nodes, a.silent, a.inOperation, a.drivers} {
		descs <- d
	}
}

// Collect implements prometheus.Collector.
func (a *agents) Collect(metrics chan<- prometheus.Metric) {
	select {
	case <-a.elected:
	default:
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), collectTimeout)
	defer cancel()
	var nodes corev1.NodeList
	var upgrades topsv1.NodeUpgradeList
	if a.cache.List(ctx, &nodes, client.UnsafeDisableDeepCopy) != nil || a.cache.List(ctx, &upgrades, client.UnsafeDisableDeepCopy) != nil {
		return // the cache is not synchronized: nothing is known yet
	}
	versions, drivers := map[string]int{}, map[string]int{}
	for i := range upgrades.Items {
		if agent := upgrades.Items[i].Status.Agent; agent != nil {
			versions[agent.Version]++
		}
		if host := upgrades.Items[i].Status.Host; host != nil {
			drivers[host.DriverVersion]++
		}
	}
	silent, inOperation := a.count(nodes.Items, upgrades.Items)
	metrics <- prometheus.MustNewConstMetric(a.silent, prometheus.GaugeValue, float64(silent))
	metrics <- prometheus.MustNewConstMetric(a.inOperation, prometheus.GaugeValue, float64(inOperation))
	for desc, counts := range map[*prometheus.Desc]map[string]int{a.nodes: versions, a.drivers: drivers} {
		for version, count := range bounded(counts) {
			metrics <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(count), version)
		}
	}
}

// count returns the number of silent agents, and how many of them have a node with an operation that has not ended. Only
// times of one clock are compared: the age of a report is the time since it was first seen here.
func (a *agents) count(nodes []corev1.Node, upgrades []topsv1.NodeUpgrade) (silent, inOperation int) {
	ready := make(map[string]bool, len(nodes))
	for i := range nodes {
		ready[nodes[i].Name], _ = daemonset.NodeReady(&nodes[i])
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	now, reports := a.clock(), make(map[string]report, len(upgrades))
	for i := range upgrades {
		name, host := upgrades[i].Name, upgrades[i].Status.Host
		if host == nil || !ready[name] { // when its node is back, an agent gets the full time to report again
			continue
		}
		last, known := a.reports[name]
		if !known || !last.time.Equal(host.Time.Time) {
			last = report{time: host.Time.Time, seen: now}
		}
		reports[name] = last
		if now.Sub(last.seen) >= Silence {
			silent++
			if op := upgrades[i].Status.Operation; op != nil && !op.Phase.Final() {
				inOperation++
			}
		}
	}
	a.reports = reports
	return silent, inOperation
}

// bounded returns the counts of the most common versions, and the sum of the rest.
func bounded(counts map[string]int) map[string]int {
	if len(counts) <= maxVersions {
		return counts
	}
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int { return cmp.Or(counts[b]-counts[a], cmp.Compare(a, b)) })
	most := map[string]int{}
	for i, name := range names {
		if i >= maxVersions {
			name = otherVersions
		}
		most[name] += counts[names[i]]
	}
	return most
}
