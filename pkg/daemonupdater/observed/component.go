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

// needsOf returns by component the node agent capabilities, sorted, that an operation needs to change it; none if its
// pods are only replaced.
func needsOf(book *upgradeplan.LogicBook, members []Member) map[string][]string {
	var deployed []string
	for _, m := range members {
		if book.Disruption([]string{m.Component()}, false) != "" {
			deployed = append(deployed, m.Component())
		}
	}
	var nodes []upgradeplan.Node // one for each component, with its name
	for i, component := range deployed {
		if heavy(book, component) && !isOfNode(book, component) && !slices.Contains(deployed[:i], component) {
			nodes = append(nodes, upgradeplan.Node{Name: component, Deployed: deployed, Changed: []string{component}})
		}
	}
	if len(nodes) == 0 {
		return nil
	}
	tasks, err := upgradeplan.Generate(*book, nodes)
	if err != nil {
		return nil // NewOperation reports the error
	}
	needs := map[string][]string{}
	for _, t := range tasks {
		if capability := t.Capability(); capability != "" && !slices.Contains(needs[t.Host], capability) {
			needs[t.Host] = append(needs[t.Host], capability)
		}
	}
	for _, capabilities := range needs {
		slices.Sort(capabilities)
	}
	return needs
}

// isOfNode reports whether the book has something by this name that is no component, but a part of the node.
func isOfNode(book *upgradeplan.LogicBook, name string) bool {
	return slices.ContainsFunc(book.Targets, func(t upgradeplan.Target) bool { return t.Name == name && t.OfNode })
}

// isReplacedWithOthers reports whether pods of a component are replaced when another component changes.
func isReplacedWithOthers(book *upgradeplan.LogicBook, component string) bool {
	return slices.ContainsFunc(book.Targets, func(t upgradeplan.Target) bool {
		return t.Name == component && slices.ContainsFunc(t.Needs, func(n upgradeplan.Need) bool { return len(n.Changed) > 0 })
	})
}
