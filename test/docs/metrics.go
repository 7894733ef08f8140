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

// metricsPage is the reference of the metrics that the manager registers.
func metricsPage() (string, error) {
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
	var rows []string
	for _, collector := range r.collectors {
		kind := "gauge"
		switch collector.(type) {
		case *prometheus.CounterVec:
			kind = "counter"
		case *prometheus.HistogramVec:
			kind = "histogram"
		}
		descriptions := make(chan *prometheus.Desc)
		go func() {
			defer close(descriptions)
			collector.Describe(descriptions)
		}()
		for description := range descriptions {
			m := described.FindStringSubmatch(description.String())
			if m == nil {
				return "", fmt.Errorf("cannot parse the description of a metric: %s", description)
			}
			labels := constant.ReplaceAllString(m[3], "$1")
			if labels += m[4]; labels != "" { // no metric has both
				labels = "`" + strings.ReplaceAll(labels, ",", "`, `") + "`"
			}
			rows = append(rows, fmt.Sprintf("| `%s` | %s | %s | %s |\n", m[1], kind, labels, m[2]))
		}
	}
	slices.Sort(rows)
	return generated + "# Metrics\n\nThe manager's own metrics, served with those of controller-runtime. What to watch is in [Operate](../operate.md#metrics).\n\n" +
		"| metric | type | labels | meaning |\n|---|---|---|---|\n" + strings.Join(rows, ""), nil
}
