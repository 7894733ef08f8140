package ota

import (
	"cmp"
	"path/filepath"
	"slices"

	"github.com/go-logr/logr"

	"github.com/topsops/gcu-operator/pkg/journal"
)

// entryKind keeps the last generation only: the one before a finished entry is
// an open one, and a request is never asked again by mistake. What a torn file
// costs is taken over from status.requests.
var entryKind = journal.Kind[entry]{
	ID:        func(e entry) string { return e.Request.ID },
	IDPattern: requestIDPattern,
}

// openJournal returns the journal under stateDirectory, which is made when it
// does not exist, and the entries in it, oldest first. incomplete is true when
// entries may be missing: there was no journal, or a file had to be set aside.
func openJournal(stateDirectory string, log logr.Logger) (j *journal.Journal[entry], entries []entry, incomplete bool, err error) {
	j, content, err := journal.Open(filepath.Join(stateDirectory, "requests"), entryKind, log)
	if err != nil {
		return nil, nil, false, err
	}
	slices.SortFunc(content.Values, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.Sequence, b.Sequence), cmp.Compare(a.Request.ID, b.Request.ID))
	})
	return j, content.Values, content.Incomplete, nil
}
