package gcuresource

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// collectTimeout bounds the wait for a cache that is not synchronized.
const collectTimeout = time.Second

// resources collects metrics of the GcuResources in a cache.
type resources struct {
	cache                client.Reader
	elected              <-chan struct{}
	condition, component *prometheus.Desc
}

// RegisterMetrics registers the metrics of the GcuResources in a cache. They have values once elected
// is closed, so that only one manager has them. Like client_golang, it panics if they are already
// registered.
func RegisterMetrics(registerer prometheus.Registerer, cache client.Reader, elected <-chan struct{}) {
	registerer.MustRegister(&resources{cache: cache, elected: elected,
		condition: prometheus.NewDesc("gcu_resource_condition", "1 when a standard condition of a GcuResource is true, 0 when it is false; absent when it is unknown.",
			[]string{"gcuresource", "condition"}, nil),
		component: prometheus.NewDesc("gcu_resource_component_running", "1 when a component of a GcuResource runs on every node where it should, else 0.",
			[]string{"gcuresource", "component"}, nil)})
}

// Describe implements prometheus.Collector.
func (r *resources) Describe(descs chan<- *prometheus.Desc) {
	descs <- r.condition
	descs <- r.component
}

// Collect implements prometheus.Collector.
func (r *resources) Collect(metrics chan<- prometheus.Metric) {
	select {
	case <-r.elected:
	default:
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), collectTimeout)
	defer cancel()
	var list topsv1.GcuResourceList
	if err := r.cache.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return // the cache is not synchronized: nothing is known yet
	}
	gauge := func(desc *prometheus.Desc, is bool, labels ...string) {
		value := 0.0
		if is {
			value = 1
		}
		metrics <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	for i := range list.Items {
		gr := &list.Items[i]
		for _, c := range gr.Status.StandardConditions {
			if c.Status != metav1.ConditionUnknown {
				gauge(r.condition, c.Status == metav1.ConditionTrue, gr.Name, c.Type)
			}
		}
		for _, component := range gr.Status.ResourceStatuses {
			gauge(r.component, component.Status == topsv1.PhaseRunning, gr.Name, component.Name)
		}
	}
}
