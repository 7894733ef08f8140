package main

import (
	"context"
	"fmt"
	"io"
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

// planTimes are those of all benchmarks.
type planTimes []planTime

// measurePlan runs the Go benchmarks of the planner.
func measurePlan(ctx context.Context, project harness.Project, _ options, r *report, _ io.Writer) error {
	command := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", "^Benchmark(Plan|Event)$",
		"-count", strconv.Itoa(planRuns), "-benchtime", "0.3s", "./pkg/daemonupdater/rollout")
	command.Dir = project.Root
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	output, err := command.CombinedOutput()
	if err != nil {
		return fmt.Errorf("running the Go benchmarks: %w: %s", err, output)
	}
	times := planTimesIn(string(output))
	r.results = append(r.results, times)
	if len(times) == 0 {
		return fmt.Errorf("the Go benchmarks printed no result: %s", output)
	}
	return nil
}

var benchmarkLine = regexp.MustCompile(`^Benchmark(?:Plan|Event)/(\w+)/(\d+)_nodes\S*\s+\d+\s+([\d.]+) ns/op\s+(\d+) B/op`)

// planTimesIn reads the output of go test -bench, benchmarks in their order.
func planTimesIn(output string) (order planTimes) {
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

func (times planTimes) tables(out io.Writer) {
	fmt.Fprintf(out, "\nOne decision of the planner (median of %d):\n\n", planRuns)
	t := table{{"fleet", "nodes", "time", "allocated"}}
	for _, p := range times {
		t.add(strings.ReplaceAll(p.state, "_", " "), fmt.Sprint(p.nodes), p.took.Round(time.Microsecond).String(), fmt.Sprintf("%.1f MB", float64(p.bytes)/1e6))
	}
	t.print(out)
}

// fixedBudget is the name of the benchmark of one node's event with a fixed budget:
// with a percentage the nodes in flight would grow with the fleet.
const fixedBudget = "budget_50"

func (times planTimes) verdicts() []verdict {
	var worst time.Duration
	one := map[int]time.Duration{}
	for _, p := range times {
		if p.nodes == 10000 {
			worst = max(worst, p.took)
		}
		if p.state == fixedBudget {
			one[p.nodes] = p.took
		}
	}
	if worst == 0 || one[1000] == 0 {
		return nil
	}
	growth := float64(one[10000]) / float64(one[1000])
	return []verdict{
		{"plan: 10 000 nodes in at most 10 ms", fmt.Sprintf("%.1f ms at worst", milliseconds(worst)), worst <= maxPlan},
		{"plan: one node's event costs no work proportional to the fleet",
			fmt.Sprintf("%s at 1000 nodes, %s at 10 000", one[1000], one[10000]), growth <= maxGrowth},
	}
}
