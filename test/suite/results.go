package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"
)

// event is a line of go test -json.
type event struct {
	Action  string
	Package string
	Test    string
	// Elapsed is in seconds.
	Elapsed float64
	// Output is what it printed, if Action is "output".
	Output string
}

// timed is a test or subtest with its duration.
type timed struct {
	Package, Test string
	Took          time.Duration
}

func (t timed) String() string {
	return fmt.Sprintf("%8.1fs  %s %s", t.Took.Seconds(), t.Package, t.Test)
}

// results are the results of the tests of a step.
type results struct {
	passed, failed int
	skipped        []timed
	// tests are all tests that ended, including subtests.
	tests []timed
	// failures are the reasons why tests failed: a test is omitted if one of its subtests
	// is listed.
	failures []failure
}

// failure is a failed test, or a package that failed without one.
type failure struct {
	timed
	// output are the last lines that it logged, or that it printed if it logged nothing,
	// without those of its subtests.
	output []string
}

// shownLines is the number of lines of a failure.
const shownLines = 12

// logged matches the first line of what a test logged. Continuation lines are indented by continued.
var logged = regexp.MustCompile(`^ +\w+\.go:\d+: `)

const continued = "        "

// read reads the output of go test -json. A line that is not an event is an error.
func read(in io.Reader) (results, error) {
	var r results
	output := map[timed]*strings.Builder{} // go test -json prints a long line as several events
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return results{}, fmt.Errorf("reading the results of go test: %w: %.80q", err, lines.Text())
		}
		t := timed{Package: e.Package, Test: e.Test}
		if output[t] == nil {
			output[t] = &strings.Builder{}
		}
		if e.Action == "output" {
			output[t].WriteString(e.Output)
			continue
		}
		r.add(e, output[t].String())
	}
	return r, lines.Err()
}

// add counts a test that ended, and what it printed.
func (r *results) add(e event, output string) {
	t := timed{Package: e.Package, Test: e.Test, Took: time.Duration(e.Elapsed * float64(time.Second))}
	if e.Action == "fail" && !slices.ContainsFunc(r.failures, t.within) {
		r.failures = append(r.failures, failure{t, last(output)})
	}
	if e.Test == "" { // a package
		return
	}
	switch e.Action {
	case "pass":
		r.passed++
	case "fail":
		r.failed++
	case "skip":
		r.skipped = append(r.skipped, t)
	default:
		return
	}
	r.tests = append(r.tests, t)
}

// last returns the lines to show of what a failed test printed. A program that another test
// runs at the same time may have printed between them.
func last(output string) []string {
	var said []string
	inside := false
	printed := slices.DeleteFunc(strings.Split(output, "\n"), func(line string) bool { return line == "" || strings.HasPrefix(line, "=== ") })
	for _, line := range printed {
		if inside = logged.MatchString(line) || inside && strings.HasPrefix(line, continued); inside {
			said = append(said, line)
		}
	}
	if said == nil {
		said = printed
	}
	return said[max(0, len(said)-shownLines):]
}

// within reports whether f is a subtest of t, or a test of t if t is a package.
func (t timed) within(f failure) bool {
	return f.Package == t.Package && (t.Test == "" || strings.HasPrefix(f.Test, t.Test+"/"))
}

// join merges the results of all steps.
func join(all []results) results {
	var sum results
	for _, r := range all {
		sum.passed += r.passed
		sum.failed += r.failed
		sum.skipped = append(sum.skipped, r.skipped...)
		sum.tests = append(sum.tests, r.tests...)
		sum.failures = append(sum.failures, r.failures...)
	}
	return sum
}

// slowest returns the n slowest tests, the slowest first. A test is omitted if one of
// its subtests is listed.
func (r *results) slowest(n int) []timed {
	parents := map[timed]bool{}
	for _, t := range r.tests {
		for name := t.Test; ; {
			i := strings.LastIndex(name, "/")
			if i < 0 {
				break
			}
			name = name[:i]
			parents[timed{Package: t.Package, Test: name}] = true
		}
	}
	var leaves []timed
	for _, t := range r.tests {
		if !parents[timed{Package: t.Package, Test: t.Test}] {
			leaves = append(leaves, t)
		}
	}
	slices.SortFunc(leaves, func(a, b timed) int {
		return cmp.Or(cmp.Compare(b.Took, a.Took), cmp.Compare(a.Package, b.Package), cmp.Compare(a.Test, b.Test))
	})
	return leaves[:min(n, len(leaves))]
}

// Reasons why a step fails although its program succeeded.
var (
	errSkipped = errors.New("tests were skipped")
	errNoTests = errors.New("no test ran")
)

// complete returns an error if tests were skipped or no test ran.
func (r *results) complete() error {
	switch {
	case len(r.skipped) > 0:
		names := make([]string, len(r.skipped))
		for i, t := range r.skipped {
			names[i] = t.Package + " " + t.Test
		}
		return fmt.Errorf("%w: %s", errSkipped, strings.Join(names, "; "))
	case r.passed+r.failed == 0:
		return errNoTests
	}
	return nil
}
