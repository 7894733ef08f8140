package rollout

import (
	"fmt"
	"time"
)

// A version may kill its node after its pod is available, and Kubernetes notices that only after
// its grace period. So a finished node stays on probation until its kubelet renews its Lease, which
// proves that the node survived the version. At first, as many nodes may be unproven as may be
// unavailable, and one more for each proven node. So a version that kills a node before its next
// heartbeat kills at most one budget of nodes.

// probation limits how many nodes have the new version and are not proven.
type probation struct {
	// limit is the limit of the budget. started counts the nodes that got the version, unproven those of
	// them that are in flight, on probation, or were lost less than Deadlines.Lost ago.
	limit, started, unproven int
	// isOff: nothing is on probation. isAwaited: a node had to wait for others on probation.
	isOff, isAwaited bool
}

// HeartbeatPoll is the interval at which the Leases of nodes on probation are read while others wait for them.
const HeartbeatPoll = time.Second

// probationOf counts the nodes that are not proven.
func probationOf(d *draft, limit int) probation {
	p := probation{limit: limit, started: d.ledger.Started, unproven: d.fleet.onProbation.Len(), isOff: d.in.Deadlines.Probation == 0}
	p.unproven += d.ledger.inFlightAt(d.in.Revision)
	for _, n := range d.fleet.nodes.recorded {
		if n.slot != nil && n.slot.Revision == d.in.Revision && n.onProbation {
			p.unproven-- // it was counted twice
		}
	}
	d.fleet.suspects.Ascend(func(n *Node) bool {
		if left := n.ReadySince.Add(d.in.Deadlines.Lost).Sub(d.in.Now); !n.Ready && left > 0 && d.suspects(n) {
			d.recheckIn(left)
			p.unproven++
		}
		return true
	})
	return p
}

// whyFull returns why no more nodes get the version now, "" if they may.
func (p *probation) whyFull() string {
	if p.isOff || 2*p.unproven < p.limit+p.started {
		return ""
	}
	p.isAwaited = true
	return fmt.Sprintf("%d of %d nodes with this version are not confirmed yet: waiting for the kubelet of each to renew its Lease after its new pods are available",
		p.unproven, p.started)
}

// use adds a node the given number of times.
func (p *probation) use(n *Node, times int) {
	p.started += times
	if !n.onProbation { // otherwise it is already counted
		p.unproven += times
	}
}

// OnProbation returns the names of the nodes that are on probation, sorted.
func (f *Fleet) OnProbation() []string {
	var names []string
	f.onProbation.Ascend(func(n *Node) bool {
		names = append(names, n.Name)
		return true
	})
	return names
}

// Renewed records that the kubelet of a node renewed its Lease, by its own clock.
func (f *Fleet) Renewed(name string, at, now time.Time) {
	if n := f.nodes.byName[name]; n != nil && at.After(n.Renewed) {
		node := *n
		node.Renewed = at
		f.Set(node, now)
	}
}
