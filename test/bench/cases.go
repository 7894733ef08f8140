package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/topsops/gcu-operator/test/harness"
)

// benchCase is a case.
type benchCase struct {
	name, title string
	measure     func(context.Context, harness.Project, options, *report, io.Writer) error
}

// cases returns all cases in run order: the races, then the others.
func cases() (list []benchCase) {
	for _, c := range races {
		list = append(list, benchCase{c.name, c.title, c.measure})
	}
	return append(list,
		benchCase{"churn", "1000 nodes at 10 %: calm, with 5 % of them flapping, and on a control plane at its limit", measureChurn},
		benchCase{"groups", "220 rollouts at once on 1000 nodes, and one with as many pods", measureGroups},
		benchCase{"quiet", "1000 nodes, nothing happens for a minute", measureQuiet},
		benchCase{"plan", "the planner alone, for 10 000 nodes (Go benchmarks)", measurePlan},
		benchCase{"gr", "an unchanged GcuResource on 1000 nodes, reconciled repeatedly", measureGr},
		benchCase{"api", "the REST API under load, alone and with 1000 slow clients", measureAPI},
		benchCase{"bodies", "the REST API while a viewer sends slow GETs with large bodies", measureBodies},
		benchCase{"agent", "one node agent: idle for a minute, then 50 OTA requests one after the other", measureAgent},
		benchCase{"hostile", "1000 nodes at 10 %: calm, and while the token of one of them writes ten times a second", measureHostile},
		benchCase{"leader", "200 nodes, budget 10: the leader ends during the rollout, in four ways", measureLeader})
}

// race is a case in which we and RollingUpdate do the same rollout.
type race struct {
	name, title string
	nodes       int
	// budget is maxUnavailable for both; a percentage is of nodes.
	percent, count int
	// qps and burst of the controller-manager's clients.
	qps, burst int
	// offline is the number of nodes taken offline before the rollout.
	offline int
	// minStart and maxStart are the limits of the time until a pod is Ready.
	minStart, maxStart time.Duration
	// grace and lease are the grace period for nodes and the duration of their Leases; 0 for
	// those of the test cluster.
	grace, lease time.Duration
	// once is set if no second rollout can start from the state after RollingUpdate.
	once bool
	// theirLimit limits the wait for RollingUpdate; 0 means that it must complete.
	theirLimit time.Duration
	// maxRatio is the target for our time divided by theirs, maxOverBound for our time
	// divided by N x mean(t) / budget; 0 for none.
	maxRatio, maxOverBound float64
	// probation: nodes are on probation after their upgrade, as they are by default; then our time
	// may exceed the bound by two heartbeats.
	probation bool
	// gate: the manager runs with the gate.
	gate bool
	// alone: the manager is stopped while RollingUpdate is timed.
	alone bool
}

// heartbeat is how often the simulated kubelets renew their Leases by default.
const heartbeat = 10 * time.Second

// deleteDelay is the time until a deleted pod of the test cluster is gone.
const deleteDelay = 300 * time.Millisecond

// Default time until a pod is Ready, as in the test cluster.
const (
	shortStart = time.Second
	longStart  = 3 * time.Second
)

var races = []race{
	{
		name: "1000", title: "1000 nodes at 10 %, controller-manager at 500 QPS",
		nodes: 1000, percent: 10, qps: 500, burst: 1000, minStart: shortStart, maxStart: longStart, maxRatio: 1.0,
	},
	{
		name: "proven", title: "1000 nodes at 10 %, each on probation until its next heartbeat", probation: true,
		nodes: 1000, percent: 10, qps: 500, burst: 1000, minStart: shortStart, maxStart: longStart,
	},
	{
		name: "gated", title: "1000 nodes at 10 %, with the gate", gate: true,
		nodes: 1000, percent: 10, qps: 500, burst: 1000, minStart: shortStart, maxStart: longStart,
	},
	{
		name: "qps", title: "600 nodes at 10 %, controller-manager at its default of 20 QPS",
		nodes: 600, percent: 10, qps: 20, burst: 30, minStart: shortStart, maxStart: longStart, maxRatio: 0.6,
	},
	{
		name: "offline", title: "1000 nodes at 10 %, 150 of them offline",
		nodes: 1000, percent: 10, qps: 500, burst: 1000, offline: 150, minStart: shortStart, maxStart: longStart,
		once: true, theirLimit: 90 * time.Second,
	},
	{
		name: "5000", title: "5000 nodes at 10 %, each manager alone", alone: true,
		nodes: 5000, percent: 10, qps: 500, burst: 1000, minStart: shortStart, maxStart: longStart, maxRatio: 1.0,
		grace: 100 * time.Second, lease: 80 * time.Second,
	},
	{
		name: "10000", title: "10 000 nodes at 10 %, each manager alone", alone: true,
		nodes: 10000, percent: 10, qps: 500, burst: 1000, minStart: shortStart, maxStart: longStart, maxRatio: 1.0,
		grace: 200 * time.Second, lease: 160 * time.Second,
	},
	{
		name: "restart", title: "200 nodes, budget 10, pods take 3 to 8 s to start",
		nodes: 200, count: 10, qps: 200, burst: 400, minStart: 3 * time.Second, maxStart: 8 * time.Second, maxOverBound: 1.05,
	},
}

func raceNamed(name string) race {
	for _, r := range races {
		if r.name == name {
			return r
		}
	}
	return race{}
}

// shrunk returns the case with fewer nodes.
func (c race) shrunk(by int) race {
	c.nodes, c.offline, c.count = c.nodes/by, c.offline/by, (c.count+by-1)/by
	return c
}

// maxUnavailable returns the maxUnavailable of both DaemonSets.
func (c race) maxUnavailable() string {
	if c.percent > 0 {
		return fmt.Sprintf("%d%%", c.percent)
	}
	return strconv.Itoa(c.count)
}

// maxMemory returns how many bytes the manager may use.
func (c race) maxMemory() int64 {
	if c.nodes > 1000 {
		return maxMemoryOfLarge
	}
	return maxMemory
}

// budget returns the number of nodes that may be down; percentages round up.
func (c race) budget() int {
	if c.percent > 0 {
		return (c.nodes*c.percent + 99) / 100
	}
	return c.count
}

// reachable returns the number of nodes on which a rollout can complete.
func (c race) reachable() int { return c.nodes - c.offline }

// nominalRestart returns the configured mean time of the test cluster from a deletion
// to Ready, without reaction times.
func (c race) nominalRestart() time.Duration {
	return deleteDelay + (c.minStart+c.maxStart)/2
}

// bound returns the lower bound of the rollout's duration if a restart takes mean.
func (c race) bound(mean time.Duration) time.Duration {
	return time.Duration(float64(c.reachable()) * float64(mean) / float64(c.budget()))
}
