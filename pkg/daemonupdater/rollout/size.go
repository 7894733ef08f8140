package rollout

// The ledger is stored in one object, whose size is limited: etcd accepts 1.5 MiB per request. So a
// node is started only if everything that may have to be recorded then fits, even if every slot grows
// to its full size or becomes a failure.

const (
	// maxLedgerBytes is the room for slots and failures, as JSON. With the rest of the status the
	// object stays below 1 MiB, besides annotations.
	maxLedgerBytes = 960 << 10

	// slotBytes and failureBytes are the maximum sizes of a slot and a failure without names, memberBytes
	// and targetBytes what each takes per member, without its key. The messages of failures do not count:
	// few of them are stored.
	slotBytes    = 480
	memberBytes  = 3
	failureBytes = 256
	targetBytes  = 48

	// maxQueued bounds the queue.
	maxQueued = 100
)

// largestSlot returns how many bytes a slot of any node may take, or a failure in its place.
func largestSlot(d *draft) int {
	name := d.fleet.longestName()
	slot, failure := slotBytes+name, failureBytes+name
	for i := range d.in.Members {
		slot += memberBytes + len(d.in.Members[i].Key)
		failure += targetBytes + len(d.in.Members[i].Key)
	}
	return max(slot, failure)
}

// sizeOf returns how many bytes a failure takes.
func sizeOf(f *Failure) int {
	size := failureBytes + len(f.Node) + len(f.Machine)
	for i := range f.Targets {
		size += targetBytes + len(f.Targets[i].Member)
	}
	return size
}

// bytesForSlots returns how many bytes the failures of a draft leave for slots.
func bytesForSlots(d *draft) int {
	left := maxLedgerBytes - sizeOfPins(d.ledger.Pins)
	for i := range d.ledger.Failures {
		left -= sizeOf(&d.ledger.Failures[i])
	}
	return max(0, left)
}

// maxInFlight returns how many nodes may be in flight such that the ledger has room for them and
// for the queued ones.
func maxInFlight(d *draft) int {
	slots := bytesForSlots(d) / largestSlot(d)
	return max(slots-maxQueued, slots/2)
}

// sizeOfPins returns how many bytes pins take.
func sizeOfPins(pins []Pin) (bytes int) {
	for i := range pins {
		p := &pins[i]
		bytes += failureBytes + targetBytes + len(p.Node) + len(p.Machine) + len(p.Member) + len(p.Message)
	}
	return bytes
}
