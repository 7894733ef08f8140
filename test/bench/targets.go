package main

import (
	"fmt"
	"net/http"
	"slices"
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

// verdicts returns the verdict for every measured target.
func (r *report) verdicts() []verdict {
	var list []verdict
	for _, c := range races {
		var pairs []pair
		for _, p := range r.pairs {
			if p.race.name == c.name {
				pairs = append(pairs, p)
			}
		}
		if len(pairs) > 0 {
			list = append(list, judgeRace(pairs)...)
		}
	}
	list = append(list, r.churn.verdicts()...)
	list = append(list, r.attacked.verdicts()...)
	if r.quiet != nil {
		n := r.quiet.other()
		list = append(list, verdict{"quiet: no requests except for the lease",
			fmt.Sprintf("%d in %s at %d nodes (%s), %.2f CPU s", n, quietTime, r.quiet.nodes, methods(r.quiet.used), r.quiet.used.cpu.Seconds()), n == 0})
	}
	list = append(list, judgePlan(r.plan)...)
	if f := r.gr; f != nil {
		list = append(list,
			verdict{"gr: a pass over an unchanged one writes nothing", fmt.Sprintf("%d writes in %d passes at %d nodes", f.writes(), f.passes, f.nodes), f.writes() == 0},
			verdict{fmt.Sprintf("gr: a pass over an unchanged one takes under %s of CPU", maxPass), fmt.Sprintf("%.2f ms", milliseconds(f.perPass())), f.perPass() < maxPass},
			verdict{fmt.Sprintf("gr: manager at most %s", megabytes(maxMemory)), megabytes(f.used.peak) + " at its peak", f.used.peak <= maxMemory})
	}
	return slices.Concat(list, apiVerdicts(r.api), r.bodies.verdicts(), judgeAgent(r.agent), judgeSuccessions(r.successions))
}

// judgeAgent returns the verdicts for the node agent; nil if it was not measured.
func judgeAgent(a *agentUse) []verdict {
	if a == nil {
		return nil
	}
	median := quantile(a.deleted, 50)
	return []verdict{
		{fmt.Sprintf("agent: idle at most %s resident", megabytes(maxAgentMemory)), fmt.Sprintf("%s, %s at its peak", megabytes(a.rss), megabytes(a.peak)), a.rss <= maxAgentMemory},
		{fmt.Sprintf("agent: idle at most %.0f mCPU", maxAgentCPU), fmt.Sprintf("%.1f mCPU, %d writes in %s", a.milliCPU(), a.writes, a.idle), a.milliCPU() <= maxAgentCPU},
		{fmt.Sprintf("agent: POST to the pod's deletion at most %s at the median", maxToDeletion),
			fmt.Sprintf("%.0f ms; p99 %.0f ms", milliseconds(median), milliseconds(quantile(a.deleted, 99))), median <= maxToDeletion},
	}
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

// fixedBudget is the name of the benchmark of one node's event with a fixed budget:
// with a percentage the nodes in flight would grow with the fleet.
const fixedBudget = "budget_50"

// judgePlan returns the verdicts for the planner.
func judgePlan(times []planTime) []verdict {
	var worst time.Duration
	one := map[int]time.Duration{}
	for _, p := range times {
		if p.nodes == 10000 {
			worst = max(worst, p.took)
		}
		if p.state == fixedBudget {
			one[p.nodes] = p.took
		}
	}
	if worst == 0 || one[1000] == 0 {
		return nil
	}
	growth := float64(one[10000]) / float64(one[1000])
	return []verdict{
		{"plan: 10 000 nodes in at most 10 ms", fmt.Sprintf("%.1f ms at worst", milliseconds(worst)), worst <= maxPlan},
		{"plan: one node's event costs no work proportional to the fleet",
			fmt.Sprintf("%s at 1000 nodes, %s at 10 000", one[1000], one[10000]), growth <= maxGrowth},
	}
}
