package rollout

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/google/btree"
)

// Fleet keeps the nodes of a group between decisions, counted and sorted, so that an event of one
// node causes work for that node only. A Fleet that received every change makes the same decisions
// as a new one. It is not safe for concurrent use.
type Fleet struct {
	group group
	nodes nodeIndex

	all   nodeCounts
	pools map[string]*nodeCounts
	waves []nodeCounts
	lanes *btree.BTreeG[candidates]
	// byPhase holds the nodes of the phases that are reported by name or by example.
	byPhase map[phase]*btree.BTreeG[*Node]
	// suspects are nodes with a suspect pod.
	suspects *btree.BTreeG[*Node]
	// onProbation are the nodes on probation.
	onProbation *btree.BTreeG[*Node]
	// due are the nodes whose facts change by time alone.
	due *btree.BTreeG[timedNode]
	// offline are the offline nodes, by when they became so.
	offline *btree.BTreeG[timedNode]
	// preparing are the nodes with an operation that waits for its grant, by node name.
	preparing map[string]*Node
	// requestedPulls are the nodes whose agent is pulling images, by node name.
	requestedPulls map[string]*Node
	// operating are the nodes with an operation of the group at work, by node name.
	operating map[string]*Node
	// outside are nodes that left the group with one of its operations on them, by name.
	outside map[string]Node
	// pins of the ledger by node name.
	pins map[string][]Pin
	// lengths counts the nodes by the length of their names.
	lengths map[int]int
	// advanced names the nodes whose facts have changed by time alone since the last decision.
	advanced []string
	// unassigned: nodes or labels changed since waves were last assigned.
	unassigned bool
}

// timedNode is a node, sorted by a time.
type timedNode struct {
	at   time.Time
	node *Node
}

// NewFleet returns a fleet of in.Nodes with the Members, strategy and Policy of in. When one of
// these changes, a new fleet is needed.
func NewFleet(in *Input) *Fleet {
	byName := func(a, b *Node) bool { return a.Name < b.Name }
	byTime := func(a, b timedNode) bool {
		return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.node.Name, b.node.Name)) < 0
	}
	f := &Fleet{
		group: groupOf(in),
		nodes: nodeIndex{byName: make(map[string]*Node, len(in.Nodes))}, pools: map[string]*nodeCounts{},
		waves:    make([]nodeCounts, in.Policy.partCount()),
		lanes:    btree.NewG(degree, func(a, b candidates) bool { return a.compare(b.lane) < 0 }),
		byPhase:  map[phase]*btree.BTreeG[*Node]{},
		suspects: btree.NewG(degree, byName), onProbation: btree.NewG(degree, byName), preparing: map[string]*Node{}, requestedPulls: map[string]*Node{}, operating: map[string]*Node{}, outside: map[string]Node{},
		lengths: map[int]int{}, due: btree.NewG(degree, byTime), offline: btree.NewG(degree, byTime),
	}
	for _, p := range []phase{phaseOffline, phaseJustOffline, phaseUnavailable, phaseRecentlyReturned, phaseBusy, phaseDeferred, phasePrepullFailed, phaseSetBack, phaseHeld, phaseLeftToAdministrator, phaseNoSuccessor, phaseVersionNotAllowed, phaseAgentTooOld, phaseRecovering, phaseKeptCordoned} {
		f.byPhase[p] = btree.NewG(degree, byName)
	}
	f.pin(in.Ledger.Pins, in.Now)
	for i := range in.Nodes {
		f.Set(in.Nodes[i], in.Now)
	}
	return f
}

// Len is the number of nodes.
func (f *Fleet) Len() int { return len(f.nodes.byName) }

// Node returns the last known state of a node, nil if there is none of that name.
func (f *Fleet) Node(name string) *Node {
	return f.nodes.byName[name]
}

// Set adds or replaces a node, of which only what was observed counts. One that should not run the group is not in the
// fleet; it is kept only while an operation of the group is on it.
func (f *Fleet) Set(node Node, now time.Time) {
	if len(node.Pods) == 0 {
		f.Remove(node.Name)
		if node.Operation != nil && node.Operation.Ours {
			f.outside[node.Name] = node
		}
		return
	}
	delete(f.outside, node.Name)
	node = withPins(node, f.pins[node.Name], f.group.members)
	n := &node
	n.group, n.hash, n.pins, n.lane, n.ledgerEntry = &f.group, hashOf(n.Name), f.pins[n.Name], nil, ledgerEntry{}
	n.wave = f.group.policy.partOf(len(f.group.policy.Waves), n)
	old := f.nodes.byName[n.Name]
	if old != nil {
		f.leave(old)
		n.wave = old.wave
	}
	if len(f.waves) > 1 && (old == nil || !maps.Equal(old.Labels, n.Labels)) {
		f.unassigned = true
	}
	f.nodes.byName[n.Name] = n
	n.facts = f.group.factsOf(n, now)
	f.enter(n)
}

// Remove removes a node whose Node object is gone.
func (f *Fleet) Remove(name string) {
	delete(f.outside, name)
	if n := f.nodes.byName[name]; n != nil {
		f.leave(n)
		delete(f.nodes.byName, name)
		f.unassigned = f.unassigned || len(f.waves) > 1
	}
}

// enter counts a node and adds it to the indexes that its facts belong to.
func (f *Fleet) enter(n *Node) {
	f.count(n, +1)
	if tree := f.byPhase[n.phase]; tree != nil {
		tree.ReplaceOrInsert(n)
	}
	if !n.changes.IsZero() {
		f.due.ReplaceOrInsert(timedNode{n.changes, n})
	}
	if n.phase == phaseOffline {
		f.offline.ReplaceOrInsert(timedNode{n.ReadySince, n})
	}
	if n.phase == phaseCandidate {
		c := f.candidatesLike(n)
		c.nodes.ReplaceOrInsert(n)
		n.lane = c.lane
	}
	if n.suspect != nil {
		f.suspects.ReplaceOrInsert(n)
	}
	if n.onProbation {
		f.onProbation.ReplaceOrInsert(n)
	}
	if n.Operation.awaitsGrant() {
		f.preparing[n.Name] = n
	}
	if n.phase == phaseCandidate && n.pull == PullRequested {
		f.requestedPulls[n.Name] = n
	}
	if n.Operation.isOursAtWork() {
		f.operating[n.Name] = n
	}
}

// leave undoes enter.
func (f *Fleet) leave(n *Node) {
	f.count(n, -1)
	if tree := f.byPhase[n.phase]; tree != nil {
		tree.Delete(n)
	}
	if !n.changes.IsZero() {
		f.due.Delete(timedNode{n.changes, n})
	}
	if n.phase == phaseOffline {
		f.offline.Delete(timedNode{n.ReadySince, n})
	}
	if n.suspect != nil {
		f.suspects.Delete(n)
	}
	if n.onProbation {
		f.onProbation.Delete(n)
	}
	delete(f.preparing, n.Name)
	delete(f.requestedPulls, n.Name)
	delete(f.operating, n.Name)
	if n.lane == nil {
		return
	}
	c, _ := f.lanes.Get(candidates{lane: n.lane})
	n.lane = nil
	if c.nodes.Delete(n); c.nodes.Len() == 0 {
		f.lanes.Delete(c)
	}
}

// count adds a node to all counts it belongs to; times is 1, or -1 to remove it.
func (f *Fleet) count(n *Node, times int) {
	pool := f.pools[n.Pool]
	if pool == nil {
		pool = &nodeCounts{}
		f.pools[n.Pool] = pool
	}
	for _, c := range []*nodeCounts{&f.all, pool, &f.waves[n.wave]} {
		c.add(n, times)
	}
	if pool.nodes == 0 {
		delete(f.pools, n.Pool)
	}
	if f.lengths[len(n.Name)] += times; f.lengths[len(n.Name)] == 0 {
		delete(f.lengths, len(n.Name))
	}
}

// longestName returns the length of the longest name of a node.
func (f *Fleet) longestName() (longest int) {
	for length := range f.lengths {
		longest = max(longest, length)
	}
	return longest
}

// candidatesLike returns the candidates of the lane that a node belongs to.
func (f *Fleet) candidatesLike(n *Node) candidates {
	l := n.candidateLane()
	if c, ok := f.lanes.Get(candidates{lane: &l}); ok {
		return c
	}
	c := candidatesOf(&l)
	f.lanes.ReplaceOrInsert(c)
	return c
}

// begin prepares a decision: it clears the records of the last one and updates the facts that have
// changed by time alone.
func (f *Fleet) begin(now time.Time) {
	f.nodes.clear()
	f.advanced = nil
	f.advance(now)
	if f.unassigned {
		f.assignWaves()
		f.unassigned = false
	}
}

// advance updates the nodes whose facts have changed by time alone: pods became available, or nodes
// that returned may start.
func (f *Fleet) advance(now time.Time) {
	for {
		first, ok := f.due.Min()
		if !ok || first.at.After(now) {
			return
		}
		n := first.node
		f.advanced = append(f.advanced, n.Name)
		f.leave(n)
		n.Pods = slices.Clone(n.Pods)
		for i := range n.Pods {
			if at := n.Pods[i].AvailableAt; !at.IsZero() && !at.After(now) {
				n.Pods[i].Available, n.Pods[i].AvailableAt = true, time.Time{}
			}
		}
		n.facts = f.group.factsOf(n, now)
		f.enter(n)
	}
}

// nextChange returns how long until facts change by time alone, 0 for never.
func (f *Fleet) nextChange(now time.Time) time.Duration {
	if first, ok := f.due.Min(); ok {
		return first.at.Sub(now)
	}
	return 0
}

// assignWaves gives every node the index of its part of a wave (batches.go).
func (f *Fleet) assignWaves() {
	policy := f.group.policy
	nodes := slices.Collect(maps.Values(f.nodes.byName))
	policy.divide(nodes, func(n *Node, wave int) { f.moveToWave(n, policy.partOf(wave, n)) })
}

func (f *Fleet) moveToWave(n *Node, wave int) {
	if n.wave != wave {
		f.leave(n)
		n.wave = wave
		f.enter(n)
	}
}

// withPins returns a copy of a node with those pins set in its pods that hold for its machine.
func withPins(node Node, pins []Pin, members []Member) Node {
	if len(pins) == 0 && !slices.ContainsFunc(node.Pods, func(p Pod) bool { return p.Pin != "" }) {
		return node
	}
	node.Pods = slices.Clone(node.Pods)
	for i := range node.Pods {
		pod := &node.Pods[i]
		pod.Pin = ""
		for k := range pins {
			if pins[k].Member == members[pod.Member].Key && pins[k].AppliesTo(node.Machine) {
				pod.Pin = pins[k].Revision
			}
		}
	}
	return node
}

// pin replaces the pins of the fleet by those of a ledger.
func (f *Fleet) pin(pins []Pin, now time.Time) {
	next := map[string][]Pin{}
	for _, p := range pins {
		next[p.Node] = append(next[p.Node], p)
	}
	before := f.pins
	f.pins = next
	for name := range before {
		f.pinAgain(name, before[name], now)
	}
	for name := range next {
		if _, done := before[name]; !done {
			f.pinAgain(name, nil, now)
		}
	}
}

// pinAgain derives the facts of a node again if its pins have changed.
func (f *Fleet) pinAgain(name string, before []Pin, now time.Time) {
	if n := f.nodes.byName[name]; n != nil && !slices.Equal(before, f.pins[name]) {
		f.Set(*n, now)
	}
}

// isImageDoubtful reports whether the new image seems to be bad: many nodes cannot pull it, and no node runs it.
func (f *Fleet) isImageDoubtful() bool {
	return f.byPhase[phasePrepullFailed].Len() >= maxFailedPulls && f.all.byPhase[phaseUpdated] == 0
}
