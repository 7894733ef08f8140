package metrics

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// rollbacks counts the rollbacks of groups. The first scrape of a group shows zero, whatever happened before it: increase() needs
// a zero before the first event, and a new leader may roll back in its first pass. The next scrape shows the event.
type rollbacks struct {
	description *prometheus.Desc

	mutex  sync.Mutex
	counts map[string]*rollbackCount
}

// rollbackCount is the count of a group; shown is true once it was scraped.
type rollbackCount struct {
	count float64
	shown bool
}

func newRollbacks() *rollbacks {
	return &rollbacks{counts: map[string]*rollbackCount{}, description: prometheus.NewDesc("gcu_rollout_rollbacks_total",
		"Rollbacks to the last known good revision by failure.action of a policy.", []string{"rollout"}, nil)}
}

// add creates the series of a group, and adds rollbacks to it.
func (r *rollbacks) add(group string, count float64) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.counts[group] == nil {
		r.counts[group] = &rollbackCount{}
	}
	r.counts[group].count += count
}

// forget removes the series of a group.
func (r *rollbacks) forget(group string) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	delete(r.counts, group)
}

// Describe implements prometheus.Collector.
func (r *rollbacks) Describe(descriptions chan<- *prometheus.Desc) { descriptions <- r.description }

// Collect implements prometheus.Collector.
func (r *rollbacks) Collect(metrics chan<- prometheus.Metric) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for group, c := range r.counts {
		value := 0.0
		if c.shown {
			value = c.count
		}
		c.shown = true
		metrics <- prometheus.MustNewConstMetric(r.description, prometheus.CounterValue, value, group)
	}
}
