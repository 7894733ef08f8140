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
	machine string
	began   time.Time
	pairs   []pair
	results []result
}

// result is that of a case which is not a race.
type result interface{ verdicts() []verdict }

// tabled is a result of which tables say more than its verdicts.
type tabled interface{ tables(out io.Writer) }

// print writes the tables.
func (r *report) print(out io.Writer) {
	fmt.Fprintf(out, "\nMeasured %s on %s.\n", r.began.UTC().Format("2006-01-02 15:04 MST"), r.machine)
	if len(r.pairs) > 0 {
		fmt.Fprint(out, "\nRollouts, one line per repetition; column first is the one that was rolled first:\n\n")
		r.printRaces(out)
		fmt.Fprint(out, "\nResources used by our manager:\n\n")
		r.printUsage(out)
	}
	list := judgeRaces(r.pairs)
	for _, result := range r.results {
		if t, ok := result.(tabled); ok {
			t.tables(out)
		}
		list = append(list, result.verdicts()...)
	}
	fmt.Fprint(out, "\nTargets:\n\n")
	t := table{{"target", "measured", "verdict"}}
	for _, v := range list {
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
