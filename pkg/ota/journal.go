package ota

import (
	"cmp"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/go-logr/logr"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/journal"
	"github.com/topsops/gcu-operator/pkg/ota/request"
)

// requestKind keeps only the last generation: the one before a finished request is an open
// one, and a request must never be repeated by mistake. A request lost to a torn file is
// restored from status.requests.
var requestKind = journal.Kind[request.Request]{
	ID:        func(r request.Request) string { return r.ID },
	IDPattern: request.IDPattern,
}

// requestJournal holds the requests of this node.
type requestJournal struct {
	disk *journal.Journal[request.Request]
	// list is the content of the disk, oldest first.
	list []request.Request
}

// openRequests returns the requests under stateDirectory, which it creates if needed. lost
// is true if some may be missing: there was no journal, or a file was set aside.
func openRequests(stateDirectory string, log logr.Logger) (j requestJournal, lost bool, err error) {
	disk, content, err := journal.Open(filepath.Join(stateDirectory, "requests"), requestKind, log)
	if err != nil {
		return requestJournal{}, false, err
	}
	slices.SortFunc(content.Values, func(a, b request.Request) int {
		return cmp.Or(cmp.Compare(a.Sequence, b.Sequence), cmp.Compare(a.ID, b.ID))
	})
	return requestJournal{disk, content.Values}, content.Incomplete, nil
}

// keep replaces the content of the journal by next. On an error the list is unchanged, but
// the disk may already have some of the new requests.
func (j *requestJournal) keep(next []request.Request) error {
	if err := j.disk.Change(request.Changes(j.list, next)); err != nil {
		return err
	}
	j.list = next
	return nil
}

// remove removes a request from the list, even if removing it from disk fails.
func (j *requestJournal) remove(id string) error {
	j.list = slices.DeleteFunc(slices.Clone(j.list), func(r request.Request) bool { return r.ID == id })
	return j.disk.Change(nil, []string{id})
}

// operationKind keeps two generations: the previous one still has what was accepted, and
// the outcome can be observed again.
var operationKind = journal.Kind[request.Operation]{
	ID:           func(o request.Operation) string { return o.ID },
	IDPattern:    request.OperationIDPattern,
	KeepPrevious: true,
}

// operationJournal holds the operations of this node.
type operationJournal struct {
	disk *journal.Journal[request.Operation]
	// list is the content of the disk, oldest first.
	list []request.Operation
}

func openOperations(stateDirectory string, log logr.Logger) (j operationJournal, lost bool, err error) {
	disk, content, err := journal.Open(filepath.Join(stateDirectory, "operations"), operationKind, log)
	if err != nil {
		return operationJournal{}, false, err
	}
	slices.SortFunc(content.Values, func(a, b request.Operation) int {
		return cmp.Or(cmp.Compare(a.Sequence, b.Sequence), cmp.Compare(a.ID, b.ID))
	})
	return operationJournal{disk, content.Values}, content.Incomplete, nil
}

// put records an operation durably and removes old ones. On an error the list is unchanged.
func (j *operationJournal) put(o request.Operation) error {
	next := slices.Clone(j.list)
	if i := slices.IndexFunc(next, func(other request.Operation) bool { return other.ID == o.ID }); i >= 0 {
		next[i] = o
	} else {
		next = append(next, o)
	}
	old := request.Superseded(next)
	if err := j.disk.Change([]request.Operation{o}, old); err != nil {
		return err
	}
	j.list = slices.DeleteFunc(next, func(other request.Operation) bool { return slices.Contains(old, other.ID) })
	return nil
}

// holdRecord is the hold of this node, if there is one.
type holdRecord struct {
	Hold *topsv1.NodeHold `json:"hold,omitempty"`
}

// holdKind keeps only the last generation: a torn file must not bring back or lose a hold.
// Then the hold is restored from status.agent.
var holdKind = journal.Kind[holdRecord]{
	ID:        func(holdRecord) string { return "hold" },
	IDPattern: regexp.MustCompile(`^hold$`),
}

// holdJournal is the journal of the hold.
type holdJournal struct {
	disk *journal.Journal[holdRecord]
	hold *topsv1.NodeHold
	// known is false if the disk has no record of whether the node is held.
	known bool
}

func openHold(stateDirectory string, log logr.Logger) (j holdJournal, err error) {
	disk, content, err := journal.Open(filepath.Join(stateDirectory, "hold"), holdKind, log)
	if err != nil {
		return holdJournal{}, err
	}
	j.disk = disk
	if len(content.Values) > 0 {
		j.hold, j.known = content.Values[0].Hold, true
	}
	return j, nil
}

// put records the hold durably, nil for none.
func (j *holdJournal) put(hold *topsv1.NodeHold) error {
	if err := j.disk.Put(holdRecord{Hold: hold}); err != nil {
		return err
	}
	j.hold, j.known = hold, true
	return nil
}

// journals hold what was requested on this node.
type journals struct {
	requests   requestJournal
	operations operationJournal
	hold       holdJournal
	// incomplete is true until what the disk may have lost is restored from the status of
	// the NodeUpgrade.
	incomplete bool
}

// openJournals opens the journals under stateDirectory, which it creates if needed.
func openJournals(stateDirectory string, log logr.Logger) (j journals, err error) {
	var requestsLost, operationsLost bool
	if j.requests, requestsLost, err = openRequests(stateDirectory, log); err != nil {
		return journals{}, err
	}
	if j.operations, operationsLost, err = openOperations(stateDirectory, log); err != nil {
		return journals{}, err
	}
	if j.hold, err = openHold(stateDirectory, log); err != nil {
		return journals{}, err
	}
	j.incomplete = requestsLost || operationsLost || !j.hold.known
	return j, nil
}

// adopt restores operations and the hold that the disk lost from what an earlier agent of
// this node has submitted.
func (j *journals) adopt(status *topsv1.NodeUpgradeStatus) error {
	for _, o := range request.AdoptOperations(j.operations.list, status.Requests) {
		if slices.ContainsFunc(j.operations.list, func(known request.Operation) bool { return known.ID == o.ID }) {
			continue
		}
		if err := j.operations.put(o); err != nil {
			return err
		}
	}
	if j.hold.known {
		return nil
	}
	var hold *topsv1.NodeHold
	if status.Agent != nil {
		hold = status.Agent.Hold
	}
	return j.hold.put(hold)
}
