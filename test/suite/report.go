package main

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// shownTests is the number of slowest tests in a report.
const shownTests = 20

// report prints the slowest tests, the skipped tests, a row for each step, and, where the
// end of a log shows them, the failed tests.
func report(w io.Writer, outcomes []outcome, took time.Duration) {
	var all []results
	for _, o := range outcomes {
		all = append(all, o.results)
	}
	sum := join(all)
	if slowest := sum.slowest(shownTests); len(slowest) > 0 {
		fmt.Fprintf(w, "\nThe slowest %d tests\n", len(slowest))
		for _, t := range slowest {
			fmt.Fprintln(w, t)
		}
	}
	if len(sum.skipped) > 0 {
		fmt.Fprintln(w, "\nSkipped")
		for _, t := range sum.skipped {
			fmt.Fprintln(w, t)
		}
	}
	fmt.Fprintf(w, "\n%-30s %8s %8s %7s %7s %8s  %s\n", "STEP", "TIME", "CPU", "PASSED", "FAILED", "SKIPPED", "RESULT")
	for _, o := range outcomes {
		fmt.Fprintf(w, "%-30s %8s %8s %7d %7d %8d  %s\n", o.name, o.took.Round(time.Second), o.cpu.Round(time.Second), o.passed, o.failed, len(o.skipped), o.says())
	}
	if len(sum.failures) > 0 {
		fmt.Fprintln(w, "\nFailed")
		for _, f := range sum.failures {
			fmt.Fprintln(w, f)
			for _, line := range f.output {
				fmt.Fprintf(w, "           %.400s\n", strings.TrimSpace(line))
			}
		}
	}
	fmt.Fprintf(w, "\nAll steps took %s\n%d passed, %d failed, %d skipped\n", took.Round(time.Second), sum.passed, sum.failed, len(sum.skipped))
}

// says returns the result of a step in one line.
func (o *outcome) says() string {
	if o.err == nil {
		return "ok: " + o.shows
	}
	return "FAILED: " + strings.ReplaceAll(o.err.Error(), "\n", "; ")
}
