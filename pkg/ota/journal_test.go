package ota

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-logr/logr/testr"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

func open(t *testing.T, directory string) (journal, []entry, bool) {
	t.Helper()
	j, entries, incomplete, err := openJournal(directory, testr.New(t))
	if err != nil {
		t.Fatalf("opening the journal: %v", err)
	}
	return j, entries, incomplete
}

func change(t *testing.T, j journal, from, to []entry) {
	t.Helper()
	if err := j.change(from, to); err != nil {
		t.Fatalf("changing the journal: %v", err)
	}
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
	change(t, j, nil, want)

	j, entries, incomplete = open(t, directory)
	if diff := cmp.Diff(want, entries); diff != "" || incomplete {
		t.Errorf("incomplete=%t, entries (-want +got):\n%s", incomplete, diff)
	}
	change(t, j, want, want[1:2])
	if _, entries, _ = open(t, directory); len(entries) != 1 || entries[0].Request.ID != want[1].Request.ID {
		t.Errorf("after removing two, the journal holds %v", entries)
	}
}

func TestJournalSetsAsideWhatItCannotUse(t *testing.T) {
	good, err := encodeEntry(fullEntry())
	if err != nil {
		t.Fatal(err)
	}
	name := fullEntry().Request.ID + requestSuffix
	for title, content := range map[string]struct {
		file string
		data []byte
	}{
		"a torn file":               {name, good[:len(good)/2]},
		"an empty file":             {name, nil},
		"a flipped bit":             {name, bytes.Replace(good, []byte("driver-x"), []byte("driver-y"), 1)},
		"a file under another name": {"ffffffffffffffff" + requestSuffix, good},
		"a huge file":               {name, append(bytes.Clone(good), bytes.Repeat([]byte(" "), maxFileBytes)...)},
		"zeros after a power cut":   {name, make([]byte, len(good))},
		"two records":               {name, append(bytes.Clone(good), good...)},
	} {
		t.Run(title, func(t *testing.T) {
			directory := t.TempDir()
			j, _, _ := open(t, directory)
			kept := numbered(1, "")
			change(t, j, nil, []entry{kept})
			path := filepath.Join(directory, "requests", content.file)
			if err := os.WriteFile(path, content.data, 0o600); err != nil {
				t.Fatal(err)
			}
			_, entries, incomplete := open(t, directory)
			if diff := cmp.Diff([]entry{kept}, entries); diff != "" || !incomplete {
				t.Errorf("incomplete=%t, entries (-want +got):\n%s", incomplete, diff)
			}
			if _, err := os.Stat(path + corruptSuffix); err != nil {
				t.Errorf("the file was not set aside: %v", err)
			}
			if _, _, incomplete := open(t, directory); incomplete {
				t.Error("the file set aside makes the journal incomplete for ever")
			}
		})
	}
}

func TestJournalRemovesUnfinishedFiles(t *testing.T) {
	directory := t.TempDir()
	j, _, _ := open(t, directory)
	left := filepath.Join(j.directory, unfinishedName+"123")
	if err := os.WriteFile(left, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, entries, incomplete := open(t, directory); len(entries) != 0 || incomplete {
		t.Errorf("entries %v, incomplete=%t: an unfinished file is no lost request", entries, incomplete)
	}
	if _, err := os.Stat(left); !os.IsNotExist(err) {
		t.Errorf("the unfinished file is still there: %v", err)
	}
}

func TestJournalSaysAtStartThatItCannotWrite(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, _, _, err := openJournal(file, testr.New(t))
	if err == nil || !strings.Contains(err.Error(), "state directory") {
		t.Errorf("error is %v, want one about the state directory", err)
	}
}

func FuzzJournalFile(f *testing.F) {
	for _, e := range []entry{fullEntry(), numbered(1, ""), {}} {
		data, err := encodeEntry(e)
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
		e, err := decodeEntry(data)
		if err != nil {
			return
		}
		if filepath.Base(e.Request.ID) != e.Request.ID || !requestIDPattern.MatchString(e.Request.ID) {
			t.Fatalf("accepted an id that is no file name: %q", e.Request.ID)
		}
		again, err := encodeEntry(e)
		if err != nil {
			t.Fatalf("encoding what was decoded: %v", err)
		}
		if !bytes.Equal(bytes.TrimSpace(again), bytes.TrimSpace(data)) {
			t.Fatalf("decoded and encoded again it differs:\n%s\n%s", data, again)
		}
	})
}
