package rollout

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/podreplace/retry"
)

// draft is a decision in progress: what its steps read, and what more than one of them writes.
type draft struct {
	in    *Input
	fleet *Fleet
	// ledger to store.
	ledger Ledger
	// unrecorded counts the failed nodes that ledger has no room for.
	unrecorded int
	// returned counts the slots given back whose pods were not replaced: until the ledger is
	// stored, another decision may still replace them.
	returned int
	fence    fence
	// unready is Decision.Unready.
	unready map[string][]int
	// over are the slots under which the work on their members is over.
	over []Slot
	// soaks: nodes wait for the soak of a wave.
	soaks bool
	// recheck is the time until the next decision if nothing changes; 0 means never.
	recheck time.Duration
}

// draftOf starts a decision. While the group is blocked, the ledger does not change: nothing starts,
// expires or is dropped.
func draftOf(in *Input, f *Fleet) *draft {
	d := &draft{in: in, fleet: f, ledger: in.Ledger}
	d.recheckIn(f.nextChange(in.Now))
	if in.Blocked != nil {
		return d
	}
	if in.Ledger.Revision != in.Revision {
		d.ledger.Touched, d.ledger.Started = in.Ledger.InFlight(), 0
		d.ledger.Usual = min(in.Ledger.Usual, in.Deadlines.Progress)
	}
	d.ledger.Started = max(d.ledger.Started, d.ledger.inFlightAt(in.Revision)) // lower only in a ledger of an earlier version
	if in.Resume != in.Ledger.Resumed {
		d.ledger.ResumedAt = in.Now
	}
	for _, t := range []*time.Time{&d.ledger.ResumedAt, &d.ledger.LastStart, &d.ledger.LastProgress} {
		*t = earlier(*t, in.Now) // the clock may have been set back
	}
	d.ledger.Revision, d.ledger.Resumed = in.Revision, in.Resume
	d.ledger.Slots, d.ledger.Failures = slices.Grow([]Slot(nil), len(in.Ledger.Slots)), nil
	return d
}

// recheckIn requests the next decision after the given time at the latest.
func (d *draft) recheckIn(after time.Duration) {
	d.recheck = retry.Sooner(d.recheck, after)
}

// slotOf returns a slot for a node that is started now.
func (d *draft) slotOf(n *Node, turn int64) Slot {
	return Slot{Node: n.Name, UID: n.UID, Since: d.in.Now, Revision: d.in.Revision, Turn: turn}
}

// retarget brings the slot of a started node to the revision of the input.
func (d *draft) retarget(slot *Slot) {
	if slot.Revision != d.in.Revision {
		slot.Revision = d.in.Revision
		d.ledger.Started++
	}
}

// uncountStart no longer counts a node as started, because it did not get the version.
func (d *draft) uncountStart(slot *Slot) {
	if !slot.Queued && slot.Revision == d.in.Revision && d.ledger.Started > 0 {
		d.ledger.Started--
	}
}

// noteAborted records that the group itself aborts the operation of a slot: its node is brought to no revision, and what the end of the
// operation says counts for none, also if the target comes back before it has ended.
func (d *draft) noteAborted(slot *Slot) {
	d.uncountStart(slot)
	slot.Revision = ""
}

// isNotCreated reports whether the operation of a slot, which has not ended, is not created any more, so that the slot ends.
func (d *draft) isNotCreated(slot *Slot, n *Node) bool { return n.yields() || d.isObsolete(slot, n) }

// isObsolete reports whether the operation of a slot, under OTA, does not exist yet and would be created for targets that
// came after its node was started: they were not requested.
func (d *draft) isObsolete(slot *Slot, n *Node) bool {
	return d.in.Settings.Strategy == daemonset.OTA && slot.Revision != d.in.Revision && slot.operationOn(n) == nil
}

// noteOver records that the work on the members of a slot is over: on those that were replaced under it, also by its operation along
// with others.
func (d *draft) noteOver(slot *Slot, n *Node) {
	over := *slot
	over.Members = slices.Clone(replacedUnder(slot, n))
	for i := range n.Pods {
		if key := n.group.keyOf(&n.Pods[i]); slot.Operation != "" && slot.isNew(&n.Pods[i]) && !slices.Contains(over.Members, key) {
			over.Members = append(over.Members, key)
		}
	}
	d.over = append(d.over, over)
}

// newOperation returns an id that no other operation has had, on any node. So a mark on a node is
// known to be left over if no operation has its id.
func (d *draft) newOperation(n *Node) string {
	return fmt.Sprintf("%s-%s-%x-%d", d.in.Revision, strconv.FormatInt(d.in.Now.UnixMilli(), 36), n.hash, len(n.Ended))
}

// progressed records that a node made progress at a time. Its callers change the ledger anyway, so it costs no extra
// write.
func (d *draft) progressed(at time.Time) { d.ledger.LastProgress = later(d.ledger.LastProgress, at) }

// isQuiet reports whether no node has made progress for a time, and what was replaced lately has been Ready. It decides again when
// that is so.
func (d *draft) isQuiet(since time.Duration) bool {
	left := d.ledger.LastProgress.Add(since).Sub(d.in.Now)
	d.recheckIn(left)
	return left <= 0 && d.fleet.all.unsettled == 0
}

// noteDecided records when this decision was made, while nodes are in flight or a wave soaks.
func (d *draft) noteDecided() {
	if d.ledger.InFlight() == 0 && !d.soaks {
		d.ledger.Decided = time.Time{}
		return
	}
	since, tick := d.in.Now.Sub(d.in.Ledger.Decided), d.in.Deadlines.tick()
	if d.in.Ledger.Decided.IsZero() || since >= tick || since < 0 {
		d.ledger.Decided, since = d.in.Now, 0
	}
	d.recheckIn(tick - since)
}
