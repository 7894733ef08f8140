// Package records keeps on the node's disk what was requested there: requests, operations
// and the hold, each a file of pkg/journal.
package records

import (
	"cmp"
	"errors"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/go-logr/logr"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/journal"
	"github.com/topsops/gcu-operator/pkg/ota/request"
)

// RequestKind keeps only the last generation: the one before a finished request is an open
// one, and a request must never be repeated by mistake. A request lost to a torn file is
// restored from status.requests.
var RequestKind = journal.Kind[request.Request]{
	ID:        func(r request.Request) string { return r.ID },
	IDPattern: request.IDPattern,
}

// Requests holds the requests of this node.
type Requests struct {
	disk disk[request.Request]
	// List is the content of the disk, oldest first.
	List []request.Request
}

// openRequests returns the requests under stateDirectory, which it creates if needed. lost
// is true if some may be missing: there was no journal, or a file was set aside, and Restored was not
// called since then.
func openRequests(stateDirectory string, log logr.Logger) (j Requests, lost bool, err error) {
	journaled, content, err := journal.Open(filepath.Join(stateDirectory, "requests"), RequestKind, log)
	if err != nil {
		return Requests{}, false, err
	}
	slices.SortFunc(content.Values, func(a, b request.Request) int {
		return cmp.Or(cmp.Compare(a.Sequence, b.Sequence), cmp.Compare(a.ID, b.ID))
	})
	return Requests{disk: diskOf(journaled, RequestKind), List: content.Values}, content.Incomplete, nil
}

// Keep replaces the content of the journal by next. On an error the list is unchanged, but
// the disk may already have some of the new requests: the next Keep writes or removes these too.
func (j *Requests) Keep(next []request.Request) error {
	write, remove := request.Changes(j.List, next)
	if err := j.disk.change(next, write, remove); err != nil {
		return err
	}
	j.List = next
	return nil
}

// Settle brings the disk in line with the list after a change that failed. Until it does, an agent that is started again may
// find requests that are not in the list.
func (j *Requests) Settle() error { return j.disk.settle(j.List) }

// Remove removes a request from the list, even if removing it from disk fails.
func (j *Requests) Remove(id string) error {
	j.List = slices.DeleteFunc(slices.Clone(j.List), func(r request.Request) bool { return r.ID == id })
	return j.disk.change(j.List, nil, []string{id})
}

// OperationKind keeps two generations of an operation that is queued: the previous one still has what was accepted. One that was sent, or
// has ended or is to be withdrawn, replaces both: queued again, it would be sent although it was withdrawn or dropped, which only this disk
// knows.
var OperationKind = journal.Kind[request.Operation]{
	ID:               func(o request.Operation) string { return o.ID },
	IDPattern:        request.OperationIDPattern,
	KeepPrevious:     true,
	ReplacesPrevious: wasSentOrEnded,
}

func wasSentOrEnded(o request.Operation) bool { return !o.Queued || o.Withdrawn }

// Operations holds the operations of this node.
type Operations struct {
	disk disk[request.Operation]
	// List is the content of the disk, oldest first.
	List []request.Operation
}

func openOperations(stateDirectory string, log logr.Logger) (j Operations, lost bool, err error) {
	journaled, content, err := journal.Open(filepath.Join(stateDirectory, "operations"), OperationKind, log)
	if err != nil {
		return Operations{}, false, err
	}
	slices.SortFunc(content.Values, func(a, b request.Operation) int {
		return cmp.Or(cmp.Compare(a.Sequence, b.Sequence), cmp.Compare(a.ID, b.ID))
	})
	return Operations{disk: diskOf(journaled, OperationKind), List: content.Values}, content.Incomplete, nil
}

// Put records an operation durably and removes old ones. On an error the list is unchanged, but the disk may already have the
// operation: the next Put, or Settle, writes or removes it too.
func (j *Operations) Put(o request.Operation) error {
	next := slices.Clone(j.List)
	if i := slices.IndexFunc(next, func(other request.Operation) bool { return other.ID == o.ID }); i >= 0 {
		next[i] = o
	} else {
		next = append(next, o)
	}
	old := request.Superseded(next)
	next = slices.DeleteFunc(next, func(other request.Operation) bool { return slices.Contains(old, other.ID) })
	if err := j.disk.change(next, []request.Operation{o}, old); err != nil {
		return err
	}
	j.List = next
	return nil
}

// Restore puts back an earlier list. The disk may have the later one until the next Put, or Settle.
func (j *Operations) Restore(before []request.Operation) {
	for _, o := range slices.Concat(before, j.List) {
		j.disk.doubt(o.ID)
	}
	j.List = before
}

// HoldRecord is the hold of this node, if there is one.
type HoldRecord struct {
	Hold *topsv1.NodeHold `json:"hold,omitempty"`
}

// HoldKind keeps only the last generation: a torn file must not bring back or lose a hold.
// Then the hold is restored from status.agent.
var HoldKind = journal.Kind[HoldRecord]{
	ID:        func(HoldRecord) string { return "hold" },
	IDPattern: regexp.MustCompile(`^hold$`),
}

// Hold is the journal of the hold.
type Hold struct {
	disk disk[HoldRecord]
	// Hold is nil if the node is not held.
	Hold *topsv1.NodeHold
	// known is false if the disk has no record of whether the node is held.
	known bool
}

func openHold(stateDirectory string, log logr.Logger) (j Hold, err error) {
	journaled, content, err := journal.Open(filepath.Join(stateDirectory, "hold"), HoldKind, log)
	if err != nil {
		return Hold{}, err
	}
	j.disk = diskOf(journaled, HoldKind)
	if len(content.Values) > 0 {
		j.Hold, j.known = content.Values[0].Hold, true
	}
	return j, nil
}

// Put records the hold durably, nil for none. On an error the hold is as before, but the disk may already have the new one.
func (j *Hold) Put(hold *topsv1.NodeHold) error {
	next := []HoldRecord{{Hold: hold}}
	if err := j.disk.change(next, next, nil); err != nil {
		return err
	}
	j.Hold, j.known = hold, true
	return nil
}

// content is what the disk has to have.
func (j *Hold) content() []HoldRecord {
	if !j.known {
		return nil
	}
	return []HoldRecord{{Hold: j.Hold}}
}

// Journals hold what was requested on this node.
type Journals struct {
	Requests   Requests
	Operations Operations
	Hold       Hold
	// Incomplete is true until what the disk may have lost is restored from the status of
	// the NodeUpgrade.
	Incomplete bool
}

// Open opens the journals under stateDirectory, which it creates if needed.
func Open(stateDirectory string, log logr.Logger) (j Journals, err error) {
	var requestsLost, operationsLost bool
	if j.Requests, requestsLost, err = openRequests(stateDirectory, log); err != nil {
		return Journals{}, err
	}
	if j.Operations, operationsLost, err = openOperations(stateDirectory, log); err != nil {
		return Journals{}, err
	}
	if j.Hold, err = openHold(stateDirectory, log); err != nil {
		return Journals{}, err
	}
	j.Incomplete = requestsLost || operationsLost || !j.Hold.known
	return j, nil
}

// Settle brings the disk in line with the memory after changes that failed. Until it does, an agent that is started again may find what
// a caller was told is not done. The operations are written after the requests, as one that is to be withdrawn is until these are as they
// were.
func (j *Journals) Settle() error {
	err := j.Requests.Settle()
	if err == nil {
		err = j.Operations.disk.settle(j.Operations.List)
	}
	return errors.Join(err, j.Hold.disk.settle(j.Hold.content()))
}

// Adopt restores operations and the hold that the disk lost from what an earlier agent of
// this node has submitted.
func (j *Journals) Adopt(status *topsv1.NodeUpgradeStatus) error {
	for _, o := range request.AdoptOperations(j.Operations.List, status.Requests) {
		if slices.ContainsFunc(j.Operations.List, func(known request.Operation) bool { return known.ID == o.ID }) {
			continue
		}
		if err := j.Operations.Put(o); err != nil {
			return err
		}
	}
	if j.Hold.known {
		return nil
	}
	var hold *topsv1.NodeHold
	if status.Agent != nil {
		hold = status.Agent.Hold
	}
	return j.Hold.Put(hold)
}

// Restored records that what the disk lost is restored. If that fails, it is restored again when the agent starts again.
func (j *Journals) Restored() error {
	j.Incomplete = false
	return errors.Join(j.Requests.disk.Complete(), j.Operations.disk.Complete())
}
