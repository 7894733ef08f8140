package rollout

import (
	"fmt"
	"strconv"
	"time"
)

// draft is a decision that is being made: what its steps read, and what more than one of
// them writes.
type draft struct {
	in    *Input
	fleet *Fleet
	// ledger that is to be stored.
	ledger Ledger
	fence  fence
	// recheck is when to decide again if nothing happens; 0 means never.
	recheck time.Duration
}

// draftOf begins a decision. While the group is blocked nothing is touched, nothing expires
// and nothing is forgotten: the ledger stays as it is.
func draftOf(in *Input, f *Fleet) *draft {
	d := &draft{in: in, fleet: f, ledger: in.Ledger}
	d.recheckIn(f.nextChange(in.Now))
	if in.Blocked != nil {
		return d
	}
	if in.Ledger.Revision != in.Revision {
		d.ledger.Touched = in.Ledger.InFlight()
	}
	if in.Resume != in.Ledger.Resumed {
		d.ledger.ResumedAt = in.Now
	}
	d.ledger.Revision, d.ledger.Resumed = in.Revision, in.Resume
	d.ledger.Slots, d.ledger.Failures = nil, nil
	return d
}

// recheckIn asks for another decision after a while, at the latest.
func (d *draft) recheckIn(after time.Duration) {
	if after > 0 && (d.recheck == 0 || after < d.recheck) {
		d.recheck = after
	}
}

// newOperation is an id that no operation had before, neither of this node nor of
// another one: a mark on a node is left over when no operation has its id.
func (d *draft) newOperation(n *fleetNode) string {
	return fmt.Sprintf("%s-%s-%x-%d", d.in.Revision, strconv.FormatInt(d.in.Now.UnixMilli(), 36), n.hash, len(n.Ended))
}
