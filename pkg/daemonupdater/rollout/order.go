package rollout

import (
	"cmp"
	"hash/fnv"
	"slices"
)

// candidates returns the nodes that may start, best first: unavailable ones,
// then wave by wave, control plane nodes where the policy wants them, then zone by zone in turn, within a zone by a stable hash of the name, so that
// the same input gives the same order and neighbours by name are spread.
func (p *planner) candidates() []*nodeFacts {
	var list []candidate
	for i := range p.nodes {
		if node := &p.nodes[i]; node.startable() {
			list = append(list, candidate{node: node, healthy: node.available(), role: p.role(node), hash: hashOf(node.Name)})
		}
	}
	slices.SortFunc(list, func(a, b candidate) int {
		return cmp.Or(a.compareClass(b), cmp.Compare(a.node.Zone, b.node.Zone),
			cmp.Compare(a.hash, b.hash), cmp.Compare(a.node.Name, b.node.Name))
	})
	takeTurns(list)
	slices.SortStableFunc(list, func(a, b candidate) int {
		return cmp.Or(a.compareClass(b), cmp.Compare(a.turn, b.turn))
	})
	nodes := make([]*nodeFacts, len(list))
	for i := range list {
		nodes[i] = list[i].node
	}
	return nodes
}

// candidate is a node that may start; turn is its place within its zone.
type candidate struct {
	node    *nodeFacts
	healthy bool
	role    int
	hash    uint64
	turn    int
}

// compareClass compares all that comes before the turns of zones: unavailable
// nodes first, then by wave, then by the place of control plane nodes.
func (c candidate) compareClass(other candidate) int {
	return cmp.Or(compareBool(c.healthy, other.healthy), cmp.Compare(c.node.wave, other.node.wave), cmp.Compare(c.role, other.role))
}

// role is the place of a node in the order by the policy: lower is earlier.
func (p *planner) role(node *nodeFacts) int {
	switch {
	case !node.ControlPlane || p.in.Policy.ControlPlane == ControlPlaneAny:
		return 0
	case p.in.Policy.ControlPlane == ControlPlaneFirst:
		return -1
	}
	return 1
}

func takeTurns(list []candidate) {
	for i := 1; i < len(list); i++ {
		if list[i].compareClass(list[i-1]) == 0 && list[i].node.Zone == list[i-1].node.Zone {
			list[i].turn = list[i-1].turn + 1
		}
	}
}

// startable: Ready, without a slot, with something to replace, and not failed
// at this revision. A failed node starts again when it was lost and is back, or
// when its person asks again.
func (f *nodeFacts) startable() bool {
	if !f.Ready || f.slot != nil || !f.wants {
		return false
	}
	return f.failure == nil || f.failure.Reason == ReasonNodeLost || f.askedAfter(f.failure)
}

func (f *nodeFacts) askedAfter(failure *Failure) bool {
	for i := range f.Pods {
		if r := f.Pods[i].Request; r != nil && r.Time.After(failure.Since) {
			return true
		}
	}
	return false
}

func hashOf(name string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name)) // never fails
	return h.Sum64()
}

// compareBool orders false before true.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}
