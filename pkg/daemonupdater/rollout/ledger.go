package rollout

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Ledger is the memory of a rollout; it is stored before a node is touched.
type Ledger struct {
	// Revision that the counters below belong to.
	Revision string
	// Slots by node name, sorted.
	Slots []Slot
	// Failures by node name, sorted.
	Failures []Failure
	// Pins by node name, sorted.
	Pins []Pin
	// Touched counts the nodes started at Revision, including those in flight when it changed.
	Touched int
	// Started counts the nodes that got Revision, including those in flight.
	Started int
	// Waves of the policy, in order, then the rest. They belong to an upgrade limited to Limit: the plan
	// in force, and Settings.Only, shortened if it is long.
	Waves []WaveProgress
	Limit string
	// Usual is how long a node usually takes, 0 until the first one finishes.
	Usual time.Duration
	// Resumed is the last Input.Resume acted on, at ResumedAt.
	Resumed   string
	ResumedAt time.Time
	// LastStart is when a node was last started, zero if none was: also one that goes back, or whose denied deletion is retried.
	LastStart time.Time
	// LastProgress is when a node was last started or finished, the next pod of one was named for deletion, or an
	// operation under a slot ended; zero if nothing was. Going back, or retrying what was denied, is no progress.
	// A ledger of an earlier version has only LastStart.
	LastProgress time.Time
	// Decided is when a decision was last stored while nodes were in flight or waited for a soak, to the
	// precision of a tick; zero if no node is in flight or waits for one.
	Decided time.Time
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

// inFlightAt counts the slots of nodes that were started and are brought to a revision.
func (l *Ledger) inFlightAt(revision string) int {
	n := 0
	for i := range l.Slots {
		if !l.Slots[i].Queued && l.Slots[i].Revision == revision {
			n++
		}
	}
	return n
}

// turns are the turns of slots, sorted: of all, and of those that are not queued.
type turns struct{ all, started []int64 }

// turns returns the turns of the slots.
func (l *Ledger) turns() (t turns) {
	for i := range l.Slots {
		t.all = append(t.all, l.Slots[i].Turn)
		if !l.Slots[i].Queued {
			t.started = append(t.started, l.Slots[i].Turn)
		}
	}
	slices.Sort(t.all)
	slices.Sort(t.started)
	return t
}

// lastTurn returns the last turn of a slot, 0 for none.
func (l *Ledger) lastTurn() (last int64) {
	for i := range l.Slots {
		last = max(last, l.Slots[i].Turn)
	}
	return last
}

// clearFailure drops the failure of a node that is started again. If it goes back, which it may do in a halt, its pins of what the failure
// blames still count as failed for it.
func (l *Ledger) clearFailure(failure Failure, goesBack bool) {
	l.Failures = slices.DeleteFunc(slices.Clone(l.Failures), func(f Failure) bool { return f.Node == failure.Node })
	l.Pins = slices.Clone(l.Pins)
	for i := range l.Pins {
		pin := &l.Pins[i]
		failed := pin.Node == failure.Node && (len(failure.Targets) == 0 || failure.blames(pin.Member))
		pin.Failed = pin.Failed || goesBack && failed
	}
}

// before counts the slots with an earlier turn.
func (t turns) before(slot *Slot) int {
	n, _ := slices.BinarySearch(t.all, slot.Turn)
	return n
}

// beside counts the slots with an earlier turn, and those of started nodes with a later turn: a slot that
// was given back in memory returns if the target changes before that is stored.
func (t turns) beside(slot *Slot) int {
	later, _ := slices.BinarySearch(t.started, slot.Turn+1)
	return t.before(slot) + len(t.started) - later
}

// Slot is permission to make one node unavailable.
type Slot struct {
	Node string
	UID  types.UID
	// Since is when the node was started, or when the target last changed under the slot.
	Since time.Time
	// Revision is what the node is brought to, "" while the operation ends that the group itself aborted.
	Revision string
	// Progress is when the deadline last restarted: when the node was started, or another pod of
	// it was named for deletion. The time in which nothing was decided is added. Zero in a ledger
	// of an earlier version.
	Progress time.Time
	// Newest is the latest creation of a pod that the node had at Since, by the clock of the API
	// server; zero if it had none.
	Newest time.Time
	// Idle is how long nothing was decided, or the node was available, since it was started.
	Idle time.Duration
	// Turn orders slots; see queue.go.
	Turn int64
	// Queued: the node has not been started yet.
	Queued bool
	// Pod is the UID of the pod that may be deleted, and PodVersion the only resourceVersion at
	// which it may be: the intent, recorded before the effect.
	Pod        types.UID
	PodVersion string
	// Members are the keys of the members whose pods were deleted under this slot, the member of
	// Pod last; the slot is kept until all of their pods are available again.
	Members []string
	// Operation is the id of the operation that does all the work under the slot, "" if pods are
	// just deleted. With an operation, Members are the keys of the members that it replaces
	// or verifies.
	Operation string
}

// Failure is a node that failed.
type Failure struct {
	Node string
	UID  types.UID
	// Machine was Node.Machine when it failed.
	Machine string
	Reason  Reason
	Message string
	Since   time.Time
	// Requested was Node.Requested when it failed: only a later request starts the node again.
	Requested time.Time
	// Targets are the revisions that may have caused the failure, which is dropped when one of them is
	// no longer a target. None in a ledger of an earlier version: then any new revision drops it.
	Targets []Target
}

// blames reports whether a revision of a member may have made the node fail.
func (f *Failure) blames(member string) bool {
	return slices.ContainsFunc(f.Targets, func(t Target) bool { return t.Member == member })
}

// Target is the revision that pods of a member are brought to.
type Target struct {
	// Member is its key, Revision the hash of its ControllerRevision.
	Member, Revision string
}

// WaveProgress is the recorded progress of a wave.
type WaveProgress struct {
	Name string
	// Total and Updated count its nodes, the last ones if they are all gone after it was completed. Updated is for display only.
	Total, Updated int
	// Completed is when every reachable node was first updated, zero before. Once it is set, the
	// wave stays passed, even if nodes come back later, unless it never had any. The time in which nothing was decided while the
	// wave soaked is added. Nodes that a limited upgrade leaves out do not count, and an upgrade with
	// another limit ignores it.
	Completed time.Time
	// Soaked is when a node was first started, in its turn, after its soak; zero before. Once it is set, its nodes need no
	// longer be available.
	Soaked time.Time
}
