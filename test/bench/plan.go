package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/topsops/gcu-operator/test/harness"
)

// planRuns is how often the Go benchmarks are repeated; the result is the median.
const planRuns = 5

// planTime is the median of one Go benchmark of the planner.
type planTime struct {
	// state of the fleet, as in the benchmark's name, and its size.
	state string
	nodes int
	took  time.Duration
	bytes int
}

// measurePlan runs the Go benchmarks of the planner.
func measurePlan(ctx context.Context, project harness.Project, r *report) error {
	command := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", "^Benchmark(Plan|Event)$",
		"-count", strconv.Itoa(planRuns), "-benchtime", "0.3s", "./pkg/daemonupdater/rollout")
	command.Dir = project.Root
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	output, err := command.CombinedOutput()
	if err != nil {
		return fmt.Errorf("running the Go benchmarks: %w: %s", err, output)
	}
	r.plan = planTimes(string(output))
	if len(r.plan) == 0 {
		return fmt.Errorf("the Go benchmarks printed no result: %s", output)
	}
	return nil
}

var benchmarkLine = regexp.MustCompile(`^Benchmark(?:Plan|Event)/(\w+)/(\d+)_nodes\S*\s+\d+\s+([\d.]+) ns/op\s+(\d+) B/op`)

// planTimes reads the output of go test -bench, benchmarks in their order.
func planTimes(output string) []planTime {
	var order []planTime
	runs := map[planTime][]planTime{}
	for line := range strings.Lines(output) {
		m := benchmarkLine.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		nodes, err1 := strconv.Atoi(m[2])
		nanoseconds, err2 := strconv.ParseFloat(m[3], 64)
		bytes, err3 := strconv.Atoi(m[4])
		if err1 != nil || err2 != nil || err3 != nil {
			continue // cannot happen: the pattern matches only digits
		}
		key := planTime{state: m[1], nodes: nodes}
		if runs[key] == nil {
			order = append(order, key)
		}
		runs[key] = append(runs[key], planTime{m[1], nodes, time.Duration(nanoseconds), bytes})
	}
	for i, key := range order {
		order[i] = medianOf(runs[key], func(p planTime) float64 { return float64(p.took) })
	}
	return order
}
