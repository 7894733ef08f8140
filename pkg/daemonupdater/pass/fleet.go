package pass

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/deletion"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/gating"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/report"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/pkg/message"
)

// Fleet is the state of a group's nodes that is kept between passes, so that an event of one node causes
// work for that node only. It follows the caches: events name the nodes to read again, and a changed
// key causes a new Fleet.
type Fleet struct {
	*rollout.Fleet
	// Reported caches what the reports about the nodes need.
	Reported *report.Nodes
	// Confirmed are the members, by index, whose target was confirmed as the newest by a live read.
	Confirmed map[int]bool
	// AwaitsHeartbeats: nodes wait for others to leave probation.
	AwaitsHeartbeats bool

	// PassedAt is when the last pass over the nodes was, by the wall clock.
	PassedAt time.Time
	// leasesRead is when the Leases of nodes were last read. renewed is when each was renewed, by the clock of its kubelet.
	leasesRead time.Time
	renewed    map[string]time.Time
	// key is the CacheKey, and revision the input revision that the fleet was made with.
	key, revision string
	// unverified are the observed.UnverifiedByLedger with which the nodes were last read.
	unverified map[string][]topsv1.RevisionTarget
	attempts   *deletion.AllAttempts
	// lastRevisions of the nodes, nil without the gate; they outlive the fleet. waiting are the pods at the gate, by node.
	lastRevisions gating.LastRevisions
	waiting       map[string][]gating.Waiting
}

// NewFleet returns the fleet of a group. names are the nodes of which something was read.
// attempts are those of the process. last are the last revisions of the nodes, nil without the gate.
func NewFleet(s *observed.State, in *rollout.Input, last gating.LastRevisions, attempts *deletion.AllAttempts, names iter.Seq[string]) *Fleet {
	f := &Fleet{Fleet: rollout.NewFleet(in), PassedAt: in.Now.Round(0), key: s.CacheKey(in), revision: in.Revision, attempts: attempts, Reported: report.NewNodes(),
		unverified: observed.UnverifiedByLedger(s), lastRevisions: last, waiting: map[string][]gating.Waiting{}, Confirmed: map[int]bool{}}
	attempts.Replaced.Begin(s.Group, in.Now, in.Deadlines.Blamed(), in.Deadlines.Progress)
	zones := observed.Zones{}
	for name := range names {
		f.update(s, name, zones, in.Now)
	}
	return f
}

// IsFor reports whether a fleet, nil for none, was made for what a pass read: then only the nodes of events have to be updated.
// It is not if the clock was set back, because the facts of the nodes depend on the time.
func (f *Fleet) IsFor(s *observed.State, in *rollout.Input) bool {
	return f != nil && f.key == s.CacheKey(in) && !daemonset.IsAhead(f.PassedAt, in.Now)
}

// ToRead returns the nodes to read again, given those that changed: also those of which the ledger shows since the last pass that
// an operation failed, or that this no longer counts.
func (f *Fleet) ToRead(s *observed.State, changed []string) []string {
	before, now := f.unverified, observed.UnverifiedByLedger(s)
	f.unverified = now
	names := slices.Clone(changed)
	for name := range now {
		if _, known := before[name]; !known {
			names = append(names, name)
		}
	}
	for name, targets := range before {
		if !slices.Equal(targets, now[name]) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Decide plans the group. The next pass reports what this one cannot, because it fails.
func (f *Fleet) Decide(in rollout.Input) rollout.Decision {
	d := f.Plan(in)
	f.Reported.Decided(&in, &d)
	return d
}

// Update updates a node from what was read of it.
func (f *Fleet) Update(s *observed.State, name string, now time.Time) {
	f.update(s, name, observed.Zones{}, now)
}

func (f *Fleet) update(s *observed.State, name string, zones observed.Zones, now time.Time) {
	f.Reported.Set(s, name, now)
	delete(f.waiting, name)
	if s.Nodes[name] == nil {
		f.Remove(name)
		f.lastRevisions.Forget(name)
		return
	}
	if f.lastRevisions != nil {
		f.atGate(s, name)
	}
	n := s.RolloutNode(name, f.revision, zones, now)
	n.Renewed = f.renewed[name]
	f.attempts.Show(s, s.Nodes[name], &n)
	observed.LeavePulls(&n, f.attempts.Pulls.DenialOf(s.Group, &n), now)
	f.Set(n, now)
}

// atGate records which revisions a node has, and which pods wait at its gate.
func (f *Fleet) atGate(s *observed.State, name string) {
	for _, m := range s.Members {
		f.lastRevisions.Note(m.DaemonSet, s.Nodes[name], m.Pods[name])
		if w := gating.WaitingOf(m.DaemonSet, s.Nodes[name], m.Pods[name]); w != nil {
			f.waiting[name] = append(f.waiting[name], *w)
		}
	}
}

// NodesAtGate returns how many nodes have pods at the gate.
func (f *Fleet) NodesAtGate() int { return len(f.waiting) }

// DeniedAtGate says which nodes have a pod at the gate about which the API server denied a write, and what it said about the first;
// "" for none.
func (f *Fleet) DeniedAtGate() string {
	var nodes []string
	var said string
	for _, name := range slices.Sorted(maps.Keys(f.waiting)) {
		if n := f.Node(name); n != nil && n.DeniedAtGate != nil {
			nodes = append(nodes, name)
			said = cmp.Or(said, n.DeniedAtGate.Message)
		}
	}
	if len(nodes) == 0 {
		return ""
	}
	return "the API server denied a write for the pods at the gate on " + message.Names(nodes) + ": " + said + "; retrying"
}

// AtGate returns the pods at the gate, sorted by node.
func (f *Fleet) AtGate() (all []gating.Waiting) {
	for _, node := range slices.Sorted(maps.Keys(f.waiting)) {
		all = append(all, f.waiting[node]...)
	}
	return all
}

// Has reports whether the node with a name still has a UID.
func (f *Fleet) Has(name string, uid types.UID) bool {
	n := f.Node(name)
	return n != nil && n.UID == uid
}

// HeartbeatsDue returns the nodes whose Leases have to be read now: those on probation, if other nodes
// wait for them, once per rollout.HeartbeatPoll.
func (f *Fleet) HeartbeatsDue(now time.Time) []string {
	if !f.AwaitsHeartbeats || now.Sub(f.leasesRead).Abs() < rollout.HeartbeatPoll {
		return nil
	}
	f.leasesRead = now
	return f.OnProbation()
}

// Renew records when the Lease of a node was last renewed.
func (f *Fleet) Renew(node string, at, now time.Time) {
	if f.renewed == nil {
		f.renewed = map[string]time.Time{}
	}
	f.renewed[node] = at
	f.Renewed(node, at, now)
}
