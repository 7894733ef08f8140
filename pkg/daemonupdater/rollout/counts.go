package rollout

// nodeCounts counts nodes by their facts.
type nodeCounts struct {
	nodes int
	// inFlight counts by live facts, not by the ledger; unavailable nodes count against a limit.
	inFlight, unavailable int
	// leftOut counts the nodes excluded because the upgrade is limited to other nodes.
	leftOut int
	byPhase [phases]int
}

// add adds a node the given number of times; -1 removes it.
func (c *nodeCounts) add(n *fleetNode, times int) {
	c.nodes += times
	c.byPhase[n.phase] += times
	if n.LeftOut {
		c.leftOut += times
	}
	if n.moving {
		c.inFlight += times
	}
	if n.unavailable {
		c.unavailable += times
	}
}

// unfinished counts the Ready nodes with work left, without those that the upgrade leaves out.
func (c *nodeCounts) unfinished() int {
	return c.nodes - c.byPhase[phaseUpdated] - c.byPhase[phaseOffline] - c.byPhase[phaseExcluded] - c.byPhase[phaseNoSuccessor] -
		c.byPhase[phaseAgentTooOld] - c.byPhase[phaseKept]
}
