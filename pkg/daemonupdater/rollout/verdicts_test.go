package rollout

import (
	"maps"
	"slices"
)

// Verdicts returns the verdicts on all nodes, sorted by name.
func (d *Decision) Verdicts() []Verdict {
	all := make([]Verdict, 0, d.plan.fleet.Len())
	for _, name := range slices.Sorted(maps.Keys(d.plan.fleet.nodes)) {
		all = append(all, d.plan.verdict(d.plan.fleet.nodes[name]))
	}
	return all
}
