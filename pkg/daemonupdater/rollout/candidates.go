package rollout

import "github.com/google/btree"

// candidates are the nodes of one lane, in the order in which they start.
type candidates struct {
	*lane
	nodes *btree.BTreeG[*Node]
}

// degree is that of all B-trees: a tree node of this size fits into a few cache lines.
const degree = 32

func candidatesOf(l *lane) candidates {
	return candidates{l, btree.NewG(degree, func(a, b *Node) bool { return a.compareHash(b) < 0 })}
}

// firstWaiting returns the first node that has neither a slot nor a failure and is not queued,
// nil if there is none. All such nodes of a lane wait for the same reason.
func (c candidates) firstWaiting() (first *Node) {
	c.nodes.Ascend(func(n *Node) bool {
		if n.isEmpty() {
			first = n
		}
		return first == nil
	})
	return first
}

// after returns the next startable node after last, nil if there is none. With a nil last it
// returns the first one.
func (c candidates) after(last *Node) (next *Node) {
	look := func(n *Node) bool {
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

// cursor iterates over candidates; last is the one that was taken last, nil before the first.
type cursor struct {
	candidates
	last *Node
}
