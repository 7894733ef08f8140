package daemonupdater

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/topsops/gcu-operator/pkg/daemonupdater/deletion"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/gating"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/heartbeat"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/report"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
)

// fleet is the state of a group's nodes kept between passes, so that an event of one node costs
// work for that node only. It follows the caches: events name the nodes to read again, and a
// changed key rebuilds it.
type fleet struct {
	*rollout.Fleet
	// key is the CacheKey, and revision the input revision that the fleet was made with.
	key, revision string
	reported      *report.Nodes
	attempts      *deletion.Attempts
	fences        *deletion.Attempts
	orders        *deletion.Attempts
	asks          *deletion.Attempts
	// had is which revisions the nodes had last, nil without the gate; it outlives the fleet. waiting are the pods at the gate, by node.
	had     gating.Memory
	waiting map[string][]gating.Waiting
	// confirmed are the members, by index, whose target a live read confirmed as the newest.
	confirmed  map[int]bool
	heartbeats heartbeat.Leases
}

func newFleet(s *observed.State, in *rollout.Input, had gating.Memory, a, fences, orders, asks *deletion.Attempts, nodes map[string]*observed.Node) *fleet {
	f := &fleet{Fleet: rollout.NewFleet(in), key: s.CacheKey(in), revision: in.Revision, attempts: a, fences: fences, orders: orders, asks: asks, reported: report.NewNodes(),
		had: had, waiting: map[string][]gating.Waiting{}, confirmed: map[int]bool{}}
	zones := observed.Zones{}
	for name, n := range nodes {
		f.update(s, name, n, zones, in.Now)
	}
	return f
}

// update updates a node from what was read of it.
func (f *fleet) update(s *observed.State, name string, of *observed.Node, zones observed.Zones, now time.Time) {
	f.reported.Set(s, name, of, now)
	delete(f.waiting, name)
	if of.Object == nil {
		f.Remove(name)
		f.had.Forget(name)
		return
	}
	if f.had != nil {
		f.atGate(s, name, of)
	}
	n := s.RolloutNode(of, f.revision, zones, now)
	n.Renewed = f.heartbeats.Of(name)
	n.Denied, n.Unfenced, n.Unordered = f.attempts.DenialOf(s.Group, &n), f.fences.DenialOf(s.Group, &n), f.orders.DenialOf(s.Group, &n)
	if refused := n.Unordered; refused != nil && refused.Retry.After(n.Retry) {
		n.Retry, n.RetryWhy = refused.Retry, "the operation of the node cannot be written, which is tried again: "+refused.Message
	}
	observed.LeavePulls(&n, f.asks.DenialOf(s.Group, &n), now)
	f.Set(n, now)
}

// atGate notes which revisions a node has, and the pods that wait at its gate.
func (f *fleet) atGate(s *observed.State, name string, of *observed.Node) {
	for i, m := range s.Members {
		if len(of.Pods) == 0 {
			return
		}
		f.had.Note(m.DaemonSet, of.Object, of.Pods[i])
		if w := gating.WaitingOf(m.DaemonSet, of.Object, of.Pods[i]); w != nil {
			f.waiting[name] = append(f.waiting[name], *w)
		}
	}
}

// has reports whether the node of a name is still the one with a UID.
func (f *fleet) has(name string, uid types.UID) bool {
	n := f.Node(name)
	return n != nil && n.UID == uid
}

// holdsSlot reports whether a node that still exists has a slot.
func (f *fleet) holdsSlot(d *rollout.Decision) bool {
	return slices.ContainsFunc(d.Ledger.Slots, func(s rollout.Slot) bool { return f.Node(s.Node) != nil })
}
