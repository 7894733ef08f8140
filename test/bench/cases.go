package main

import (
	"fmt"
	"strconv"
	"time"
)

// The cases that are no race.
const (
	quietCase = "quiet"
	planCase  = "plan"
	grCase    = "gr"
	apiCase   = "api"
	agentCase = "agent"
)

// race is a case in which the same rollout is done by us and by RollingUpdate.
type race struct {
	name, title string
	nodes       int
	// budget is maxUnavailable for both; a percentage is of nodes.
	percent, count int
	// qps and burst of the controller-manager's clients.
	qps, burst int
	// offline nodes are lost before the rollout.
	offline int
	// minStart and maxStart bound how long a pod takes to become Ready.
	minStart, maxStart time.Duration
	// once: the other rollout ends in a state that no second one can start from.
	once bool
	// theirLimit bounds the wait for RollingUpdate; 0 expects it to complete.
	theirLimit time.Duration
	// maxRatio is the target for our time over theirs, 0 when there is none;
	// maxOverBound for our time over N x mean(t) / budget.
	maxRatio, maxOverBound float64
}

// deleteDelay is how long a deleted pod of the test cluster takes to end.
const deleteDelay = 300 * time.Millisecond

// Pods take this long to become Ready unless a case says otherwise: the test
// cluster's default.
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
		name: "qps", title: "600 nodes at 10 %, controller-manager at its default of 20 QPS",
		nodes: 600, percent: 10, qps: 20, burst: 30, minStart: shortStart, maxStart: longStart, maxRatio: 0.6,
	},
	{
		name: "offline", title: "1000 nodes at 10 %, 150 of them offline",
		nodes: 1000, percent: 10, qps: 500, burst: 1000, offline: 150, minStart: shortStart, maxStart: longStart,
		once: true, theirLimit: 90 * time.Second,
	},
	{
		name: "restart", title: "200 nodes, budget 10, pods take 3 to 8 s to start",
		nodes: 200, count: 10, qps: 200, burst: 400, minStart: 3 * time.Second, maxStart: 8 * time.Second, maxOverBound: 1.05,
	},
}

// caseNames returns all cases in the order they are run.
func caseNames() []string {
	var names []string
	for _, r := range races {
		names = append(names, r.name)
	}
	return append(names, quietCase, planCase, grCase, apiCase, agentCase)
}

// titleOf returns what a case is, "" when there is none of that name.
func titleOf(name string) string {
	switch name {
	case quietCase:
		return "1000 nodes, nothing happens for a minute"
	case planCase:
		return "the planner alone, for 10 000 nodes (Go benchmarks)"
	case grCase:
		return "a GcuResource on 1000 nodes, looked at again and again"
	case apiCase:
		return "the REST API under load, alone and beside 1000 callers who send slowly"
	case agentCase:
		return "one node agent: idle for a minute, then 50 OTA requests one after the other"
	}
	return raceNamed(name).title
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

// maxUnavailable is the budget as written into both DaemonSets.
func (c race) maxUnavailable() string {
	if c.percent > 0 {
		return fmt.Sprintf("%d%%", c.percent)
	}
	return strconv.Itoa(c.count)
}

// budget is the number of nodes that may be down; percentages round up.
func (c race) budget() int {
	if c.percent > 0 {
		return (c.nodes*c.percent + 99) / 100
	}
	return c.count
}

// reachable is the number of nodes a rollout can complete on.
func (c race) reachable() int { return c.nodes - c.offline }

// nominalRestart is the mean time from a deletion to Ready that the test
// cluster is set to, without anyone's reaction time.
func (c race) nominalRestart() time.Duration {
	return deleteDelay + (c.minStart+c.maxStart)/2
}

// bound is the least time for the whole rollout when a restart takes mean.
func (c race) bound(mean time.Duration) time.Duration {
	return time.Duration(float64(c.reachable()) * float64(mean) / float64(c.budget()))
}
