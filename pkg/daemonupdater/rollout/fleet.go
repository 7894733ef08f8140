package rollout

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/google/btree"

	"github.com/topsops/gcu-operator/pkg/daemonset"
)

// Fleet holds the nodes of a group between decisions, counted and put in order,
// so that one node's event costs the work for that node and not for the fleet.
// A Fleet that followed every change gives the same decisions as a new one.
// It is not safe for concurrent use.
type Fleet struct {
	// frame is what facts of a node depend on besides the node.
	frame frame
	nodes map[string]*nodeFacts

	all   tally
	pools map[string]*tally
	waves []tally
	lanes *btree.BTreeG[*lane]
	// listed are the nodes people are told about by name, by standing.
	listed map[standing]*btree.BTreeG[*nodeFacts]
	// lapsed are the nodes that went offline shortly after they were updated.
	lapsed *btree.BTreeG[*nodeFacts]
	// due are the nodes whose facts change by time alone.
	due *btree.BTreeG[dueNode]
	// preparing are the nodes with an operation that waits for its grant, by name.
	preparing map[string]*nodeFacts
	// unassigned: nodes or labels changed since waves were assigned.
	unassigned bool
	// marked are the nodes that held a slot or a failure in the last decision.
	marked []*nodeFacts
}

// frame is what the facts of a node depend on besides the node itself.
type frame struct {
	strategy daemonset.Strategy
	members  []Member
	policy   Policy
}

// dueNode is a node whose facts change at a moment.
type dueNode struct {
	at   time.Time
	node *nodeFacts
}

// degree of the trees; about what fits into a few cache lines.
const degree = 32

// NewFleet makes a fleet of in.Nodes under the Members, the strategy and the
// Policy of in. When one of these changes, a new fleet is needed.
func NewFleet(in *Input) *Fleet {
	byName := func(a, b *nodeFacts) bool { return a.Name < b.Name }
	f := &Fleet{
		frame: frame{strategy: in.Settings.Strategy, members: in.Members, policy: in.Policy},
		nodes: make(map[string]*nodeFacts, len(in.Nodes)), pools: map[string]*tally{},
		waves: make([]tally, len(in.Policy.Waves)+1),
		lanes: btree.NewG(degree, func(a, b *lane) bool { return a.compare(b) < 0 }),
		listed: map[standing]*btree.BTreeG[*nodeFacts]{
			away: btree.NewG(degree, byName), ailing: btree.NewG(degree, byName), resting: btree.NewG(degree, byName),
			occupied: btree.NewG(degree, byName), deferred: btree.NewG(degree, byName), withheld: btree.NewG(degree, byName),
		},
		lapsed: btree.NewG(degree, byName), preparing: map[string]*nodeFacts{},
		due: btree.NewG(degree, func(a, b dueNode) bool {
			return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.node.Name, b.node.Name)) < 0
		}),
	}
	for i := range in.Nodes {
		f.Set(in.Nodes[i], in.Now)
	}
	return f
}

// Len is the number of nodes.
func (f *Fleet) Len() int { return len(f.nodes) }

// Node returns what was last said of a node, nil when there is none of that name.
func (f *Fleet) Node(name string) *Node {
	if n := f.nodes[name]; n != nil {
		return &n.Node
	}
	return nil
}

// Set adds a node, or replaces what is known of it, as of now.
func (f *Fleet) Set(node Node, now time.Time) {
	facts := &nodeFacts{Node: node, frame: &f.frame, hash: hashOf(node.Name), wave: len(f.frame.policy.Waves)}
	old := f.nodes[node.Name]
	if old != nil {
		f.leave(old)
		facts.wave = old.wave
	}
	if len(f.waves) > 1 && (old == nil || !maps.Equal(old.Labels, node.Labels)) {
		f.unassigned = true
	}
	f.nodes[node.Name] = facts
	facts.examine(now)
	f.enter(facts)
}

// Remove forgets a node that is gone or should not run the group any more.
func (f *Fleet) Remove(name string) {
	if node := f.nodes[name]; node != nil {
		f.leave(node)
		delete(f.nodes, name)
		f.unassigned = f.unassigned || len(f.waves) > 1
	}
}

// enter counts a node and puts it where it belongs by its facts.
func (f *Fleet) enter(n *nodeFacts) {
	f.count(n, +1)
	if tree := f.listed[n.standing]; tree != nil {
		tree.ReplaceOrInsert(n)
	}
	if !n.changes.IsZero() {
		f.due.ReplaceOrInsert(dueNode{n.changes, n})
	}
	if n.standing == candidate {
		f.laneOf(n).add(n)
	}
	if n.lapsed != nil {
		f.lapsed.ReplaceOrInsert(n)
	}
	if n.preparing() {
		f.preparing[n.Name] = n
	}
}

// leave takes back what enter did.
func (f *Fleet) leave(n *nodeFacts) {
	f.count(n, -1)
	if tree := f.listed[n.standing]; tree != nil {
		tree.Delete(n)
	}
	if !n.changes.IsZero() {
		f.due.Delete(dueNode{n.changes, n})
	}
	if n.lapsed != nil {
		f.lapsed.Delete(n)
	}
	delete(f.preparing, n.Name)
	if l := n.lane; l != nil {
		if l.remove(n); l.nodes.Len() == 0 {
			f.lanes.Delete(l)
		}
	}
}

// count adds a node to all tallies it belongs to, or takes it out.
func (f *Fleet) count(n *nodeFacts, by int) {
	pool := f.pools[n.Pool]
	if pool == nil {
		pool = &tally{}
		f.pools[n.Pool] = pool
	}
	for _, t := range []*tally{&f.all, pool, &f.waves[n.wave]} {
		t.add(n, by)
	}
	if pool.nodes == 0 {
		delete(f.pools, n.Pool)
	}
}

// laneOf returns the lane a candidate belongs to.
func (f *Fleet) laneOf(n *nodeFacts) *lane {
	key := n.laneKey()
	if l, ok := f.lanes.Get(&lane{laneKey: key}); ok {
		return l
	}
	l := newLane(key)
	f.lanes.ReplaceOrInsert(l)
	return l
}

// advance lets time pass: pods become available, returned nodes have rested.
func (f *Fleet) advance(now time.Time) {
	for {
		first, ok := f.due.Min()
		if !ok || first.at.After(now) {
			return
		}
		n := first.node
		f.leave(n)
		n.Pods = slices.Clone(n.Pods)
		for i := range n.Pods {
			if at := n.Pods[i].AvailableAt; !at.IsZero() && !at.After(now) {
				n.Pods[i].Available, n.Pods[i].AvailableAt = true, time.Time{}
			}
		}
		n.examine(now)
		f.enter(n)
	}
}

// nextChange is how long until facts change by time alone, 0 for never.
func (f *Fleet) nextChange(now time.Time) time.Duration {
	if first, ok := f.due.Min(); ok {
		return first.at.Sub(now)
	}
	return 0
}

// begin prepares a decision: nothing of the last one is left.
func (f *Fleet) begin(now time.Time) {
	for _, n := range f.marked {
		n.marked, n.queued, n.slot, n.failure = false, false, nil, nil
	}
	f.marked = f.marked[:0]
	f.advance(now)
	if f.unassigned {
		f.assignWaves()
		f.unassigned = false
	}
}

// mark notes that a node has a slot or a failure in this decision.
func (f *Fleet) mark(n *nodeFacts, slot *Slot, failure *Failure) {
	if !n.marked {
		n.marked = true
		f.marked = append(f.marked, n)
	}
	n.slot, n.failure = slot, failure
}

// queue notes that a node is queued in this decision.
func (f *Fleet) queue(n *nodeFacts) {
	f.mark(n, n.slot, n.failure)
	n.queued = true
}
