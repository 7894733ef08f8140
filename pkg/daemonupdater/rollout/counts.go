package rollout

// nodeCounts are numbers of nodes by their facts.
type nodeCounts struct {
	nodes int
	// inFlight by live facts; unavailable ones count against a limit.
	inFlight, unavailable int
	// leftOut are those that the upgrade is limited to others than.
	leftOut int
	byPhase [phases]int
}

// add counts a node so many times; -1 takes it out.
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

// unfinished counts the Ready nodes at which something is left to do that the upgrade is not
// limited to other nodes or components for.
func (c *nodeCounts) unfinished() int {
	return c.nodes - c.byPhase[phaseUpdated] - c.byPhase[phaseOffline] - c.byPhase[phaseExcluded]
}
