package records

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-logr/logr/testr"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/ota/request"
	"github.com/topsops/gcu-operator/pkg/ota/response"
)

func open(t *testing.T, directory string) (*Requests, []request.Request, bool) {
	t.Helper()
	j, lost, err := openRequests(directory, testr.New(t))
	if err != nil {
		t.Fatalf("opening the journal: %v", err)
	}
	return &j, j.List, lost
}

// numbered returns a request with a valid id made from its sequence.
func numbered(sequence uint64, outcome topsv1.TaskState) request.Request {
	return request.Request{
		Sequence:       sequence,
		UpgradeRequest: topsv1.UpgradeRequest{ID: fmt.Sprintf("%016x", sequence), RequestTime: metav1.Unix(1000, 0)},
		Outcome:        outcome,
	}
}

func fullRequest() request.Request {
	return request.Request{
		Sequence: 3,
		Outcome:  topsv1.TaskFailed,
		UpgradeRequest: topsv1.UpgradeRequest{
			ID:          "0123456789abcdef-2",
			DaemonSet:   topsv1.NamespacedRef{Namespace: "kube-system", Name: "driver", UID: "u1"},
			Pod:         topsv1.NamespacedRef{Namespace: "kube-system", Name: "driver-x", UID: "u2"},
			Revision:    "abc",
			RequestTime: metav1.Unix(1700000000, 0),
		},
	}
}

func TestJournalKeepsRequestsInOrderOverRestarts(t *testing.T) {
	directory := filepath.Join(t.TempDir(), "not", "there", "yet")
	j, requests, incomplete := open(t, directory)
	if len(requests) != 0 || !incomplete {
		t.Fatalf("a new journal has %d requests and incomplete=%t, want 0 and true", len(requests), incomplete)
	}
	want := []request.Request{numbered(9, ""), fullRequest(), numbered(1, topsv1.TaskDone)}
	want[0].Sequence, want[1].Sequence, want[2].Sequence = 1, 2, 3
	if err := j.Keep(want); err != nil {
		t.Fatal(err)
	}
	if err := j.disk.Complete(); err != nil {
		t.Fatal(err)
	}
	_, requests, incomplete = open(t, directory)
	if diff := cmp.Diff(want, requests); diff != "" || incomplete {
		t.Errorf("incomplete=%t, requests (-want +got):\n%s", incomplete, diff)
	}
}

func TestATornRequestIsNotReplacedByTheGenerationBeforeIt(t *testing.T) {
	directory := t.TempDir()
	j, _, _ := open(t, directory)
	for _, outcome := range []topsv1.TaskState{"", topsv1.TaskDone} {
		if err := j.Keep([]request.Request{numbered(1, outcome)}); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(directory, "requests", numbered(1, "").ID+".json")
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, requests, incomplete := open(t, directory); len(requests) != 0 || !incomplete {
		t.Errorf("requests %v, incomplete=%t: a finished request must not come back open", requests, incomplete)
	}
}

// TestATornOperationIsAsItWasReported: in a generation in which it was queued, it would be sent once more.
func TestATornOperationIsAsItWasReported(t *testing.T) {
	queued := request.Operation{Sequence: 1, ID: "op-0123456789abcdef", Accepted: metav1.Unix(1700000000, 0).Rfc3339Copy(), Queued: true}
	again := queued
	again.RollbackKeys = []string{"op-0123456789abcdee"}
	toBeWithdrawn := queued
	toBeWithdrawn.Withdrawn = true
	sent := queued
	sent.Queued, sent.Parts = false, []request.Part{{Component: "driver", State: request.Waiting}}
	for _, tt := range []struct {
		name     string
		recorded []request.Operation
		want     []request.Operation
	}{
		{"withdrawn", []request.Operation{queued, queued.Ended(request.Withdrawn, request.ReasonWithdrawn, "in time", sent.Accepted.Time)}, nil},
		{"to be withdrawn", []request.Operation{queued, toBeWithdrawn}, nil},
		{"sent", []request.Operation{queued, sent}, nil},
		{"queued, and recorded again", []request.Operation{queued, again}, []request.Operation{queued}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			directory := t.TempDir()
			j, _, err := openOperations(directory, testr.New(t))
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range tt.recorded {
				if err := j.Put(o); err != nil {
					t.Fatal(err)
				}
			}
			want := tt.want
			if want == nil {
				want = j.List
			}
			if err := os.Truncate(filepath.Join(directory, "operations", queued.ID+".json"), 20); err != nil {
				t.Fatal(err)
			}
			again, lost, err := openOperations(directory, testr.New(t))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, again.List, cmp.Comparer(func(a, b metav1.Time) bool { return a.Equal(&b) })); diff != "" || !lost {
				t.Errorf("lost=%t, operations (-want +got):\n%s", lost, diff)
			}
		})
	}
}

// A change that fails may be on the disk, as when the directory cannot be synced.
func TestAChangeThatFailedIsUndone(t *testing.T) {
	now := metav1.Unix(1700000000, 0).Rfc3339Copy()
	known, other := request.Operation{Sequence: 1, ID: "op-0123456789abcdef", Accepted: now}, request.Operation{Sequence: 2, ID: "op-0123456789abcdee", Accepted: now}
	changed := known
	changed.Withdrawn = true
	for _, tt := range []struct {
		name   string
		change func(*Journals) error
		// undo brings the disk in line: Settle, or another change.
		undo func(*Journals) error
	}{
		{"a new operation", func(j *Journals) error { return j.Operations.Put(other) }, (*Journals).Settle},
		{"a new operation, before another change", func(j *Journals) error { return j.Operations.Put(other) }, func(j *Journals) error { return j.Operations.Put(known) }},
		{"a changed operation", func(j *Journals) error { return j.Operations.Put(changed) }, (*Journals).Settle},
		{"a release", func(j *Journals) error { return j.Hold.Put(nil) }, (*Journals).Settle},
		{"a request", func(j *Journals) error { return j.Requests.Keep([]request.Request{numbered(1, "")}) }, (*Journals).Settle},
	} {
		t.Run(tt.name, func(t *testing.T) {
			directory := filepath.Join(t.TempDir(), "state")
			opened := func() *Journals {
				j, err := Open(directory, testr.New(t))
				if err != nil {
					t.Fatal(err)
				}
				return &j
			}
			must := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			j := opened()
			must(errors.Join(j.Operations.Put(known), j.Hold.Put(&topsv1.NodeHold{Since: now}), j.Restored()))
			must(os.Rename(directory, directory+"-away"))
			if tt.change(j) == nil {
				t.Fatal("it can be recorded")
			}
			must(os.Rename(directory+"-away", directory))
			must(tt.change(opened())) // what it may have left
			must(tt.undo(j))
			found := opened()
			if diff := cmp.Diff([]request.Operation{known}, found.Operations.List); diff != "" || found.Hold.Hold == nil || len(found.Requests.List) > 0 {
				t.Errorf("an agent that is started again has requests %v, hold %v, and operations (-want +got):\n%s", found.Requests.List, found.Hold.Hold, diff)
			}
		})
	}
}

func TestAnOperationWithoutKeysOfRollbacksIsRead(t *testing.T) {
	const earlier = `{"checksum":"14d4e94876fa3da5b2d046cdc813e35f9ddff99d5f69215c70d9ad9f787193df",` +
		`"entry":{"sequence":1,"id":"op-0123456789abcdef","wish":{"component":"driver"},"accepted":"2023-11-14T22:13:20Z","withdrawn":true}}`
	o, err := OperationKind.Decode([]byte(earlier))
	if err != nil || !o.Withdrawn || o.RollbackKeys != nil {
		t.Errorf("the file of an earlier agent is %+v, %v", o, err)
	}
}

// FuzzFile reads files of requests and of operations. It checks that one that decodes has an id that is a file name,
// and encodes to the same bytes.
func FuzzFile(f *testing.F) {
	add := func(operation bool, data []byte, err error) {
		if err != nil {
			f.Fatal(err)
		}
		f.Add(operation, data)
		f.Add(operation, data[:len(data)/2])
		f.Add(operation, bytes.ToUpper(data))
	}
	for _, e := range []request.Request{fullRequest(), numbered(1, "")} {
		data, err := RequestKind.Encode(e)
		add(false, data, err)
	}
	now := metav1.Unix(1700000000, 0).Rfc3339Copy()
	for _, r := range []request.Operation{
		{Sequence: 1, ID: "op-0123456789abcdef", Accepted: now, Queued: true, Wanted: request.Wanted{Component: "driver", Latest: true}},
		{Sequence: 2, ID: "op-0123456789abcdee", Accepted: now, End: &now, Parts: []request.Part{{Component: "driver", Request: "0123456789abcdef", State: request.Done}}},
		{Sequence: 3, ID: "op-0123456789abcdec", Accepted: now, Withdrawn: true, RollbackKeys: []string{"op-0123456789abcded"}},
	} {
		data, err := OperationKind.Encode(r)
		add(true, data, err)
	}
	f.Add(false, []byte(`{"checksum":"","entry":null}`))
	f.Add(true, []byte(`null`))
	f.Fuzz(func(t *testing.T, operation bool, data []byte) {
		var id string
		var again []byte
		var err error
		if operation {
			var r request.Operation
			if r, err = OperationKind.Decode(data); err != nil {
				return
			}
			response.OperationOf(r, nil)
			id = r.ID
			again, err = OperationKind.Encode(r)
		} else {
			var e request.Request
			if e, err = RequestKind.Decode(data); err != nil {
				return
			}
			if id = e.ID; !request.IDPattern.MatchString(id) {
				t.Errorf("accepted id %q", id)
			}
			again, err = RequestKind.Encode(e)
		}
		if filepath.Base(id) != id {
			t.Fatalf("accepted an id that is no file name: %q", id)
		}
		if err != nil || !bytes.Equal(bytes.TrimSpace(again), bytes.TrimSpace(data)) {
			t.Fatalf("decoded and encoded again it differs: %v\n%s\n%s", err, data, again)
		}
	})
}
