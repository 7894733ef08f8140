package metrics

import (
	"maps"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// counter counts events of groups, some by reason. The first scrape of a series shows zero, whatever happened before it:
// increase() needs a zero before the first event, and a new leader may act in its first pass. The next scrape shows the event.
type counter struct {
	description *prometheus.Desc

	mutex  sync.Mutex
	counts map[series]*count
}

// series is one of a counter, by its labels; there is no reason if the counter has no such label.
type series struct{ group, reason string }

// count is that of a series; shown is true once it was scraped.
type count struct {
	value float64
	shown bool
}

func newCounter(name, help string, labels ...string) *counter {
	return &counter{counts: map[series]*count{}, description: prometheus.NewDesc(name, help, append([]string{"rollout"}, labels...), nil)}
}

// add creates a series, and adds events to it.
func (c *counter) add(s series, events float64) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.counts[s] == nil {
		c.counts[s] = &count{}
	}
	c.counts[s].value += events
}

// forget removes the series of a group.
func (c *counter) forget(group string) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	maps.DeleteFunc(c.counts, func(s series, _ *count) bool { return s.group == group })
}

// Describe implements prometheus.Collector.
func (c *counter) Describe(descriptions chan<- *prometheus.Desc) { descriptions <- c.description }

// Collect implements prometheus.Collector.
func (c *counter) Collect(metrics chan<- prometheus.Metric) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for s, n := range c.counts {
		value := 0.0
		if n.shown {
			value = n.value
		}
		n.shown = true
		labels := []string{s.group}
		if s.reason != "" {
			labels = append(labels, s.reason)
		}
		metrics <- prometheus.MustNewConstMetric(c.description, prometheus.CounterValue, value, labels...)
	}
}
