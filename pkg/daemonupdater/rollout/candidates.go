package rollout

import "github.com/google/btree"

// candidates are the nodes of one lane, in the order in which they are started.
type candidates struct {
	*lane
	nodes *btree.BTreeG[*fleetNode]
}

// degree of the trees; about what fits into a few cache lines.
const degree = 32

func candidatesOf(l *lane) candidates {
	return candidates{l, btree.NewG(degree, func(a, b *fleetNode) bool { return a.compareHash(b) < 0 })}
}

// firstWaiting returns the first node that has neither a slot nor a failure, one of all
// alike; nil when there is none.
func (c candidates) firstWaiting() (first *fleetNode) {
	c.nodes.Ascend(func(n *fleetNode) bool {
		if n.isEmpty() {
			first = n
		}
		return first == nil
	})
	return first
}

// after returns the first startable node behind another, nil when there is none.
// A nil node is before all.
func (c candidates) after(last *fleetNode) (next *fleetNode) {
	look := func(n *fleetNode) bool {
		if n != last && n.isStartable() {
			next = n
		}
		return next == nil
	}
	if last == nil {
		c.nodes.Ascend(look)
	} else {
		c.nodes.AscendGreaterOrEqual(last, look)
	}
	return next
}

// cursor goes through candidates, up to the last one that was taken.
type cursor struct {
	candidates
	last *fleetNode
}
