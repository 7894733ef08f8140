package main

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
)

// report contains all results.
type report struct {
	machine  string
	began    time.Time
	pairs    []pair
	churn    *churn
	quiet    *idleUsage
	plan     []planTime
	gr       *unchanged
	api      *apiLoad
	agent    *agentUse
	attacked *attacked
	bodies   *slowBodies
	// successions are those of the leader.
	successions []*succession
}

// print writes the tables.
func (r *report) print(out io.Writer) {
	fmt.Fprintf(out, "\nMeasured %s on %s.\n", r.began.UTC().Format("2006-01-02 15:04 MST"), r.machine)
	if len(r.pairs) > 0 {
		fmt.Fprint(out, "\nRollouts, one line per repetition; column first is the one that was rolled first:\n\n")
		r.printRaces(out)
		fmt.Fprint(out, "\nResources used by our manager:\n\n")
		r.printUsage(out)
	}
	if len(r.plan) > 0 {
		fmt.Fprintf(out, "\nOne decision of the planner (median of %d):\n\n", planRuns)
		t := table{{"fleet", "nodes", "time", "allocated"}}
		for _, p := range r.plan {
			t.add(strings.ReplaceAll(p.state, "_", " "), fmt.Sprint(p.nodes), p.took.Round(time.Microsecond).String(), fmt.Sprintf("%.1f MB", float64(p.bytes)/1e6))
		}
		t.print(out)
	}
	if f := r.gr; f != nil {
		fmt.Fprint(out, "\nA GcuResource with five components, unchanged:\n\n")
		t := table{{"nodes", "deployed in", "passes", "CPU per pass, all controllers", "writes", "requests", "memory", "peak"}}
		t.add(fmt.Sprint(f.nodes), fmt.Sprintf("%.0f s", f.deployed.Seconds()), fmt.Sprint(f.passes), fmt.Sprintf("%.2f ms", milliseconds(f.perPass())),
			fmt.Sprint(f.writes()), methods(f.used), megabytes(f.used.rss), megabytes(f.used.peak))
		t.print(out)
	}
	if l := r.api; l != nil {
		fmt.Fprintf(out, "\nThe REST API, mode none; the manager used %.1f s of CPU and %s at its peak:\n\n", l.used.cpu.Seconds(), megabytes(l.used.peak))
		t := table{{"requests", "company", "sent", "answered per second", "median", "p99", "p99 of a round"}}
		for in := range companies {
			for _, row := range []struct {
				what string
				s    served
			}{{"GET", l.gets[in]}, {"PUT, dry run", l.puts[in]}} {
				t.add(row.what, in.String(), fmt.Sprint(row.s.sent), fmt.Sprintf("%.1f", row.s.perSecond), fmt.Sprintf("%.1f ms", milliseconds(row.s.median)),
					fmt.Sprintf("%.1f ms", milliseconds(row.s.p99)), fmt.Sprintf("%.1f ms", milliseconds(row.s.typical())))
			}
		}
		t.print(out)
	}
	if a := r.agent; a != nil {
		fmt.Fprintf(out, "\nOne node agent; %d requests, one after the other:\n\n", len(a.deleted))
		t := table{{"idle CPU", "idle memory", "peak", "writes while idle", "POST to answer, median", "p99", "POST to deletion, median", "p99", "machine busy before"}}
		t.add(fmt.Sprintf("%.1f mCPU", a.milliCPU()), megabytes(a.rss), megabytes(a.peak), fmt.Sprint(a.writes),
			fmt.Sprintf("%.0f ms", milliseconds(quantile(a.answered, 50))), fmt.Sprintf("%.0f ms", milliseconds(quantile(a.answered, 99))),
			fmt.Sprintf("%.0f ms", milliseconds(quantile(a.deleted, 50))), fmt.Sprintf("%.0f ms", milliseconds(quantile(a.deleted, 99))),
			fmt.Sprintf("%.0f %%", 100*a.busy))
		t.print(out)
	}
	fmt.Fprint(out, "\nTargets:\n\n")
	t := table{{"target", "measured", "verdict"}}
	for _, v := range r.verdicts() {
		t.add(v.target, v.measured, v.word())
	}
	t.print(out)
}

func (r *report) printRaces(out io.Writer) {
	t := table{{"case", "nodes", "budget", "first", "ours", "RollingUpdate", "ratio", "most down ours / theirs", "on average", "mean restart", "bound", "machine busy before"}}
	for _, p := range r.pairs {
		ratio := "-"
		if p.mine.complete && p.other.complete {
			ratio = fmt.Sprintf("%.2f", p.ratio())
		}
		t.add(p.race.title, fmt.Sprint(p.race.nodes), fmt.Sprint(p.race.budget()), p.first, p.mine.time(), p.other.time(), ratio,
			fmt.Sprintf("%d / %d", p.mine.most, p.other.most), fmt.Sprintf("%.1f / %.1f", p.mine.mean, p.other.mean),
			fmt.Sprintf("%.2f s / %.2f s", p.mine.restart.Seconds(), p.other.restart.Seconds()),
			fmt.Sprintf("%.1f s", p.race.bound(p.mine.restart).Seconds()),
			fmt.Sprintf("%.0f %%", 100*p.busy))
	}
	t.print(out)
}

func (r *report) printUsage(out io.Writer) {
	t := table{{"case", "pods replaced", "deletes per pod", "other writes per pod", "by method", "CPU ours", "CPU during RollingUpdate", "memory", "peak"}}
	for _, p := range r.pairs {
		u := p.mine.used
		t.add(p.race.title, fmt.Sprint(p.mine.deleted), fmt.Sprintf("%.2f", p.mine.perPod(u.requests[http.MethodDelete])),
			fmt.Sprintf("%.2f", p.mine.perPod(u.otherWrites())), methods(u), fmt.Sprintf("%.1f s", u.cpu.Seconds()),
			fmt.Sprintf("%.1f s", p.other.used.cpu.Seconds()), megabytes(u.rss), megabytes(u.peak))
	}
	t.print(out)
}

// time returns the duration, or how far the rollout got.
func (r roll) time() string {
	if r.complete {
		return fmt.Sprintf("%.1f s", r.done.Seconds())
	}
	return fmt.Sprintf("stuck, %d updated", r.updated)
}

func (p *pair) ratio() float64 { return p.mine.done.Seconds() / p.other.done.Seconds() }

// methods lists requests by method, with renewals of the lease separately.
func methods(u usage) string {
	words := []string{}
	for _, m := range []string{http.MethodGet, http.MethodDelete, http.MethodPost, http.MethodPut, http.MethodPatch} {
		n := u.requests[m]
		if m == http.MethodPut {
			n -= u.renewals
		}
		if n != 0 {
			words = append(words, fmt.Sprintf("%s %d", m, n))
		}
	}
	return strings.Join(append(words, fmt.Sprintf("lease %d", u.renewals)), ", ")
}

func megabytes(bytes int64) string { return fmt.Sprintf("%.0f MB", float64(bytes)/1e6) }

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// medianOf returns the middle element; list must not be empty.
func medianOf[T any](list []T, of func(T) float64) T {
	sorted := slices.Clone(list)
	slices.SortFunc(sorted, func(a, b T) int { return cmp.Compare(of(a), of(b)) })
	return sorted[len(sorted)/2]
}

// table is a Markdown table, header first.
type table [][]string

func (t *table) add(cells ...string) { *t = append(*t, cells) }

func (t table) print(out io.Writer) {
	widths := make([]int, len(t[0]))
	for _, row := range t {
		for i, cell := range row {
			widths[i] = max(widths[i], len([]rune(cell)))
		}
	}
	for i, row := range t {
		for j, cell := range row {
			fmt.Fprintf(out, "| %-*s ", widths[j], cell)
		}
		fmt.Fprintln(out, "|")
		if i == 0 {
			for _, w := range widths {
				fmt.Fprintf(out, "|%s", strings.Repeat("-", w+2))
			}
			fmt.Fprintln(out, "|")
		}
	}
}
