package ota

import (
	"cmp"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/go-logr/logr"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/journal"
)

// operationKind keeps two generations: the one before the last has what was accepted,
// and what became of it is seen again.
var operationKind = journal.Kind[record]{
	ID:           func(r record) string { return r.ID },
	IDPattern:    operationIDPattern,
	KeepPrevious: true,
}

// holdRecord is whether this node is held.
type holdRecord struct {
	Hold *topsv1.NodeHold `json:"hold,omitempty"`
}

// holdKind keeps the last generation only: a hold must not come back, or be forgotten,
// because a file was torn. Then it is taken over from status.agent.
var holdKind = journal.Kind[holdRecord]{
	ID:        func(holdRecord) string { return "hold" },
	IDPattern: regexp.MustCompile(`^hold$`),
}

// book holds the operations of this node, and its hold, as they are on the disk.
type book struct {
	operations *journal.Journal[record]
	// records, oldest first.
	records []record
	holds   *journal.Journal[holdRecord]
	hold    *topsv1.NodeHold
	// holdKnown is false when the journal does not report whether the node is held.
	holdKnown bool
}

// openBook reads the journals. lost is true when something may be missing.
func openBook(stateDirectory string, log logr.Logger) (b book, lost bool, err error) {
	operations, operationsRead, err := journal.Open(filepath.Join(stateDirectory, "operations"), operationKind, log)
	if err != nil {
		return book{}, false, err
	}
	slices.SortFunc(operationsRead.Values, func(a, b record) int {
		return cmp.Or(cmp.Compare(a.Sequence, b.Sequence), cmp.Compare(a.ID, b.ID))
	})
	holds, holdsRead, err := journal.Open(filepath.Join(stateDirectory, "hold"), holdKind, log)
	if err != nil {
		return book{}, false, err
	}
	b = book{operations: operations, records: operationsRead.Values, holds: holds}
	if len(holdsRead.Values) > 0 {
		b.hold, b.holdKnown = holdsRead.Values[0].Hold, true
	}
	return b, operationsRead.Incomplete || !b.holdKnown, nil
}

// put records an operation durably, and forgets old ones. On an error nothing has
// changed here.
func (b *book) put(r record) error {
	next := slices.Clone(b.records)
	if i := slices.IndexFunc(next, func(other record) bool { return other.ID == r.ID }); i >= 0 {
		next[i] = r
	} else {
		next = append(next, r)
	}
	old := superseded(next)
	if err := b.operations.Change([]record{r}, old); err != nil {
		return err
	}
	b.records = slices.DeleteFunc(next, func(other record) bool { return slices.Contains(old, other.ID) })
	return nil
}

// putHold records durably whether the node is held.
func (b *book) putHold(hold *topsv1.NodeHold) error {
	if err := b.holds.Put(holdRecord{Hold: hold}); err != nil {
		return err
	}
	b.hold, b.holdKnown = hold, true
	return nil
}

// adoptBook takes over what the journals lost from what an agent of this node has shown
// before.
func (in *Inbox) adoptBook(nodeUpgrade *topsv1.NodeUpgrade) error {
	for _, r := range adoptOperations(in.book.records, nodeUpgrade.Status.Requests) {
		if slices.ContainsFunc(in.book.records, func(known record) bool { return known.ID == r.ID }) {
			continue
		}
		if err := in.book.put(r); err != nil {
			return err
		}
	}
	if in.book.holdKnown {
		return nil
	}
	var hold *topsv1.NodeHold
	if agent := nodeUpgrade.Status.Agent; agent != nil {
		hold = agent.Hold
	}
	return in.book.putHold(hold)
}

// followOperations brings the operations up to date with the tasks. What cannot be
// recorded now can be observed again.
func (in *Inbox) followOperations(tasks []topsv1.UpgradeTask) {
	for _, r := range slices.Clone(in.book.records) {
		next := r.follow(tasks, seconds(in.clock.Now()))
		if r.Queued || r.End != nil || finals(r) == finals(next) && next.End == nil {
			continue
		}
		if err := in.book.put(next); err != nil {
			in.log.Error(err, "Could not record what became of an operation", "operation", r.ID)
			continue
		}
		if next.End != nil {
			in.log.Info("An operation has ended", "operation", next.ID, "state", next.state(), "message", next.message())
		}
	}
}

// finals counts the parts that have ended.
func finals(r record) int {
	n := 0
	for _, p := range r.Parts {
		if p.State.Final() {
			n++
		}
	}
	return n
}

// notRecorded refuses because the disk could not be written.
func notRecorded(err error) *Refusal {
	return refuse(ReasonNotRecorded, "It could not be recorded on this node: %v. Nothing was done: make room or repair the disk, then repeat it.", err)
}

// nodeHeld refuses because the node is left alone.
func nodeHeld(hold *topsv1.NodeHold) *Refusal {
	why := ""
	if hold.Message != "" {
		why = fmt.Sprintf(" (%s)", hold.Message)
	}
	return refuse(ReasonNodeHeld, "This node is held since %s%s: release it first, with POST /v1/release or node-agent ota release.",
		hold.Since.UTC().Format(time.RFC3339), why)
}
