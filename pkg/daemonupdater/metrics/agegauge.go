package metrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// ageGauge is a gauge per rollout whose value is the age of a time at the scrape, so it grows
// while nothing happens.
type ageGauge struct {
	desc  *prometheus.Desc
	clock func() time.Time

	mu     sync.Mutex
	moment map[string]time.Time
}

func newAgeGauge(name, help string, clock func() time.Time) *ageGauge {
	return &ageGauge{desc: prometheus.NewDesc(name, help, []string{"rollout"}, nil), clock: clock, moment: map[string]time.Time{}}
}

// set sets the time of a rollout; the zero time removes its series.
func (a *ageGauge) set(rollout string, moment time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if moment.IsZero() {
		delete(a.moment, rollout)
		return
	}
	a.moment[rollout] = moment
}

// Describe implements prometheus.Collector.
func (a *ageGauge) Describe(descs chan<- *prometheus.Desc) { descs <- a.desc }

// Collect implements prometheus.Collector.
func (a *ageGauge) Collect(metrics chan<- prometheus.Metric) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for rollout, moment := range a.moment {
		metrics <- prometheus.MustNewConstMetric(a.desc, prometheus.GaugeValue, a.clock().Sub(moment).Seconds(), rollout)
	}
}
