package main

import (
	"fmt"
	"path"
	"slices"
	"time"
)

// step is a program that tests something.
type step struct {
	name string
	// shows is what it verifies.
	shows string
	lane  lane
	// test are the arguments of go test; nil if the step is another program.
	test []string
	// dir is the folder of the module of the tests, relative to the root; empty for the root.
	dir string
	// argv is that program and its arguments, run in the project's root.
	argv []string
	// env is added to the environment.
	env []string
}

// lane is a sequence of steps; lanes run in parallel.
type lane string

const (
	// busy steps use the CPUs fully. End-to-end stories are among them: beside tests that
	// also do, they take more than twice as long, and some of their steps run out of time.
	busy lane = "busy"
	// idle steps use the remaining CPU: they do not depend on time.
	idle lane = "idle"
)

// niceness are all lanes, with what nice(1) adds to the niceness of their programs.
var niceness = map[lane]string{busy: "0", idle: "19"}

var (
	// withRace is the environment of go test -race; the program exits at the first race.
	withRace = []string{"CGO_ENABLED=1", "GORACE=halt_on_error=1"}
	// inFull makes tests run in full, however long they take.
	inFull = []string{"LONG=1"}
	// onNodes enables the tests of real nodes, which go test ./... skips.
	onNodes = []string{"TEST_NODES=1"}
)

// raced are the packages that every run tests with the race detector, because their
// goroutines share memory.
var raced = []string{"./pkg/ota", "./pkg/ota/endpoint", "./pkg/ota/guard", "./pkg/hosttasks", "./pkg/upgradeapi", "./pkg/nodeupgrade"}

// Packages with their own steps.
const (
	e2ePackage     = "./test/e2e"
	nodesPackage   = "./test/nodes"
	clusterPackage = "./test/cluster"
)

// plain returns the packages without their own steps.
func plain(all []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(pkg string) bool {
		return pkg == e2ePackage || pkg == nodesPackage || slices.Contains(raced, pkg)
	})
}

// testSteps are the steps of make test.
func testSteps(packages []string, targets []target) []step {
	return append([]step{
		{name: "simulations", lane: idle, test: append([]string{"-timeout=40m", "-run=" + anySimulation}, simulated()...),
			shows: "the rules of rollouts, rollbacks and operations, with faults in any order"},
		{name: "e2e", lane: busy, test: []string{"-timeout=20m", "-skip=" + outages, e2ePackage},
			shows: "the programs on a real control plane with simulated nodes"},
		{name: "race", lane: busy, test: append([]string{"-race", "-timeout=20m", "-skip=" + anySimulation}, raced...), env: withRace,
			shows: "packages with shared memory, with the race detector"},
		{name: "packages", lane: busy, test: append([]string{"-timeout=20m", "-skip=" + anySimulation}, plain(packages)...),
			shows: "all other packages, with an API server where needed"},
		chartStep,
		{name: "browser", lane: busy, dir: "test/browser", test: []string{"-timeout=10m", "-skip=" + longPages, "."},
			shows: "the page of the dashboard in Chromium"},
	}, fuzzSteps(targets, 10*time.Second)...)
}

// chartStep tests the chart. Its module has helm and kustomize.
var chartStep = step{name: "chart", lane: idle, dir: "test/chart", test: []string{"./..."},
	shows: "chart and config/ render the same objects, and what each value changes"}

// harnessStep tests the harness of real nodes itself.
func harnessStep(env ...string) step {
	return step{name: "harness", lane: busy, test: []string{"-tags=realnodes", "-timeout=15m", "-run=^TestRealNodes$", clusterPackage}, env: env,
		shows: "the harness of real nodes itself"}
}

// nodeSteps are the steps of make test-nodes.
func nodeSteps() []step {
	return []step{
		harnessStep(),
		{name: "nodes", lane: busy, test: []string{"-timeout=30m", nodesPackage}, env: onNodes,
			shows: "the operator as pods on real kubelets"},
	}
}

// longSteps are the steps of make long, which takes hours.
func longSteps(packages []string, targets []target) []step {
	steps := []step{
		{name: "race", lane: busy, test: append([]string{"-race", "-timeout=2h"}, append(plain(packages), raced...)...), env: append(withRace, inFull...),
			shows: "every package, with the race detector"},
		{name: "e2e", lane: busy, test: []string{"-timeout=1h", "-skip=" + outages, e2ePackage}, env: slices.Concat(inFull, []string{"PROGRAMS=bin/race"}, withRace[1:]),
			shows: "all stories on simulated nodes, with race-detecting programs; a thousand nodes"},
		{name: "outages", lane: busy, test: []string{"-timeout=30m", "-run=" + outages, e2ePackage}, env: inFull,
			shows: "rollouts while the API server, etcd, the controller manager or the leader fails"},
		{name: "soak", lane: busy, argv: []string{"make", "soak"},
			shows: "90 minutes of rollouts, churn, killed managers and cut links: within the budget, and nothing grows"},
		harnessStep(inFull...),
		{name: "nodes", lane: busy, test: []string{"-timeout=2h", nodesPackage}, env: slices.Concat(onNodes, inFull),
			shows: "all stories on real kubelets; power loss during every task"},
		{name: "kind", lane: busy, argv: []string{"test/kind/hooks/testcluster"},
			shows: "the stories for any cluster, on real kubelets"},
		{name: "browser", lane: busy, dir: "test/browser", test: []string{"-timeout=20m", "-v", "."}, env: inFull,
			shows: "the page of the dashboard in Chromium, with 5000 nodes too, and without its API server"},
		{name: "install", lane: busy, argv: []string{"make", "test-install"},
			shows: "the chart with Helm 3 and 4, from the first version and back, and without a network"},
		{name: "fresh-machine", lane: busy, argv: []string{"test/fresh-machine/run"},
			shows: "the README's commands in a root file system that has only Go, make, git and curl"},
		{name: "mutants", lane: busy, argv: []string{"go", "run", "./test/mutants"},
			shows: "every seeded defect is caught"},
		{name: "release", lane: idle, argv: []string{"make", "release", "VERSION=v0.0.0-test", "CHECK=1", "DIRTY=1"},
			shows: "a release made twice, without a network, has the same files"},
	}
	for _, version := range kubernetes {
		steps = append(steps, step{name: "kubernetes-" + version, lane: busy, argv: []string{"make", "test", "KUBERNETES=" + version, "STEPS=e2e,race,packages"},
			shows: "the packages with an API server, and stories on simulated nodes, on Kubernetes " + version})
	}
	for _, s := range simulations {
		steps = append(steps, step{name: "sim-" + s.name, lane: busy, test: []string{"-timeout=0", "-run=^" + s.test + "$", s.pkg},
			env: []string{"SEEDS=100000", "FRESH=0"}, shows: "100 000 seeds of the simulation of " + s.name})
	}
	steps = append(steps, step{name: "gremlins", lane: busy, argv: []string{"test/gremlins/run"},
		shows: "mutations of the pure packages that no test catches: a list for review"})
	return append(steps, fuzzSteps(targets, 10*time.Minute)...)
}

// kubernetes are the versions of the control plane besides the one of every run: the oldest that the operator
// supports and the newest (test/cluster/internal/assets/kubernetes).
var kubernetes = []string{"1.30.14", "1.37.1"}

// outages matches the test of outages of the control plane.
const outages = "^TestOutages$"

// longPages matches the tests of pages that take minutes: to fill one, to stop an API server.
const longPages = "^(TestAPageOfFiveThousandNodes|TestThePageOutlivesItsAPIServer)$"

// anySimulation matches the tests that run seeds.
const anySimulation = "^TestSimulation"

// simulations are the tests that run seeds, by their names in make sim OF=.
var simulations = []struct{ name, test, pkg string }{
	{"rollouts", "TestSimulation", "./pkg/daemonupdater"},
	{"rollbacks", "TestSimulationOfRollbacks", "./pkg/daemonupdater"},
	{"operations", "TestSimulationOfOperations", "./pkg/daemonupdater"},
	{"gate", "TestSimulationOfTheGate", "./pkg/daemonupdater"},
	{"node", "TestSimulation", "./pkg/nodeupgrade/operation"},
	{"stories", "TestSimulationOfStories", "./pkg/nodeupgrade"},
	{"specs", "TestSimulationOfSpecs", "./pkg/gcuresource"},
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

// fuzzingOnly skips the tests of a fuzz target's package.
const fuzzingOnly = "-run=^$"

// fuzzSteps fuzz each target for a time, starting from the inputs in go's cache that
// earlier runs found.
func fuzzSteps(targets []target, each time.Duration) []step {
	steps := make([]step, len(targets))
	for i, t := range targets {
		steps[i] = step{name: fmt.Sprintf("fuzz-%s-%s", path.Base(t.pkg), t.name), lane: idle,
			test:  []string{fuzzingOnly, "-fuzz=^" + t.name + "$", "-fuzztime=" + each.String(), "-fuzzminimizetime=1s", "-parallel=1", t.pkg},
			shows: fmt.Sprintf("%s of %s, for %s", t.name, t.pkg, each)}
	}
	return steps
}
