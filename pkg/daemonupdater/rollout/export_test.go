package rollout

import (
	"maps"
	"slices"
)

// Verdicts returns the verdicts on all nodes, sorted by name.
func (d *Decision) Verdicts() []Verdict {
	all := make([]Verdict, 0, d.fleet.Len())
	for _, name := range slices.Sorted(maps.Keys(d.fleet.nodes.byName)) {
		all = append(all, d.explanation.verdict(d.fleet.nodes.byName[name]))
	}
	return all
}
