package upgradeplan

import (
	"runtime"
	"testing"
)

// Unlike the duration (docs/benchmarks.md), allocations do not depend on the machine.
// Contract 97.
func TestAPlanFor10000NodesAndTenComponentsAllocatesAtMost200MB(t *testing.T) {
	book, nodes := largeFleet(10_000)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	m := mustPlan(t, book, nodes, 1000)
	runtime.ReadMemStats(&after)
	if mb := (after.TotalAlloc - before.TotalAlloc) / 1e6; mb > 200 {
		t.Errorf("%d MB were allocated", mb)
	}
	if got := count(m); got.hosts != 10_000 || got.tasks < 10_000*2*len(nodes[0].Changed) {
		t.Errorf("the plan is not of the whole fleet: %+v", got)
	}
}

func TestAnotherNodeCostsTheSameInALargeFleetAsInASmallOne(t *testing.T) {
	perNode := func(n int) float64 {
		book, nodes := largeFleet(n)
		return testing.AllocsPerRun(3, func() { mustPlan(t, book, nodes, n/10) }) / float64(n)
	}
	small, large := perNode(200), perNode(4000)
	if large > small || large > 10 {
		t.Errorf("%.1f allocations for a node of 200, %.1f for one of 4000", small, large)
	}
}
