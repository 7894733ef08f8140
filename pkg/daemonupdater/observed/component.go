package observed

import (
	"slices"

	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

// heavy reports whether changing a component takes more than replacing a pod (design section 2).
func heavy(book *upgradeplan.LogicBook, component string) bool {
	disruption := book.Disruption([]string{component}, false)
	return disruption != "" && disruption != upgradeplan.ReplacePod
}

// needsOf returns the node agent capabilities, sorted, that an operation needs to change a component; none if its pods are
// only replaced.
func needsOf(book *upgradeplan.LogicBook, members []Member, component string) (needs []string) {
	if !heavy(book, component) {
		return nil
	}
	node := upgradeplan.Node{Name: "node", Changed: []string{component}}
	for _, m := range members {
		if book.Disruption([]string{m.Component()}, false) != "" {
			node.Deployed = append(node.Deployed, m.Component())
		}
	}
	tasks, err := upgradeplan.Generate(*book, []upgradeplan.Node{node})
	if err != nil {
		return nil // NewOperation reports the error
	}
	for _, t := range tasks {
		if capability := t.Capability(); capability != "" {
			needs = append(needs, capability)
		}
	}
	slices.Sort(needs)
	return slices.Compact(needs)
}

// isReplacedWithOthers reports whether pods of a component are replaced when another component changes.
func isReplacedWithOthers(book *upgradeplan.LogicBook, component string) bool {
	return slices.ContainsFunc(book.Targets, func(t upgradeplan.Target) bool {
		return t.Name == component && slices.ContainsFunc(t.Needs, func(n upgradeplan.Need) bool { return len(n.Changed) > 0 })
	})
}
