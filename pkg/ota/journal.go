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

// requestKind keeps the last generation only: the one before a finished request is
// an open one, and a request is never made again by mistake. What a torn file
// costs is taken over from status.requests.
var requestKind = journal.Kind[request.Request]{
	ID:        func(r request.Request) string { return r.ID },
	IDPattern: request.IDPattern,
}

// requestJournal holds the requests of this node.
type requestJournal struct {
	disk *journal.Journal[request.Request]
	// list is what the disk holds, oldest first.
	list []request.Request
}

// openRequests returns the requests under stateDirectory, which is made when it does
// not exist. lost is true when some may be missing: there was no journal, or a file
// had to be set aside.
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

// keep makes next what the journal holds. On an error it leaves the list as it was;
// the disk may hold some of the new ones.
func (j *requestJournal) keep(next []request.Request) error {
	if err := j.disk.Change(request.Changes(j.list, next)); err != nil {
		return err
	}
	j.list = next
	return nil
}

// remove takes a request out of the list, also when the disk keeps it: that is an error.
func (j *requestJournal) remove(id string) error {
	j.list = slices.DeleteFunc(slices.Clone(j.list), func(r request.Request) bool { return r.ID == id })
	return j.disk.Change(nil, []string{id})
}

// operationKind keeps two generations: the one before the last has what was accepted,
// and what became of it is seen again.
var operationKind = journal.Kind[request.Operation]{
	ID:           func(o request.Operation) string { return o.ID },
	IDPattern:    request.OperationIDPattern,
	KeepPrevious: true,
}

// operationJournal holds the operations of this node.
type operationJournal struct {
	disk *journal.Journal[request.Operation]
	// list is what the disk holds, oldest first.
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

// put records an operation durably, and forgets old ones. On an error nothing has
// changed here.
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

// holdJournal holds whether this node is held.
type holdJournal struct {
	disk *journal.Journal[holdRecord]
	hold *topsv1.NodeHold
	// known is false when the disk does not report whether the node is held.
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

// put records durably whether the node is held.
func (j *holdJournal) put(hold *topsv1.NodeHold) error {
	if err := j.disk.Put(holdRecord{Hold: hold}); err != nil {
		return err
	}
	j.hold, j.known = hold, true
	return nil
}

// journals are what this node keeps of what was asked of it.
type journals struct {
	requests   requestJournal
	operations operationJournal
	hold       holdJournal
	// incomplete is true until what the disk may have lost was taken over from the
	// status of the NodeUpgrade.
	incomplete bool
}

// openJournals opens the journals under stateDirectory, which is made when it does not
// exist.
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

// adopt takes over the operations and the hold that the disk lost from what an agent of
// this node has shown before.
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
