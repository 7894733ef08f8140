package rollout

import (
	"slices"
	"strings"
	"time"
)

// Counts has one number per state; they add up to Total.
type Counts struct {
	Total, Updated, InFlight, Pending, Held, Skipped, Failed, Pinned int
}

// Of returns the number of nodes in a state.
func (c Counts) Of(s State) int {
	switch s {
	case Updated:
		return c.Updated
	case InFlight:
		return c.InFlight
	case Pending:
		return c.Pending
	case Held:
		return c.Held
	case Skipped:
		return c.Skipped
	case Failed:
		return c.Failed
	case Pinned:
		return c.Pinned
	}
	return 0
}

// Waiting says why some nodes are not being upgraded.
type Waiting struct {
	Reason Reason
	// State is Pending or Held.
	State State
	// Message is the message of one of these nodes.
	Message string
	// Nodes is the number of nodes that wait for this reason.
	Nodes int
}

// countWaiting sums up why nodes wait, the most common reason first. All nodes of a lane or phase wait
// for the same reason, so it evaluates one node of each.
func countWaiting(f *Fleet, e *explanation) []Waiting {
	w := waitingList{explanation: e}
	left := f.all.byPhase
	inLanes := map[*lane]int{}
	for _, n := range f.nodes.recorded {
		if !n.isEmpty() {
			left[n.phase]--
			inLanes[n.lane]++
		}
		if n.queued && n.slot == nil && n.failure == nil && n.phase > phaseOffline {
			w.add(1, n)
		}
	}
	for p := phaseJustOffline; p < phaseCandidate; p++ {
		w.add(left[p], exampleOf(f, p))
	}
	f.lanes.Ascend(func(c candidates) bool {
		w.add(c.nodes.Len()-inLanes[c.lane], c.firstWaiting())
		return true
	})
	slices.SortStableFunc(w.list, func(a, b Waiting) int {
		if a.Nodes != b.Nodes {
			return b.Nodes - a.Nodes
		}
		return strings.Compare(string(a.Reason), string(b.Reason))
	})
	return w.list
}

// waitingList has one element per reason.
type waitingList struct {
	*explanation
	list []Waiting
}

// add counts a number of nodes that wait for the same reason as the given one.
func (w *waitingList) add(nodes int, like *Node) {
	if nodes == 0 {
		return
	}
	reason, message := w.waitsFor(like)
	for i := range w.list {
		if w.list[i].Reason == reason {
			w.list[i].Nodes += nodes
			return
		}
	}
	w.list = append(w.list, Waiting{Reason: reason, State: reason.State(), Message: message, Nodes: nodes})
}

// exampleOf returns a node that stands for a phase without lanes.
func exampleOf(f *Fleet, p phase) *Node {
	like := &Node{group: &f.group, facts: facts{phase: p}}
	if tree := f.byPhase[p]; tree != nil {
		tree.Ascend(func(n *Node) bool {
			like = n
			return !n.isEmpty()
		})
	}
	return like
}

// stepped returns when a task of an operation in flight last ended, zero if none has.
func stepped(d *draft) (last time.Time) {
	for i := range d.ledger.Slots {
		slot := &d.ledger.Slots[i]
		if n := d.fleet.nodes.byName[slot.Node]; n != nil && slot.operationOn(n) != nil {
			last = later(last, n.Operation.LastTaskEnd)
		}
	}
	return last
}

// offlineSince returns when the longest current outage of a skipped node began, zero if no node is skipped.
func offlineSince(f *Fleet) (first time.Time) {
	f.offline.Ascend(func(n timedNode) bool {
		counts := n.node.slot != nil || n.node.failure != nil // as in flight, or as failed
		if !counts {
			first = n.at
		}
		return counts
	})
	return first
}

// gone returns the nodes of failures that are not in the fleet.
func (f *Fleet) gone(failures []Failure) (names []string) {
	for i := range failures {
		if name := failures[i].Node; f.nodes.byName[name] == nil {
			names = append(names, name)
		}
	}
	return names
}

// countStates sums up the states of all nodes. Nodes that failed and are gone count as failed, and in the total.
func countStates(f *Fleet, waiting []Waiting, failures []Failure) Counts {
	gone := len(f.gone(failures))
	c := Counts{Total: f.Len() + gone, Failed: gone, Updated: f.all.byPhase[phaseUpdated], Skipped: f.all.byPhase[phaseOffline], Pinned: f.all.byPhase[phasePinned]}
	for _, n := range f.nodes.recorded {
		switch {
		case n.slot != nil:
			c.InFlight++
		case n.failure != nil:
			c.Failed++
		default:
			continue
		}
		switch n.phase {
		case phaseUpdated:
			c.Updated--
		case phasePinned:
			c.Pinned--
		case phaseOffline:
			c.Skipped--
		}
	}
	for _, w := range waiting {
		if w.State == Held {
			c.Held += w.Nodes
		} else {
			c.Pending += w.Nodes
		}
	}
	return c
}
