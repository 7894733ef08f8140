package rollout

import "fmt"

// nodeCounts counts nodes by their facts.
type nodeCounts struct {
	nodes int
	// inFlight counts by live facts, not by the ledger; charged nodes count against a limit.
	inFlight, charged int
	// leftOut counts the nodes that the upgrade leaves out, brokenLeftOut those of them that are unavailable.
	leftOut, brokenLeftOut int
	// testable counts the other nodes that are not excluded: they could prove a version.
	testable int
	// done counts the Ready nodes on which the upgrade has nothing left to do.
	done int
	// proving counts the Ready nodes that are updated: on an offline one the version may never have run.
	proving int
	// outdated counts the nodes with work left on a pod.
	outdated int
	// behind counts the nodes with a pod that is not at its target.
	behind int
	// unbound counts the nodes with a pod that is not bound to them: nothing shows that they have had its revision.
	unbound int
	// unsettled counts the nodes on which a pod that was replaced lately is not Ready, or was not shortly before.
	unsettled int
	// notPrepulled counts the nodes whose kubelet has to pull images.
	notPrepulled int
	byPhase      [phases]int
}

// add adds a node the given number of times; -1 removes it.
func (c *nodeCounts) add(n *Node, times int) {
	c.nodes += times
	c.byPhase[n.phase] += times
	c.addScope(n, times)
	count := func(is bool, nodes *int) {
		if is {
			*nodes += times
		}
	}
	count(n.Ready && !n.LeftOut && (n.phase == phaseUpdated || n.phase == phaseExcluded), &c.done)
	count(n.Ready && n.phase == phaseUpdated, &c.proving)
	count(n.outdated, &c.outdated)
	count(n.behind, &c.behind)
	count(n.unbound, &c.unbound)
	count(n.notPrepulled, &c.notPrepulled)
	count(n.unsettled, &c.unsettled)
	count(n.moving, &c.inFlight)
	count(n.charged, &c.charged)
}

// addScope adds whether a node is left out, or could prove a version.
func (c *nodeCounts) addScope(n *Node, times int) {
	switch leftOut := isLeftOutOfWaves(n); {
	case leftOut && n.phase == phaseUnavailable:
		c.leftOut += times
		c.brokenLeftOut += times
	case leftOut:
		c.leftOut += times
	case n.phase != phaseExcluded:
		c.testable += times
	}
}

// delayed says how many nodes of a wave wait for a person, "" if none does.
func (c *nodeCounts) delayed() (says string) {
	if held := c.byPhase[phaseHeld]; held > 0 {
		says = fmt.Sprintf("; on hold: %d", held)
	}
	if left := c.byPhase[phaseLeftToAdministrator]; left > 0 {
		says += fmt.Sprintf("; left to the administrator: %d", left)
	}
	return says
}

// isLeftOutOfWaves reports whether the upgrade leaves a node out, by a limit or because the plan has it in no batch, so that no
// wave waits until it works.
func isLeftOutOfWaves(n *Node) bool {
	policy := &n.group.policy
	return n.LeftOut || policy.Plan != "" && n.Batch == len(policy.Batches)
}

// unfinished counts the nodes with work left that a wave waits for.
func (c *nodeCounts) unfinished() int {
	left := c.nodes - c.byPhase[phaseUpdated] - c.byPhase[phaseExcluded] - c.brokenLeftOut
	for _, p := range passedOver {
		left -= c.byPhase[p]
	}
	return left
}
