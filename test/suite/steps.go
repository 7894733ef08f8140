package main

import (
	"fmt"
	"path"
	"slices"
	"time"
)

// step is a program that shows something.
type step struct {
	name string
	// shows is what is known when it passes.
	shows string
	lane  lane
	// test are the arguments of go test; nil when the step is another program.
	test []string
	// argv is that program with its arguments, run in the project's root.
	argv []string
	// env is added to the environment.
	env []string
}

// lane is a sequence of steps that runs beside the other lanes.
type lane string

const (
	// busy steps keep the processors busy. Stories on clusters are among them: nodes whose
	// leases run out, because something else has the processors, are another story.
	busy lane = "busy"
	// idle steps take what the busy ones leave of the processors, at the lowest priority:
	// time is none of their conditions.
	idle lane = "idle"
)

// lanes are all of them.
var lanes = []lane{busy, idle}

var (
	// withRace is the environment of go test -race; a program built so ends at the first race.
	withRace = []string{"CGO_ENABLED=1", "GORACE=halt_on_error=1"}
	// inFull makes tests do all they can, whatever time it takes.
	inFull = []string{"LONG=1"}
	// onNodes makes the tests of real nodes run: go test ./... starts none.
	onNodes = []string{"TEST_NODES=1"}
)

// raced are the packages that every run tests with the race detector: their goroutines
// share what they write.
var raced = []string{"./pkg/ota", "./pkg/ota/endpoint", "./pkg/ota/guard", "./pkg/hosttasks", "./pkg/upgradeapi", "./pkg/nodeupgrade"}

// Packages that have steps of their own.
const (
	e2ePackage     = "./test/e2e"
	nodesPackage   = "./test/nodes"
	clusterPackage = "./test/cluster"
)

// plain returns the packages without those that have steps of their own.
func plain(all []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(pkg string) bool {
		return pkg == e2ePackage || pkg == nodesPackage || slices.Contains(raced, pkg)
	})
}

// testSteps are those of make test.
func testSteps(packages []string, targets []target) []step {
	return append([]step{
		{name: "simulations", lane: idle, test: append([]string{"-timeout=20m", "-run=" + anySimulation}, simulated()...),
			shows: "the rules of rollouts, rollbacks and operations, whatever happens when"},
		{name: "e2e", lane: busy, test: []string{"-timeout=20m", e2ePackage},
			shows: "the programs on a real control plane with simulated nodes"},
		{name: "race", lane: busy, test: append([]string{"-race", "-timeout=20m"}, raced...), env: withRace,
			shows: "what shares memory, with the race detector"},
		{name: "packages", lane: busy, test: append([]string{"-timeout=20m", "-skip=" + anySimulation}, plain(packages)...),
			shows: "every other package, against an API server where it needs one"},
	}, fuzzSteps(targets, 10*time.Second)...)
}

// harnessStep is the test of real nodes themselves.
func harnessStep(env ...string) step {
	return step{name: "harness", lane: busy, test: []string{"-tags=realnodes", "-timeout=15m", "-run=^TestRealNodes$", clusterPackage}, env: env,
		shows: "the harness of real nodes itself"}
}

// nodeSteps are those of make test-nodes.
func nodeSteps() []step {
	return []step{
		harnessStep(),
		{name: "nodes", lane: busy, test: []string{"-timeout=30m", nodesPackage}, env: onNodes,
			shows: "the operator as pods on real kubelets"},
	}
}

// longSteps are those of make long: hours.
func longSteps(packages []string, targets []target) []step {
	steps := []step{
		{name: "race", lane: busy, test: append([]string{"-race", "-timeout=2h"}, append(plain(packages), raced...)...), env: append(withRace, inFull...),
			shows: "every package, with the race detector"},
		{name: "e2e", lane: busy, test: []string{"-timeout=1h", e2ePackage}, env: slices.Concat(inFull, []string{"PROGRAMS=bin/race"}, withRace[1:]),
			shows: "all stories on simulated nodes, with programs that have the race detector; a thousand nodes"},
		harnessStep(inFull...),
		{name: "nodes", lane: busy, test: []string{"-timeout=2h", nodesPackage}, env: slices.Concat(onNodes, inFull),
			shows: "all stories on real kubelets; power is lost in the middle of every task"},
		{name: "fresh-machine", lane: busy, argv: []string{"test/fresh-machine/run"},
			shows: "the README's commands in a root file system that has only Go, make, git and curl"},
		{name: "mutants", lane: busy, argv: []string{"go", "run", "./test/mutants"},
			shows: "every seeded defect is caught"},
	}
	for _, s := range simulations {
		steps = append(steps, step{name: "sim-" + s.name, lane: busy, test: []string{"-timeout=0", "-run=^" + s.test + "$", s.pkg},
			env: []string{"SEEDS=100000", "FRESH=0"}, shows: "100 000 seeds of the simulation of " + s.name})
	}
	steps = append(steps, step{name: "gremlins", lane: busy, argv: []string{"test/gremlins/run"},
		shows: "changes to the pure packages that no test notices: a list to look at"})
	return append(steps, fuzzSteps(targets, 10*time.Minute)...)
}

// anySimulation matches the tests that play seeds.
const anySimulation = "^TestSimulation"

// simulations are the tests that play seeds, by the names that make sim takes (OF=).
var simulations = []struct{ name, test, pkg string }{
	{"rollouts", "TestSimulation", "./pkg/daemonupdater"},
	{"rollbacks", "TestSimulationOfRollbacks", "./pkg/daemonupdater"},
	{"operations", "TestSimulationOfOperations", "./pkg/daemonupdater"},
	{"node", "TestSimulation", "./pkg/nodeupgrade/operation"},
}

// simulated returns the packages with simulations.
func simulated() []string {
	var packages []string
	for _, s := range simulations {
		packages = append(packages, s.pkg)
	}
	return slices.Compact(packages)
}

// target is a fuzz target of a package.
type target struct{ pkg, name string }

// fuzzingOnly leaves out the tests of the package of a fuzz target.
const fuzzingOnly = "-run=^$"

// fuzzSteps fuzz each target for a time, beginning with what earlier runs found: go keeps
// that in its cache.
func fuzzSteps(targets []target, each time.Duration) []step {
	steps := make([]step, len(targets))
	for i, t := range targets {
		steps[i] = step{name: fmt.Sprintf("fuzz-%s-%s", path.Base(t.pkg), t.name), lane: idle,
			test:  []string{fuzzingOnly, "-fuzz=^" + t.name + "$", "-fuzztime=" + each.String(), "-fuzzminimizetime=1s", "-parallel=1", t.pkg},
			shows: fmt.Sprintf("%s of %s, for %s", t.name, t.pkg, each)}
	}
	return steps
}
