package rollout

// Proven reports whether the target works on at least one Ready node. An offline
// node counts as updated by the revision of its pods, which proves nothing.
func (d *Decision) Proven() bool {
	for _, n := range d.plan.fleet.nodes {
		if n.Ready && d.plan.verdict(n).State == Updated {
			return true
		}
	}
	return false
}
