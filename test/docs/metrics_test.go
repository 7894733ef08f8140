package main

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/utils/ptr"
)

// lint returns what promlint says of the names, helps and labels of collectors.
func lint(t *testing.T, collectors []prometheus.Collector) []promlint.Problem {
	t.Helper()
	metrics, err := metricsOf(collectors)
	if err != nil {
		t.Fatal(err)
	}
	types := map[string]*dto.MetricType{"gauge": dto.MetricType_GAUGE.Enum(), "counter": dto.MetricType_COUNTER.Enum(), "histogram": dto.MetricType_HISTOGRAM.Enum()}
	var families []*dto.MetricFamily
	for _, m := range metrics {
		one := &dto.Metric{}
		for _, label := range strings.Split(m.labels, ",") {
			one.Label = append(one.Label, &dto.LabelPair{Name: ptr.To(label), Value: ptr.To("x")})
		}
		families = append(families, &dto.MetricFamily{Name: ptr.To(m.name), Help: ptr.To(m.help), Type: types[m.kind], Metric: []*dto.Metric{one}})
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil {
		t.Fatal(err)
	}
	return problems
}

func TestTheNamesOfAllMetricsAreGood(t *testing.T) {
	if problems := lint(t, registered()); len(problems) > 0 {
		t.Errorf("promlint: %v", problems)
	}
	bad := []prometheus.Collector{
		prometheus.NewCounterVec(prometheus.CounterOpts{Name: "gcu_tries", Help: "A counter without _total."}, []string{"rollout"}),
		prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "gcu_wait_minutes", Help: "A time that is not in seconds."}, []string{"rollout"}),
		prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "gcu_nodes", Help: "A label in camel case."}, []string{"nodeName"}),
	}
	for i := range bad {
		if len(lint(t, bad[i:i+1])) == 0 {
			t.Errorf("promlint finds nothing in bad metric %d", i)
		}
	}
}
