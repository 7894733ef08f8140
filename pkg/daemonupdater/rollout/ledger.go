package rollout

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Ledger is the memory of a rollout; it is stored before a node is touched.
type Ledger struct {
	// Revision the counters below belong to.
	Revision string
	// Slots by node name, sorted.
	Slots []Slot
	// Failures at Revision by node name, sorted.
	Failures []Failure
	// Touched counts the slots given at Revision.
	Touched int
	// Waves of the policy, in order, the rest last, of an upgrade that is limited to
	// Limit: Settings.Only, shortened when it is long.
	Waves []WaveState
	Limit string
	// Usual is how long a node usually takes, 0 when none finished yet.
	Usual time.Duration
	// Resumed is the last Input.Resume that was acted on, at ResumedAt.
	Resumed   string
	ResumedAt time.Time
	// LastStart is when a node was last started, zero before.
	LastStart time.Time
}

// InFlight counts the slots of nodes that were started.
func (l *Ledger) InFlight() int {
	n := 0
	for i := range l.Slots {
		if !l.Slots[i].Queued {
			n++
		}
	}
	return n
}

// turns are those of slots, sorted.
type turns []int64

// turns of all slots.
func (l *Ledger) turns() turns {
	t := make(turns, len(l.Slots))
	for i := range l.Slots {
		t[i] = l.Slots[i].Turn
	}
	slices.Sort(t)
	return t
}

// before counts the slots with an earlier turn.
func (t turns) before(slot *Slot) int {
	n, _ := slices.BinarySearch(t, slot.Turn)
	return n
}

// Slot is the right to make one node unavailable.
type Slot struct {
	Node string
	UID  types.UID
	// Since is when the node was started, or when the target last changed under the slot.
	Since    time.Time
	Revision string
	// Turn orders slots; see queue.go.
	Turn int64
	// Queued: the node was not started yet.
	Queued bool
	// Pod is the UID of the pod that may be deleted, and PodVersion the only
	// resourceVersion of it that may: the intent, recorded before the effect.
	Pod        types.UID
	PodVersion string
	// Members are the keys of those whose pods were deleted under this slot, the
	// one Pod belongs to last; it is held until all of them are available again.
	Members []string
	// Operation does all that is done under the slot, "" when pods are just deleted.
	// Members are then the keys of those that it was given for.
	Operation string
}

// Failure is a node that failed at the ledger's revision.
type Failure struct {
	Node    string
	UID     types.UID
	Reason  Reason
	Message string
	Since   time.Time
}

// WaveState is the memory of a wave.
type WaveState struct {
	Name string
	// Total and Updated count its nodes; they are for people.
	Total, Updated int
	// Completed is when every reachable node was first updated, zero before. Once
	// it is set the wave has been passed, whatever comes back later. Of a limited
	// upgrade what it leaves out does not count, and of another one this does not hold.
	Completed time.Time
}
