package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	versioncollector "github.com/prometheus/client_golang/prometheus/collectors/version"

	"github.com/topsops/gcu-operator/pkg/daemonupdater/metrics"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/notifier"
	"github.com/topsops/gcu-operator/pkg/drain"
	"github.com/topsops/gcu-operator/pkg/gcuresource"
	"github.com/topsops/gcu-operator/pkg/nodeupgrade"
	"github.com/topsops/gcu-operator/pkg/nodeupgrade/agents"
	"github.com/topsops/gcu-operator/pkg/servingcert"
	"github.com/topsops/gcu-operator/pkg/upgradeapi"
)

// recorder is a registerer that records its collectors.
type recorder struct {
	prometheus.Registerer
	collectors []prometheus.Collector
}

// MustRegister implements prometheus.Registerer.
func (r *recorder) MustRegister(collectors ...prometheus.Collector) {
	r.collectors = append(r.collectors, collectors...)
}

var described = regexp.MustCompile(`fqName: "([^"]*)", help: "([^"]*)",.* constLabels: \{([^}]*)\}, variableLabels: \{([^}]*)\}`)

// constant is a constant label.
var constant = regexp.MustCompile(`(\w+)="[^"]*"`)

// metric is a metric that the manager registers, with its labels separated by commas.
type metric struct{ name, kind, labels, help string }

// metricsPage is the reference of the metrics that the manager registers.
func metricsPage() (string, error) {
	metrics, err := metricsOf(registered())
	if err != nil {
		return "", err
	}
	var rows []string
	for _, m := range metrics {
		labels := m.labels
		if labels != "" {
			labels = "`" + strings.ReplaceAll(labels, ",", "`, `") + "`"
		}
		rows = append(rows, fmt.Sprintf("| `%s` | %s | %s | %s |\n", m.name, m.kind, labels, m.help))
	}
	slices.Sort(rows)
	return generated + "# Metrics\n\nThe manager's own metrics, served with those of controller-runtime. What to watch is in [Operate](../operate.md#metrics).\n\n" +
		"| metric | type | labels | meaning |\n|---|---|---|---|\n" + strings.Join(rows, ""), nil
}

// registered returns all collectors of the manager. The node agent has none.
func registered() []prometheus.Collector {
	var r recorder
	metrics.New(&r)
	nodeupgrade.NewMetrics(&r)
	drain.NewMetrics(&r)
	(&servingcert.Keeper{}).Register(&r)
	gcuresource.RegisterMetrics(&r, nil, nil)
	agents.Register(&r, nil, nil, nil)
	r.MustRegister(versioncollector.NewCollector("gcu_operator"))
	upgradeapi.NewRequestMetric(&r)
	notifier.RegisterMetrics(&r)
	return r.collectors
}

// metricsOf returns the metrics that collectors describe. An error means that a description cannot be read.
func metricsOf(collectors []prometheus.Collector) ([]metric, error) {
	var list []metric
	for _, collector := range collectors {
		kind := "gauge"
		own := false // a collector of ours does not say of which kind its metrics are
		switch collector.(type) {
		case *prometheus.CounterVec:
			kind = "counter"
		case *prometheus.HistogramVec:
			kind = "histogram"
		case *prometheus.GaugeVec:
		default:
			own = true
		}
		descriptions := make(chan *prometheus.Desc)
		go func() {
			defer close(descriptions)
			collector.Describe(descriptions)
		}()
		for description := range descriptions {
			m := described.FindStringSubmatch(description.String())
			if m == nil {
				return nil, fmt.Errorf("cannot parse the description of a metric: %s", description)
			}
			kind := kind
			if own && strings.HasSuffix(m[1], "_total") {
				kind = "counter"
			}
			// No metric has both kinds of labels.
			list = append(list, metric{name: m[1], kind: kind, labels: constant.ReplaceAllString(m[3], "$1") + m[4], help: m[2]})
		}
	}
	return list, nil
}
