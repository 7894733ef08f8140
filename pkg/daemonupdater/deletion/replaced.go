package deletion

import (
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
)

// Replaced are the members that were replaced on nodes, by group: see rollout.Node.Replaced. A manager that starts without them
// does not blame a version for what its pods do after their slots ended, before more slots have ended.
type Replaced map[observed.Group]*replacedOn

// replacedOn has the members that were replaced on the nodes of a group: recent since a time, older in the period before.
type replacedOn struct {
	recent, older map[types.UID]map[string]time.Time
	since         time.Time
}

// Note records slots of a group that are over now. They are remembered for the given time, and at most twice as long. If
// the clock was set back, those before are forgotten.
func (r *Replaced) Note(g observed.Group, over []rollout.Slot, now time.Time, remembered time.Duration) {
	if len(over) == 0 {
		return
	}
	if *r == nil {
		*r = Replaced{}
	}
	on := (*r)[g]
	if on == nil || now.Before(on.since) {
		on = &replacedOn{since: now, recent: map[types.UID]map[string]time.Time{}}
		(*r)[g] = on
	}
	if now.Sub(on.since) > remembered {
		on.recent, on.older, on.since = map[types.UID]map[string]time.Time{}, on.recent, now
	}
	for _, slot := range over {
		members := maps.Clone(r.Of(g, slot.UID))
		if members == nil {
			members = map[string]time.Time{}
		}
		for _, member := range slot.Members {
			members[member] = now
		}
		on.recent[slot.UID] = members
	}
}

// Of returns the members that were replaced on a node, and when; nil if none is known.
func (r *Replaced) Of(g observed.Group, node types.UID) map[string]time.Time {
	on := (*r)[g]
	if on == nil {
		return nil
	}
	if members, ok := on.recent[node]; ok {
		return members
	}
	return on.older[node]
}
