package rollout

import "github.com/topsops/gcu-operator/pkg/daemonset"

// starts gives slots to nodes and starts them.
type starts struct {
	*draft
	budgets *budgets
	// names of the nodes that were started.
	names []string
	// furthest is the last part of the waves of which a node was started in its turn.
	furthest int
	lastTurn int64
}

// newSlot returns a slot for a node, with the next turn.
func (s *starts) newSlot(n *Node) Slot {
	s.lastTurn++
	return s.slotOf(n, s.lastTurn)
}

// start starts a node under a slot.
func (s *starts) start(n *Node, slot *Slot) {
	if !n.isInFlight() {
		s.budgets.use(n.Pool, 1, 0)
	}
	if !n.countsAsUnavailable() {
		s.budgets.use(n.Pool, 0, 1)
	}
	s.budgets.probation.use(n, 1)
	s.ledger.Started++
	if n.failure != nil {
		s.ledger.clearFailure(*n.failure, n.goingBack)
	}
	if slot.Operation = s.operationOf(n); slot.Operation != "" {
		slot.Members = n.membersOf(slot.Operation)
	}
	if l := n.lane; l != nil && l.urgency == healthy && !l.goingBack && s.in.Settings.Strategy != daemonset.OTA {
		s.furthest = max(s.furthest, l.wave)
	}
	slot.restart(s.in.Now, n.Pods)
	s.fleet.nodes.record(n, slot, nil)
	n.queued = false
	s.ledger.LastStart = s.in.Now
	if n.DeniedDeletion == nil && !n.goingBack { // otherwise it is only retried, or goes back: it would count twice
		s.ledger.Touched++
		s.progressed(s.in.Now)
	}
	s.names = append(s.names, n.Name)
}

// operationOf returns the id of the operation of a node that is started: the prepared one, or a new one if the last one has
// ended, also while its node is still being released; "" if pods are just deleted.
func (s *starts) operationOf(n *Node) string {
	switch {
	case !n.heavy:
		return ""
	case n.Operation != nil && !n.Operation.KeptCordoned && endOf(n.Operation.ID, n.Ended) == nil:
		return n.Operation.ID
	}
	return s.newOperation(n)
}
