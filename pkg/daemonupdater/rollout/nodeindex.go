package rollout

import "k8s.io/apimachinery/pkg/types"

// nodeIndex finds nodes by name, and lists those for which the current decision recorded
// something.
type nodeIndex struct {
	byName   map[string]*Node
	recorded []*Node
}

// lookup returns the node with a name, nil if there is none or if the name now belongs to another
// Node object than the one in the ledger.
func (i *nodeIndex) lookup(name string, uid types.UID) *Node {
	if n := i.byName[name]; n != nil && n.isOf(uid) {
		return n
	}
	return nil
}

// isOf reports whether the node has the UID in the ledger, which is "" if an older CRD dropped it: then any node does.
func (n *Node) isOf(uid types.UID) bool { return n.UID == uid || uid == "" }

// record records the slot and the failure of a node.
func (i *nodeIndex) record(n *Node, slot *Slot, failure *Failure) {
	if !n.listed {
		n.listed = true
		i.recorded = append(i.recorded, n)
	}
	n.slot, n.failure = slot, failure
}

// recordQueued records that a node is queued.
func (i *nodeIndex) recordQueued(n *Node) {
	i.record(n, n.slot, n.failure)
	n.queued = true
}

func (i *nodeIndex) recordFailures(failures []Failure) {
	for k := range failures {
		if n := i.lookup(failures[k].Node, failures[k].UID); n != nil {
			i.record(n, n.slot, &failures[k])
		}
	}
}

// recordLedger records the slots and failures of a ledger unchanged.
func (i *nodeIndex) recordLedger(l *Ledger) {
	for k := range l.Slots {
		switch n := i.lookup(l.Slots[k].Node, l.Slots[k].UID); {
		case n == nil:
		case l.Slots[k].Queued:
			i.recordQueued(n)
		default:
			i.record(n, &l.Slots[k], n.failure)
		}
	}
	i.recordFailures(l.Failures)
}

// clear drops the ledger entries of the last decision.
func (i *nodeIndex) clear() {
	for _, n := range i.recorded {
		n.ledgerEntry = ledgerEntry{}
	}
	i.recorded = i.recorded[:0]
}
