// Mutants tests the tests: it applies seeded defects to the code that plans and rolls out
// upgrades, each separately and without changing the source tree, and fails unless the
// tests catch every one: first the test that caught it last (caught.tsv, which the run
// updates), then those of the file's package, then those of the packages beside it, the one
// that they are below first, then its own with an API server (KUBEBUILDER_ASSETS), then
// those of all packages that depend on it, and last the simulations with all their seeds.
// Each is tried on all defects that are left before the next one is. All defects are compiled
// at once, and the environment of a test says which one it has: that takes a tenth of the time.
//
//	mutants [NAME...]
//
// Each defect is a known mistake of upgrade controllers, or a reversed rule of design
// section 3 or 4.
package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

// packages are the packages whose tests must catch the defects.
var packages = []string{"./pkg/daemonset/...", "./pkg/daemonupdater/...", "./pkg/upgradeplan/...", "./pkg/drain/...", "./pkg/podreplace", "./pkg/apiclock", "./pkg/nodeupgrade/...", "./pkg/gcucli/...", "./pkg/upgradeapi/...", "./pkg/ota/...", "./pkg/preview/...", "./pkg/servedschema", "./pkg/servingcert", "./pkg/admission", "./pkg/connections", "./pkg/gcuresource/...", "./pkg/hostagent/...", "./pkg/hosttasks/...", "./pkg/journal", "./pkg/nodeapi", "./pkg/transform", "./pkg/strictyaml", "./cmd/..."}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "mutants: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, only []string) error {
	chosen, err := choose(only)
	if err != nil {
		return err
	}
	changes, err := changesOf(".", chosen)
	if err != nil {
		return err
	}
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		return errors.New("KUBEBUILDER_ASSETS is not set, without which every test on an API server fails, and so catches everything: use make mutants")
	}
	caught, err := readRecord(recordPath)
	if err != nil {
		return err
	}
	all, err := dependents(ctx)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "gcu-mutants-")
	if err != nil {
		return fmt.Errorf("making a folder: %w", err)
	}
	defer os.RemoveAll(dir)
	r := runner{dir: dir, overlay: filepath.Join(dir, "overlay.json")}
	if err := writeOverlay(r.overlay, changes); err != nil {
		return err
	}
	var known, open []*trial
	for i, c := range changes {
		t := &trial{change: c, number: i + 1, left: c.steps(all)}
		if last, ok := caught.of(c.name); ok {
			t.left = append([]step{{"caught as before", last.attempt()}}, t.left...)
			known = append(known, t)
		}
		open = append(open, t)
	}
	if err := r.compile(ctx, known); err != nil {
		return err
	}
	return play(ctx, r, known, open, caught)
}

// play tries first, on the defects of which it is known, the test that caught them last, and then takes
// the next step of all that are still open, in rounds, so that a defect that is hard to catch delays none
// that is not. It returns an error if a defect survives, or if a test fails without any.
func play(ctx context.Context, r runner, known, open []*trial, caught *record) error {
	var tried, survived atomic.Int64
	round := func(trials []*trial) error {
		var group errgroup.Group
		group.SetLimit(runtime.NumCPU())
		for _, t := range trials {
			group.Go(func() error {
				begin := time.Now()
				err := t.step(ctx, r, caught)
				if t.took += time.Since(begin); err != nil || t.by == "" {
					return err
				}
				if t.uncaught {
					survived.Add(1)
				}
				fmt.Printf("%3d/%d %-28s %s: %s (%s)\n", tried.Add(1), len(open), t.by, t.name, t.says, t.took.Round(100*time.Millisecond))
				return nil
			})
		}
		return group.Wait()
	}
	if err := round(known); err != nil {
		return err
	}
	isCaught := func(t *trial) bool { return t.by != "" }
	left := slices.DeleteFunc(slices.Clone(open), isCaught)
	if len(left) > 0 {
		if err := r.checkWithout(ctx, attempt{packagesOf(left), []string{"-short", "-timeout=10m"}}); err != nil {
			return err
		}
	}
	for len(left) > 0 {
		if err := round(left); err != nil {
			return err
		}
		left = slices.DeleteFunc(left, isCaught)
	}
	fmt.Printf("mutants: %d defects, %d caught, %d survived\n", len(open), int64(len(open))-survived.Load(), survived.Load())
	if survived.Load() > 0 {
		return errors.New("the tests do not catch the surviving defects")
	}
	return nil
}

// packagesOf returns the packages that the defects are in.
func packagesOf(trials []*trial) (packages []string) {
	for _, t := range trials {
		packages = append(packages, t.pkg())
	}
	slices.Sort(packages)
	return slices.Compact(packages)
}

func choose(only []string) ([]mutant, error) {
	if len(only) == 0 {
		return mutants, nil
	}
	var chosen []mutant
	for _, name := range only {
		i := slices.IndexFunc(mutants, func(m mutant) bool { return m.name == name })
		if i < 0 {
			return nil, fmt.Errorf("no defect is named %q", name)
		}
		chosen = append(chosen, mutants[i])
	}
	return chosen, nil
}

// pkg returns the package of the changed file, as an argument of go test.
func (c change) pkg() string { return "./" + filepath.Dir(c.in.path) }

// area returns the folder below pkg or cmd that the changed file is in, as an argument of go test.
func (c change) area() string {
	parts := strings.Split(c.in.path, "/")
	return "./" + strings.Join(parts[:2], "/")
}

// trial is a defect, and what is still to be tried to catch it.
type trial struct {
	change
	// number is that of the defect in the overlay.
	number int
	left   []step
	took   time.Duration
	// by is the result, such as "caught elsewhere"; "" while the trial is open.
	by string
	// uncaught is whether no test fails, or nothing was tested.
	uncaught bool
}

// step takes the next step. It returns an error only if it was interrupted or the record cannot be
// written.
func (t *trial) step(ctx context.Context, r runner, caught *record) error {
	if len(t.left) == 0 {
		t.by, t.uncaught = "SURVIVED", true
		return nil
	}
	next := t.left[0]
	t.left = t.left[1:]
	output, failed := r.test(ctx, t.number, next.attempt)
	switch {
	case ctx.Err() != nil:
		return errors.New("interrupted")
	case failed == nil:
		return nil
	case strings.Contains(output, "[build failed]"):
		t.by, t.uncaught = "NOT TESTED: it does not compile:\n"+output, true
		return nil
	case strings.Contains(output, "panic: test timed out"):
		t.by, t.uncaught = "NOT TESTED: too slow are the tests of "+strings.Join(next.packages, " "), true
		return nil
	case !saysWhy.MatchString(output):
		t.by, t.uncaught = "NOT TESTED: the tests failed without saying where:\n"+output, true
		return nil
	}
	t.by = next.by
	if by, ok := catcherIn(output, next.attempt); ok {
		return caught.set(t.name, by)
	}
	return nil
}

// step is an attempt, and what to say if it catches the defect.
type step struct {
	by string
	attempt
}

// steps are the attempts to catch the defect, in order: the cheapest first, each of what those before
// it did not run, and only then in full. all has the tests that depend on each package.
func (c change) steps(all map[string][]string) (steps []step) {
	own, tried := c.pkg(), map[string]bool{}
	untried := func(packages ...string) []string {
		left := slices.DeleteFunc(slices.Clone(packages), func(name string) bool { return tried[name] || !slices.Contains(all[name], name) })
		for _, name := range left {
			tried[name] = true
		}
		return left
	}
	add := func(by string, packages, flags []string) {
		if len(packages) > 0 {
			steps = append(steps, step{by, attempt{packages, flags}})
		}
	}
	first := []string{own} // also one that is not among those of which every test is run
	tried[own] = true
	above := untried(c.area())
	near := untried(slices.DeleteFunc(slices.Sorted(maps.Keys(all)), func(name string) bool { return !strings.HasPrefix(name, c.area()+"/") })...)
	add("caught", first, quickly)
	add("caught nearby", above, quickly)
	add("caught by a simulation", slices.Concat(first, above), simulations)
	add("caught nearby", near, quickly)
	add("caught on an API server", first, onAPIServer)
	add("caught elsewhere", untried(all[own]...), quickly)
	add("caught elsewhere, on an API server", all[own], onAPIServer)
	add("caught by many seeds", all[own], manySeeds)
	return steps
}

// dependents returns, for each package as an argument of go test, those of packages whose tests
// depend on it, itself among them.
func dependents(ctx context.Context) (map[string][]string, error) {
	const module = "github.com/topsops/gcu-operator"
	output, err := exec.CommandContext(ctx, "go", append([]string{"list", "-test", "-f", `{{if eq .Name "main"}}{{.ImportPath}} {{join .Deps " "}}{{end}}`}, packages...)...).Output()
	if err != nil {
		return nil, fmt.Errorf("listing the dependencies of the tests: %w", err)
	}
	all := map[string][]string{}
	for line := range strings.Lines(string(output)) {
		fields := strings.Fields(line)
		if len(fields) == 0 || !strings.HasSuffix(fields[0], ".test") {
			continue
		}
		tests := "." + strings.TrimSuffix(strings.TrimPrefix(fields[0], module), ".test")
		for _, dependency := range fields[1:] {
			if of, own := strings.CutPrefix(dependency, module); own && !slices.Contains(all["."+of], tests) {
				all["."+of] = append(all["."+of], tests)
			}
		}
	}
	return all, nil
}
