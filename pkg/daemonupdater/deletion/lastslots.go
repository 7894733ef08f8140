package deletion

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
)

// LastSlots are the slots that nodes gave back lately. A manager that starts without them does not blame a version for what
// its pods do after the slots were given back, before more nodes have given back theirs.
type LastSlots struct {
	// recent were given back since a time, older in the period before.
	recent, older map[slotHolder]rollout.LastSlot
	since         time.Time
}

// slotHolder is a node with a slot of a group.
type slotHolder struct {
	group observed.Group
	node  types.UID
}

// GivenBack records slots of a group that were given back now. They are remembered for the given time, and at most twice as long.
func (l *LastSlots) GivenBack(g observed.Group, slots []rollout.Slot, now time.Time, remembered time.Duration) {
	if len(slots) == 0 {
		return
	}
	if l.recent == nil || now.Sub(l.since) > remembered {
		l.recent, l.older, l.since = map[slotHolder]rollout.LastSlot{}, l.recent, now
	}
	for i := range slots {
		l.recent[slotHolder{g, slots[i].UID}] = rollout.LastSlot{Members: slots[i].Members, End: now}
	}
}

// Of returns the last slot of a node, zero if it is not known.
func (l *LastSlots) Of(g observed.Group, node types.UID) rollout.LastSlot {
	if slot, ok := l.recent[slotHolder{g, node}]; ok {
		return slot
	}
	return l.older[slotHolder{g, node}]
}
