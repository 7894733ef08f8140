package servingcert

import "github.com/prometheus/client_golang/prometheus"

// expiry is the metric of the certificate that a Keeper serves.
type expiry struct {
	keeper *Keeper
	desc   *prometheus.Desc
}

// Register registers the metric of the serving certificate; there is no value before the first one.
// Like client_golang, it panics if it is already registered.
func (k *Keeper) Register(registerer prometheus.Registerer) {
	registerer.MustRegister(expiry{k, prometheus.NewDesc("gcu_operator_certificate_expiry_timestamp_seconds",
		"Expiry of the certificate of the REST API and the metrics; absent with user-provided certificates.", nil, nil)})
}

// Describe implements prometheus.Collector.
func (e expiry) Describe(descs chan<- *prometheus.Desc) { descs <- e.desc }

// Collect implements prometheus.Collector.
func (e expiry) Collect(metrics chan<- prometheus.Metric) {
	if serving := e.keeper.serving.Load(); serving != nil {
		metrics <- prometheus.MustNewConstMetric(e.desc, prometheus.GaugeValue, float64(serving.Leaf.NotAfter.Unix()))
	}
}
