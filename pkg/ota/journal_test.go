package ota

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-logr/logr/testr"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/journal"
)

func open(t *testing.T, directory string) (*journal.Journal[entry], []entry, bool) {
	t.Helper()
	j, entries, incomplete, err := openJournal(directory, testr.New(t))
	if err != nil {
		t.Fatalf("opening the journal: %v", err)
	}
	return j, entries, incomplete
}

func fullEntry() entry {
	return entry{
		Sequence: 3,
		Outcome:  topsv1.TaskFailed,
		Request: topsv1.UpgradeRequest{
			ID:          "0123456789abcdef-2",
			DaemonSet:   topsv1.NamespacedRef{Namespace: "kube-system", Name: "driver", UID: "u1"},
			Pod:         topsv1.NamespacedRef{Namespace: "kube-system", Name: "driver-x", UID: "u2"},
			Revision:    "abc",
			RequestTime: metav1.Unix(1700000000, 0),
		},
	}
}

func TestJournalKeepsEntriesInOrderOverRestarts(t *testing.T) {
	directory := filepath.Join(t.TempDir(), "not", "there", "yet")
	j, entries, incomplete := open(t, directory)
	if len(entries) != 0 || !incomplete {
		t.Fatalf("a new journal has %d entries and incomplete=%t, want 0 and true", len(entries), incomplete)
	}
	want := []entry{numbered(9, ""), fullEntry(), numbered(1, topsv1.TaskDone)}
	want[0].Sequence, want[1].Sequence, want[2].Sequence = 1, 2, 3
	if err := j.Change(want, nil); err != nil {
		t.Fatal(err)
	}
	_, entries, incomplete = open(t, directory)
	if diff := cmp.Diff(want, entries); diff != "" || incomplete {
		t.Errorf("incomplete=%t, entries (-want +got):\n%s", incomplete, diff)
	}
}

func TestATornEntryIsNotReplacedByTheGenerationBeforeIt(t *testing.T) {
	directory := t.TempDir()
	j, _, _ := open(t, directory)
	for _, outcome := range []topsv1.TaskState{"", topsv1.TaskDone} {
		if err := j.Put(numbered(1, outcome)); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(directory, "requests", numbered(1, "").Request.ID+".json")
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, entries, incomplete := open(t, directory); len(entries) != 0 || !incomplete {
		t.Errorf("entries %v, incomplete=%t: a finished request must not come back open", entries, incomplete)
	}
}

func FuzzJournalFile(f *testing.F) {
	for _, e := range []entry{fullEntry(), numbered(1, "")} {
		data, err := entryKind.Encode(e)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
		f.Add(data[:len(data)/2])
		f.Add(bytes.ToUpper(data))
	}
	f.Add([]byte(`{"checksum":"","entry":null}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, data []byte) {
		e, err := entryKind.Decode(data)
		if err != nil {
			return
		}
		if filepath.Base(e.Request.ID) != e.Request.ID || !requestIDPattern.MatchString(e.Request.ID) {
			t.Fatalf("accepted an id that is no file name: %q", e.Request.ID)
		}
		again, err := entryKind.Encode(e)
		if err != nil {
			t.Fatalf("encoding what was decoded: %v", err)
		}
		if !bytes.Equal(bytes.TrimSpace(again), bytes.TrimSpace(data)) {
			t.Fatalf("decoded and encoded again it differs:\n%s\n%s", data, again)
		}
	})
}

// FuzzOperationFile: what is read is what would be written.
func FuzzOperationFile(f *testing.F) {
	now := metav1.Unix(1700000000, 0).Rfc3339Copy()
	for _, r := range []record{
		{Sequence: 1, ID: "op-0123456789abcdef", Accepted: now, Queued: true, Wish: wish{Component: "driver", Latest: true}},
		{Sequence: 2, ID: "op-0123456789abcdee", Accepted: now, End: &now, Parts: []part{{Component: "driver", Request: "0123456789abcdef", State: Done}}},
	} {
		data, err := operationKind.Encode(r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
		f.Add(data[:len(data)/2])
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := operationKind.Decode(data)
		if err != nil {
			return
		}
		if filepath.Base(r.ID) != r.ID {
			t.Fatalf("accepted an id that is no file name: %q", r.ID)
		}
		again, err := operationKind.Encode(r)
		if err != nil || !bytes.Equal(bytes.TrimSpace(again), bytes.TrimSpace(data)) {
			t.Fatalf("decoded and encoded again it differs: %v\n%s\n%s", err, data, again)
		}
		r.answer(nil)
	})
}
