package daemonupdater

import (
	"slices"
	"time"

	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/report"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
)

// fleet is what is remembered of a group's nodes between passes, so that one
// node's event costs the work for that node. It follows the caches: events name
// the nodes to read again, and another key makes it anew.
type fleet struct {
	*rollout.Fleet
	// key is that of the state, and revision that of the input that the fleet was made with.
	key, revision string
	reported      *report.Nodes
	// confirmed are the members, by index, whose target was found to be the newest
	// past the cache.
	confirmed map[int]bool
}

func newFleet(s *observed.State, in *rollout.Input, nodes map[string]*observed.Node) *fleet {
	f := &fleet{Fleet: rollout.NewFleet(in), key: s.CacheKey(in), revision: in.Revision, reported: report.NewNodes(), confirmed: map[int]bool{}}
	zones := observed.Zones{}
	for name, n := range nodes {
		f.update(s, name, n, zones, in.Now)
	}
	return f
}

// update takes in what was read of a node.
func (f *fleet) update(s *observed.State, name string, of *observed.Node, zones observed.Zones, now time.Time) {
	f.reported.Set(s, name, of, now)
	if of.Object != nil {
		if n := s.RolloutNode(of, f.revision, zones, now); len(n.Pods) > 0 {
			f.Set(n, now)
			return
		}
	}
	f.Remove(name)
}

// holdsSlot reports whether a slot is left of a node that is still there.
func (f *fleet) holdsSlot(d *rollout.Decision) bool {
	return slices.ContainsFunc(d.Ledger.Slots, func(s rollout.Slot) bool { return f.Node(s.Node) != nil })
}
