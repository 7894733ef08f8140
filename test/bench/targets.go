package main

import (
	"fmt"
	"net/http"
	"time"
)

// Targets of all cases.
const (
	maxDeletes     = 1.1
	maxOtherWrites = 0.2
	maxMemory      = 100e6 // bytes
	// maxMemoryOfLarge and maxCPU, in seconds per 1000 nodes, are for more than 1000 nodes.
	maxMemoryOfLarge = 150e6
	maxCPU           = 2.5
	maxPlan          = 10 * time.Millisecond
	maxPass          = 5 * time.Millisecond // of CPU
	// maxGrowth is how much more one node's event may cost with ten times the nodes.
	maxGrowth = 2.0
	// maxAPIWait limits the p99 of reads through the REST API; maxAPIChange is by how much
	// slow clients may change latency and throughput.
	maxAPIWait   = 50 * time.Millisecond
	maxAPIChange = 0.2
	// maxAgentMemory and maxAgentCPU limit an idle node agent, maxToDeletion the median
	// from a POST on the node to the deletion of the pod.
	maxAgentMemory = 30e6 // bytes
	maxAgentCPU    = 5.0  // thousandths of a CPU
	maxToDeletion  = 200 * time.Millisecond
)

// verdict is one target with the measured value.
type verdict struct {
	target, measured string
	met              bool
}

func (v verdict) word() string {
	if v.met {
		return "met"
	}
	return "not met"
}

// judgeRaces returns the verdicts for all races, in their order.
func judgeRaces(measured []pair) (list []verdict) {
	for _, c := range races {
		var pairs []pair
		for _, p := range measured {
			if p.race.name == c.name {
				pairs = append(pairs, p)
			}
		}
		if len(pairs) > 0 {
			list = append(list, judgeRace(pairs)...)
		}
	}
	return list
}

// judgeRace returns the verdicts for all repetitions of a case: the mean for times, the
// worst for everything else.
func judgeRace(pairs []pair) []verdict {
	c := pairs[0].race
	var mine, other, restart time.Duration
	var most, theirMost, replaced int
	var deletes, writes, cpu float64
	var peak int64
	complete, theirsComplete := true, true
	for _, p := range pairs {
		mine, other, restart = mine+p.mine.done, other+p.other.done, restart+p.mine.restart
		most, theirMost, replaced = max(most, p.mine.most), max(theirMost, p.other.most), max(replaced, p.other.updated)
		deletes = max(deletes, p.mine.perPod(p.mine.used.requests[http.MethodDelete]))
		// a skipped pod gets its condition once, and is not a replaced pod
		writes = max(writes, p.mine.perPod(p.mine.used.otherWrites()-c.offline))
		peak = max(peak, p.mine.used.peak)
		cpu = max(cpu, p.mine.used.cpu.Seconds()/float64(c.reachable())*1000)
		complete, theirsComplete = complete && p.mine.complete, theirsComplete && p.other.complete
	}
	list := []verdict{
		{c.name + ": complete on every reachable node", fmt.Sprintf("%t, RollingUpdate %t", complete, theirsComplete), complete},
		{fmt.Sprintf("%s: at most %d nodes down", c.name, c.budget()), fmt.Sprintf("%d, RollingUpdate %d", most, theirMost), most <= c.budget()},
	}
	if c.offline > 0 {
		list = append(list, verdict{c.name + ": completes where RollingUpdate is stuck",
			fmt.Sprintf("%.1f s for %d nodes, RollingUpdate %d nodes in %.0f s", mine.Seconds()/float64(len(pairs)), c.reachable(), replaced, c.theirLimit.Seconds()),
			complete && !theirsComplete})
	}
	if ratio := mine.Seconds() / other.Seconds(); c.maxRatio > 0 && complete && theirsComplete {
		list = append(list, verdict{fmt.Sprintf("%s: time ratio at most %.1f", c.name, c.maxRatio), fmt.Sprintf("%.2f", ratio), ratio <= c.maxRatio})
	}
	if c.maxOverBound > 0 {
		bound := c.bound(restart / time.Duration(len(pairs)))
		over := mine.Seconds() / float64(len(pairs)) / bound.Seconds()
		nominal := c.bound(c.nominalRestart())
		list = append(list, verdict{fmt.Sprintf("%s: at most %.2f times N x mean(t) / budget", c.name, c.maxOverBound),
			fmt.Sprintf("%.3f (bound %.1f s by the measured mean(t); %.1f s by the set one: %.3f)", over, bound.Seconds(),
				nominal.Seconds(), mine.Seconds()/float64(len(pairs))/nominal.Seconds()), over <= c.maxOverBound})
	}
	if c.probation {
		late := mine/time.Duration(len(pairs)) - c.bound(restart/time.Duration(len(pairs)))
		list = append(list, verdict{fmt.Sprintf("%s: at most two heartbeats, %s, over N x mean(t) / budget", c.name, 2*heartbeat),
			fmt.Sprintf("%.1f s over, in %.1f s; RollingUpdate %.1f s", late.Seconds(), mine.Seconds()/float64(len(pairs)), other.Seconds()/float64(len(pairs))), late <= 2*heartbeat})
	}
	passedOver := ""
	if c.offline > 0 {
		passedOver = fmt.Sprintf(", plus PodNeedUpgrade on %d skipped pods", c.offline)
	}
	if c.nodes > 1000 {
		list = append(list, verdict{fmt.Sprintf("%s: manager at most %.1f CPU seconds per 1000 nodes", c.name, maxCPU), fmt.Sprintf("%.1f", cpu), cpu <= maxCPU})
	}
	return append(list,
		verdict{fmt.Sprintf("%s: at most %.1f deletes per replaced pod", c.name, maxDeletes), fmt.Sprintf("%.2f", deletes), deletes <= maxDeletes},
		verdict{fmt.Sprintf("%s: at most %.1f other writes per replaced pod", c.name, maxOtherWrites), fmt.Sprintf("%.2f", writes) + passedOver, writes <= maxOtherWrites},
		verdict{fmt.Sprintf("%s: manager at most %s", c.name, megabytes(c.maxMemory())), megabytes(peak) + " at its peak", peak <= c.maxMemory()})
}
