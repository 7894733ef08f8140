// Mutants tests the tests: it applies seeded defects to the code that plans and rolls out
// upgrades, each separately and without changing the source tree, and fails unless the
// tests catch every one: first the test that caught it last (caught.tsv, which the run
// updates), then those of the file's package, then those of the packages beside it, the one
// that they are below first, then its own with an API server (KUBEBUILDER_ASSETS), then
// those of all packages that depend on it, and last the simulations with all their seeds.
// Each is tried on all defects that are left before the next one is.
//
//	mutants [NAME...]
//
// Each defect is a known mistake of upgrade controllers, or a reversed rule of design
// section 3 or 4.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
	before := packages
	if len(only) > 0 {
		before = nil
		for _, c := range changes {
			before = append(before, c.pkg())
		}
		slices.Sort(before)
		before = slices.Compact(before)
	}
	all, err := dependents(ctx)
	if err != nil {
		return err
	}
	if output, err := test(ctx, "", attempt{before, []string{"-short", "-timeout=10m"}}); err != nil {
		return fmt.Errorf("the tests fail without any defect:\n%s", output)
	}
	dir, err := os.MkdirTemp("", "gcu-mutants-")
	if err != nil {
		return fmt.Errorf("making a folder: %w", err)
	}
	defer os.RemoveAll(dir)
	trials := make([]*trial, len(changes))
	for i, c := range changes {
		if trials[i], err = newTrial(dir, c, c.steps(caught, all)); err != nil {
			return err
		}
	}
	return play(ctx, trials, caught)
}

// play takes the next step of all trials that are still open, in rounds, so that a defect that is hard
// to catch delays none that is not. It returns an error if a defect survives.
func play(ctx context.Context, trials []*trial, caught *record) error {
	var tried, survived atomic.Int64
	for open := trials; len(open) > 0; {
		var group errgroup.Group
		group.SetLimit(runtime.NumCPU())
		for _, t := range open {
			group.Go(func() error {
				begin := time.Now()
				err := t.step(ctx, caught)
				if t.took += time.Since(begin); err != nil || t.by == "" {
					return err
				}
				if t.uncaught {
					survived.Add(1)
				}
				fmt.Printf("%3d/%d %-28s %s: %s (%s)\n", tried.Add(1), len(trials), t.by, t.name, t.says, t.took.Round(100*time.Millisecond))
				return nil
			})
		}
		if err := group.Wait(); err != nil {
			return err
		}
		open = slices.DeleteFunc(slices.Clone(open), func(t *trial) bool { return t.by != "" })
	}
	fmt.Printf("mutants: %d defects, %d caught, %d survived\n", len(trials), int64(len(trials))-survived.Load(), survived.Load())
	if survived.Load() > 0 {
		return errors.New("the tests do not catch the surviving defects")
	}
	return nil
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
func (c change) pkg() string { return "./" + filepath.Dir(c.file) }

// area returns the folder below pkg or cmd that the changed file is in, as an argument of go test.
func (c change) area() string {
	parts := strings.Split(c.file, "/")
	return "./" + strings.Join(parts[:2], "/")
}

// trial is a defect, and what is still to be tried to catch it.
type trial struct {
	change
	overlay string
	left    []step
	took    time.Duration
	// by is the result, such as "caught elsewhere"; "" while the trial is open.
	by string
	// uncaught is whether no test fails, or nothing was tested.
	uncaught bool
}

// newTrial writes the overlay of a defect below a folder.
func newTrial(dir string, c change, steps []step) (*trial, error) {
	own := filepath.Join(dir, c.name)
	if err := os.Mkdir(own, 0o700); err != nil {
		return nil, fmt.Errorf("making a folder: %w", err)
	}
	overlay, err := c.overlay(own)
	return &trial{change: c, overlay: overlay, left: steps}, err
}

// step takes the next step. It returns an error only if it was interrupted or the record cannot be
// written.
func (t *trial) step(ctx context.Context, caught *record) error {
	if len(t.left) == 0 {
		t.by, t.uncaught = "SURVIVED", true
		return nil
	}
	next := t.left[0]
	t.left = t.left[1:]
	output, failed := test(ctx, t.overlay, next.attempt)
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
	}
	t.by = next.by
	if by, ok := catcherIn(output, slices.Contains(next.flags, "-short")); ok {
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
func (c change) steps(caught *record, all map[string][]string) (steps []step) {
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
	if last, ok := caught.of(c.name); ok {
		steps = append(steps, step{"caught as before", last.attempt()})
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

// attempt is a run of tests that may catch a defect.
type attempt struct {
	packages []string
	flags    []string
}

// Flags of go test.
var (
	// quickly skips tests that need an API server, and the simulations.
	quickly = []string{"-short", "-skip=^TestSimulation", "-timeout=15m"}
	// simulations plays few seeds.
	simulations = []string{"-short", "-run=^TestSimulation", "-timeout=10m"}
	onAPIServer = []string{"-skip=^TestSimulation", "-timeout=15m"}
	manySeeds   = []string{"-run=^TestSimulation", "-timeout=30m"}
)

// overlay writes the changed file and the overlay map of go build.
func (c change) overlay(dir string) (string, error) {
	original, err := filepath.Abs(c.file)
	if err != nil {
		return "", fmt.Errorf("finding %s: %w", c.file, err)
	}
	changed := filepath.Join(dir, filepath.Base(c.file))
	if err := os.WriteFile(changed, []byte(c.source), 0o600); err != nil {
		return "", fmt.Errorf("writing the changed file: %w", err)
	}
	data, err := json.Marshal(map[string]map[string]string{"Replace": {original: changed}})
	if err != nil {
		return "", fmt.Errorf("encoding the overlay: %w", err)
	}
	path := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		return "", fmt.Errorf("writing the overlay: %w", err)
	}
	return path, nil
}

// test runs tests, with an overlay unless it is "". They have a timeout, because a defect
// may make them hang; that is no proof, because a busy machine does too. Those without an API
// server end with the first package that fails.
func test(ctx context.Context, overlay string, a attempt) (output string, err error) {
	args := append([]string{"test", "-failfast", "-vet=off", "-count=1"}, a.flags...)
	if overlay != "" {
		args = append(args, "-overlay="+overlay)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	command := exec.CommandContext(ctx, "go", append(args, a.packages...)...)
	// With CI set, a test skipped by -short would fail, and so every defect would be caught.
	command.Env = append(os.Environ(), "CI=", "FRESH=0")
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGTERM) }
	command.WaitDelay = 10 * time.Second
	reader, writer := io.Pipe()
	command.Stdout, command.Stderr = writer, writer
	if err := command.Start(); err != nil {
		return "", fmt.Errorf("starting go test: %w", err)
	}
	go func() { _ = writer.CloseWithError(command.Wait()) }()
	var all strings.Builder
	lines := bufio.NewReader(reader)
	for err == nil {
		var line string
		line, err = lines.ReadString('\n')
		all.WriteString(line)
		if strings.HasPrefix(line, "FAIL\t") && slices.Contains(a.flags, "-short") {
			stop()
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return all.String(), err
}
