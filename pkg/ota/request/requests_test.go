package request

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

func wantedFor(uid, revision string) topsv1.UpgradeRequest {
	return topsv1.UpgradeRequest{Pod: topsv1.NamespacedRef{Namespace: "ns", Name: "pod", UID: types.UID(uid)}, Revision: revision}
}

func task(id string, state topsv1.TaskState) topsv1.UpgradeTask {
	return topsv1.UpgradeTask{RequestID: id, Name: "node-a_driver_replace", State: state}
}

// numbered returns a request with a valid id made from its sequence.
func numbered(sequence uint64, outcome topsv1.TaskState) Request {
	return Request{
		Sequence:       sequence,
		UpgradeRequest: topsv1.UpgradeRequest{ID: fmt.Sprintf("%016x", sequence), RequestTime: metav1.Unix(1000, 0)},
		Outcome:        outcome,
	}
}

func TestRequestID(t *testing.T) {
	first := requestID(wantedFor("uid", "rev"), 1)
	for name, other := range map[string]string{
		"another revision":      requestID(wantedFor("uid", "rev2"), 1),
		"another pod":           requestID(wantedFor("uid2", "rev"), 1),
		"another attempt":       requestID(wantedFor("uid", "rev"), 2),
		"parts shifted by one":  requestID(wantedFor("ui", "drev"), 1),
		"a pod with the suffix": requestID(wantedFor("uid-2", "rev"), 1),
	} {
		if other == first {
			t.Errorf("%s has the same id %s", name, other)
		}
		if !IDPattern.MatchString(other) {
			t.Errorf("id %s of %s does not match the pattern", other, name)
		}
	}
	if again := requestID(wantedFor("uid", "rev"), 1); again != first {
		t.Errorf("the same pod and revision have ids %s and %s", first, again)
	}
}

func TestAdmit(t *testing.T) {
	v := wantedFor("uid", "rev")
	now := metav1.Unix(2000, 0)
	id, second := requestID(v, 1), requestID(v, 2)
	mine := func(id string, outcome topsv1.TaskState) Request {
		return Request{Sequence: 7, UpgradeRequest: topsv1.UpgradeRequest{ID: id}, Outcome: outcome}
	}
	full := make([]Request, 0, maxOpenRequests)
	for i := range maxOpenRequests {
		full = append(full, numbered(uint64(i+1), ""))
	}
	for name, test := range map[string]struct {
		requests []Request
		tasks    []topsv1.UpgradeTask
		id       string
		found    bool
		refused  bool
	}{
		"a first request is new":                                           {id: id},
		"an open request is found":                                         {requests: []Request{mine(id, "")}, id: id, found: true},
		"a failed request is asked again with a new id":                    {requests: []Request{mine(id, topsv1.TaskFailed)}, tasks: []topsv1.UpgradeTask{task(id, topsv1.TaskFailed)}, id: second},
		"a done request whose pod is still there is asked again":           {requests: []Request{mine(id, topsv1.TaskDone)}, id: second},
		"an open second attempt is found":                                  {requests: []Request{mine(id, topsv1.TaskFailed), mine(second, "")}, id: second, found: true},
		"an attempt that failed before the journal was lost is not reused": {tasks: []topsv1.UpgradeTask{task(id, topsv1.TaskFailed)}, id: second},
		"a task that waits does not make an attempt final":                 {tasks: []topsv1.UpgradeTask{task(id, topsv1.TaskWaiting)}, id: id},
		"a new request is refused when too many are open":                  {requests: full, refused: true},
		"an open request is found when too many are open":                  {requests: append([]Request{mine(id, "")}, full[1:]...), id: id, found: true},
		"a finished request makes room":                                    {requests: append([]Request{numbered(99, topsv1.TaskDone)}, full[1:]...), id: id},
	} {
		t.Run(name, func(t *testing.T) {
			e, found, refusal := Admit(test.requests, test.tasks, v, now)
			if (refusal != nil) != test.refused || (refusal != nil && refusal.Reason != ReasonTooMany) {
				t.Fatalf("refusal is %v, want refused=%t", refusal, test.refused)
			}
			if e.ID != test.id && !test.refused {
				t.Errorf("id is %s, want %s", e.ID, test.id)
			}
			if found != test.found {
				t.Errorf("found is %t, want %t", found, test.found)
			}
			if refusal == nil && !found {
				if e.Sequence != nextSequence(test.requests) || !e.RequestTime.Equal(&now) || e.Pod != v.Pod || e.Revision != v.Revision {
					t.Errorf("new request is incomplete: %+v", e)
				}
			}
		})
	}
}

func TestSettle(t *testing.T) {
	open, done, failed := numbered(1, ""), numbered(2, topsv1.TaskDone), numbered(3, topsv1.TaskFailed)
	for name, test := range map[string]struct {
		requests []Request
		tasks    []topsv1.UpgradeTask
		want     []Request
	}{
		"an open request stays open without a task":                     {requests: []Request{open}, want: []Request{open}},
		"an open request stays open while its task runs":                {requests: []Request{open}, tasks: []topsv1.UpgradeTask{task(open.ID, topsv1.TaskRunning)}, want: []Request{open}},
		"an open request takes over Done":                               {requests: []Request{open}, tasks: []topsv1.UpgradeTask{task(open.ID, topsv1.TaskDone)}, want: []Request{numbered(1, topsv1.TaskDone)}},
		"an open request takes over Failed":                             {requests: []Request{open}, tasks: []topsv1.UpgradeTask{task(open.ID, topsv1.TaskFailed)}, want: []Request{numbered(1, topsv1.TaskFailed)}},
		"a finished request stays with its task":                        {requests: []Request{done}, tasks: []topsv1.UpgradeTask{task(done.ID, topsv1.TaskDone)}, want: []Request{done}},
		"a finished request without its task is dropped, not asked for": {requests: []Request{open, done, failed}, want: []Request{open}},
		"a task without request adds nothing":                           {tasks: []topsv1.UpgradeTask{task("ffffffffffffffff", topsv1.TaskDone)}, want: []Request{}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, ApplyAnswers(test.requests, test.tasks)); diff != "" {
				t.Errorf("settled (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTrim(t *testing.T) {
	list := func(n int, open func(i int) bool) []Request {
		var requests []Request
		for i := range n {
			outcome := topsv1.TaskDone
			if open(i) {
				outcome = ""
			}
			requests = append(requests, numbered(uint64(i+1), outcome))
		}
		return requests
	}
	none, all := func(int) bool { return false }, func(int) bool { return true }
	for name, test := range map[string]struct {
		requests    []Request
		left, first int
	}{
		"keeps up to 20": {list(20, none), 20, 1},
		"drops the oldest finished ones above 20":          {list(25, none), 20, 6},
		"never drops open ones":                            {list(64, all), 64, 1},
		"drops a finished one behind old open ones":        {list(21, func(i int) bool { return i < 20 }), 20, 1},
		"keeps the open ones and fills up with the newest": {list(30, func(i int) bool { return i == 0 }), 20, 1},
	} {
		t.Run(name, func(t *testing.T) {
			before := countOpen(test.requests)
			kept := Trim(test.requests)
			if len(kept) != test.left || int(kept[0].Sequence) != test.first {
				t.Errorf("%d requests left, first %d; want %d, first %d", len(kept), kept[0].Sequence, test.left, test.first)
			}
			if countOpen(kept) != before {
				t.Errorf("%d open requests left of %d", countOpen(kept), before)
			}
		})
	}
}

func TestAdoptIgnoresWhatNoAgentWrote(t *testing.T) {
	known, lost := numbered(5, topsv1.TaskFailed), numbered(9, "")
	submitted := []topsv1.UpgradeRequest{known.UpgradeRequest, lost.UpgradeRequest, {ID: "../../etc/passwd"}, {ID: "by-hand"}, {ID: ""}}
	want := []Request{known, {Sequence: 6, UpgradeRequest: lost.UpgradeRequest}}
	if diff := cmp.Diff(want, Adopt([]Request{known}, submitted)); diff != "" {
		t.Errorf("adopted (-want +got):\n%s", diff)
	}
}
