//go:build soak

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// What is measured. The counts of objects have the names of their resources, after objectsOf.
const (
	memoryMB   = "memory MB"
	goroutines = "goroutines"
	openFiles  = "open files"
	logFiles   = "log files"
	watches    = "watches"
	ledgerKB   = "ledger KB"
	objectsOf  = "objects: "
)

// sample is what was measured at a time.
type sample struct {
	at     time.Duration
	values map[string]float64
}

// allowed returns how much the median of the last quarter may be, of what it was in the second. A heap
// varies with its collections; if each of the 7000 pods that are replaced in between, in 90 minutes, left 4 KB
// behind, it would grow by more than 20 % and 10 MB. Of the rest, the nodes and the manager that are away
// for the moment are less than 5 % and 10. What each of the 45 rollouts in between leaves behind is
// more, and there are more kills, cuts and new nodes.
func allowed(name string, before float64) float64 {
	switch name {
	case memoryMB:
		return before*1.2 + 10
	case objectsOf + "events":
		return math.Inf(1) // kept for an hour, by the API server
	}
	return before*1.05 + 10
}

// sample measures the surviving manager, before there is one the first, and the API server.
func (s *soak) sample(ctx context.Context, at time.Duration) {
	s.t.Helper()
	s.withinBudget()
	m := s.managers[0]
	if s.survivor != nil {
		m = s.survivor
	}
	values := map[string]float64{}
	if own, err := metricsOf(ctx, m.now().URL+"/metrics"); err == nil { // else it has just been killed
		values[memoryMB], values[goroutines], values[openFiles] = own["process_resident_memory_bytes"]/(1<<20), own["go_goroutines"], own["process_open_fds"]
	}
	text, err := s.stage.Kubectl(ctx, "get", "--raw", "/metrics")
	if err != nil {
		s.t.Fatal(err)
	}
	families, err := parse(text)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, metric := range families["apiserver_longrunning_requests"].GetMetric() {
		if label(metric, "verb") == "WATCH" {
			values[watches] += metric.GetGauge().GetValue()
		}
	}
	for _, metric := range families["apiserver_resource_objects"].GetMetric() {
		if n := metric.GetGauge().GetValue(); n > 0 {
			values[objectsOf+label(metric, "resource")] += n
		}
	}
	ledger, err := s.rollout(ctx)
	if err != nil {
		s.t.Fatal(err)
	}
	stored, err := json.Marshal(ledger)
	if err != nil {
		s.t.Fatal(err)
	}
	values[ledgerKB] = float64(len(stored)) / 1024
	for _, m := range s.managers {
		files, err := os.ReadDir(m.logs)
		if err != nil {
			s.t.Fatal(err)
		}
		values[logFiles] += float64(len(files))
	}
	s.samples = append(s.samples, sample{at, values})
}

// report prints a line of progress.
func (s *soak) report(now time.Duration) {
	v := s.samples[len(s.samples)-1].values
	s.say("%3.0fm: %d rollouts, %d complete; %d nodes, %d offline; %d kills, %d cuts; at most %d down; %.0f MB, %.0f goroutines, %.0f open files, %.0f watches, %.0f pods, %.0f leases, %.0f events, ledger %.1f KB",
		now.Minutes(), s.version-1, s.complete, len(s.online)+len(s.offline), len(s.offline), s.kills, s.cuts, s.most,
		v[memoryMB], v[goroutines], v[openFiles], v[watches], v[objectsOf+"pods"], v[objectsOf+"leases"], v[objectsOf+"events"], v[ledgerKB])
}

// judge compares the last quarter with the second, and prints what it compares.
func (s *soak) judge(length time.Duration) {
	s.t.Helper()
	names := map[string]bool{}
	for _, one := range s.samples {
		for name := range one.values {
			names[name] = true
		}
	}
	s.say("%-50s %10s %10s %10s", "MEDIAN OF", "2ND QUARTER", "LAST", "ALLOWED")
	for _, name := range slices.Sorted(maps.Keys(names)) {
		before, after := s.median(name, length/4, length/2), s.median(name, length*3/4, length)
		if before == after && strings.HasPrefix(name, objectsOf) {
			continue
		}
		bound := allowed(name, before)
		s.say("%-50s %10.1f %10.1f %10.1f", name, before, after, bound)
		if !(after <= bound) { // not a number: not measured
			s.t.Errorf("%s: the median grew from %.1f in the second quarter to %.1f in the last, at most %.1f", name, before, after, bound)
		}
	}
	s.say("at most %d nodes were down at once, of %d; the manager that was not killed ended by itself %d times", s.most, soakBudget, s.ended)
	if line, err := s.panicked(); err != nil || line != "" {
		s.t.Errorf("a manager ended with %q (%v)", line, err)
	}
	if s.kills == 0 || s.cuts == 0 || s.created == soakNodes { // as the seed has it, whatever the machine's speed
		s.t.Errorf("%d kills, %d cuts, %d nodes that joined: the test is inconclusive, try another seed", s.kills, s.cuts, s.created-soakNodes)
	}
}

// median returns the median of a value in a period; what no sample has is NaN, and what some have counts as
// zero in the others.
func (s *soak) median(name string, from, to time.Duration) float64 {
	var values []float64
	for _, one := range s.samples {
		value, measured := one.values[name]
		if one.at >= from && one.at < to && (measured || strings.HasPrefix(name, objectsOf)) {
			values = append(values, value)
		}
	}
	if len(values) == 0 {
		return math.NaN()
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// metricsOf returns the sums of a manager's gauges by name.
func metricsOf(ctx context.Context, url string) (map[string]float64, error) {
	text, err := get(ctx, url)
	if err != nil {
		return nil, err
	}
	families, err := parse(text)
	sums := map[string]float64{}
	for name, family := range families {
		for _, metric := range family.GetMetric() {
			sums[name] += metric.GetGauge().GetValue()
		}
	}
	return sums, err
}

func parse(text string) (map[string]*dto.MetricFamily, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("reading metrics: %w", err)
	}
	return families, nil
}

func label(metric *dto.Metric, name string) string {
	for _, pair := range metric.GetLabel() {
		if pair.GetName() == name {
			return pair.GetValue()
		}
	}
	return ""
}
