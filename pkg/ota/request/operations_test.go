package request

import (
	"fmt"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

func TestTheWorstEndOfAPartIsTheEndOfTheOperation(t *testing.T) {
	for name, test := range map[string]struct {
		states []State
		want   State
	}{
		"nothing to do":                 {nil, Done},
		"all are done":                  {[]State{Done, Done}, Done},
		"one failed":                    {[]State{Done, Failed, Dropped}, Failed},
		"one was dropped":               {[]State{Done, Dropped}, Dropped},
		"one runs":                      {[]State{Failed, Running, Waiting}, Running},
		"one waits when others are not": {[]State{Done, Waiting}, Waiting},
	} {
		o := Operation{}
		for _, s := range test.states {
			o.Parts = append(o.Parts, Part{State: s})
		}
		if got := o.State(); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}

func TestTheLastKeysOfRollbacksAreKept(t *testing.T) {
	o := Operation{ID: "op", Withdrawn: true}.ReturnedFor("node-a", "")
	for i := range 2 * KeptOperations {
		for range 2 {
			o = o.ReturnedFor("node-a", fmt.Sprint(i))
		}
	}
	for key, want := range map[string]bool{"": false, "0": false, fmt.Sprint(KeptOperations): true, fmt.Sprint(2*KeptOperations - 1): true} {
		if got := Knows([]Operation{o}, "node-a", key); got != want {
			t.Errorf("key %q: known %t, want %t", key, got, want)
		}
	}
}

// The key of a rollback is written before its withdrawals. If these could not be written, the caller was told so, or nothing.
func TestAKeyOfARollbackWithoutEffectIsNotKnown(t *testing.T) {
	end := metav1.Now()
	for name, test := range map[string]struct {
		operation Operation
		known     bool
	}{
		"it goes on":                          {Operation{Parts: []Part{{State: Waiting}}}, false},
		"it was not withdrawn, and has ended": {Operation{Parts: []Part{{State: Done}}, End: &end}, false},
		"one part was withdrawn":              {Operation{Parts: []Part{{State: Done}, {State: Withdrawn}}, End: &end}, true},
		"its withdrawal was too late":         {Operation{Parts: []Part{{State: Done}}, End: &end, Withdrawn: true}, true},
		"it is a rollback that goes on":       {Operation{Wanted: Wanted{Rollback: true}, Parts: []Part{{State: Running}}}, false},
		"it is a rollback that has ended":     {Operation{Wanted: Wanted{Rollback: true}, Parts: []Part{{State: Done}}, End: &end}, true},
	} {
		if got := Knows([]Operation{test.operation.ReturnedFor("node-a", "k")}, "node-a", "k"); got != test.known {
			t.Errorf("%s: known %t, want %t", name, got, test.known)
		}
	}
}

func TestARequestWhoseRevisionChangedIsClosedAndReplacedAtOnce(t *testing.T) {
	now := metav1.Unix(2000, 0)
	earlier, _, _ := Admit(nil, nil, wantedFor("uid", "earlier"), now)
	answered := []topsv1.UpgradeTask{{RequestID: earlier.ID, State: topsv1.TaskFailed, Reason: string(ReasonRevisionChanged), Message: "ask again"}}
	operation := Operation{ID: "op", Parts: []Part{partOf(earlier.UpgradeRequest)}}.Follow(answered, now)
	if p := operation.Parts[0]; operation.End == nil || p.State != Failed || p.Reason != "RevisionChanged" || p.Message != "ask again" {
		t.Errorf("operation %+v", operation)
	}
	requests := ApplyAnswers([]Request{earlier}, answered)
	if len(requests) != 1 || requests[0].Open() {
		t.Errorf("requests %+v", requests)
	}
	again, found, refusal := Admit(requests, answered, wantedFor("uid", "newest"), now)
	if found || refusal != nil || again.Revision != "newest" || again.ID == earlier.ID {
		t.Errorf("asked again: %+v, found %v, refused %v", again, found, refusal)
	}
}

// A request of others that is to be withdrawn beside a rollback is not made again with it, and answers for itself.
func TestARequestBesideARollbackThatIsSentAgain(t *testing.T) {
	now := metav1.Unix(2000, 0)
	beside := partOf(wantedFor("uid", "newest"))
	beside.Request, beside.State, beside.OtherRequest = "others", Waiting, true
	own := topsv1.UpgradeRequest{ID: "own", Operation: "op", Rollback: true, DaemonSet: beside.DaemonSet}
	for name, latest := range map[string]bool{"the rollback of a revision": false, "of the latest": true} {
		queued := Operation{ID: "op", Wanted: Wanted{Rollback: true, Latest: latest}, Queued: true, Parts: []Part{{DaemonSet: beside.DaemonSet, Revision: "newest"}, beside}}
		status := &topsv1.NodeUpgradeStatus{Requests: []topsv1.UpgradeRequest{own}}
		o, _ := queued.RequestParts(&Node{}, []Request{{UpgradeRequest: own}}, status, now)
		if len(o.Parts) != 2 || o.Parts[0].Request != "own" || o.Parts[1].Request != "others" || o.Parts[1].State != Waiting {
			t.Errorf("%s has the parts %+v", name, o.Parts)
		}
		o = o.Follow([]topsv1.UpgradeTask{{RequestID: "own", State: topsv1.TaskDone, Reason: topsv1.ReasonUndone},
			{RequestID: "others", State: topsv1.TaskFailed, Reason: topsv1.ReasonUndone, Message: "the node went back"}}, now)
		if o.State() != Done || o.End == nil {
			t.Errorf("%s is %s: %+v", name, o.State(), o.Parts)
		}
	}
}

func TestAnInterruptedWithdrawal(t *testing.T) {
	of := func(operation, id string, withdrawn bool) Request {
		return Request{UpgradeRequest: topsv1.UpgradeRequest{ID: id, Operation: operation, Withdrawn: withdrawn}}
	}
	answered := of("op", "a", true)
	answered.Outcome = topsv1.TaskWithdrawn
	for _, tc := range []struct {
		name      string
		operation Operation
		requests  []Request
		want      []string // nil: there is none
	}{
		{"one of two is withdrawn", Operation{ID: "op"}, []Request{of("op", "a", true), of("op", "b", false)}, []string{"b"}},
		{"and the operator has confirmed that", Operation{ID: "op"}, []Request{answered, of("op", "b", false)}, []string{"b"}},
		{"another request came since", Operation{ID: "op"}, []Request{of("op", "a", true), of("op", "b", false), of("", "c", false)}, []string{"b"}},
		{"the other one has started", Operation{ID: "op"}, []Request{of("op", "a", true), of("op", "started", false)}, []string{}},
		{"it was recorded as a whole", Operation{ID: "op", Withdrawn: true}, []Request{of("op", "a", true), of("op", "b", false)}, nil},
		{"nothing was withdrawn", Operation{ID: "op"}, []Request{of("op", "a", false)}, nil},
		{"a single request was", Operation{ID: "op"}, []Request{of("", "a", true), of("op", "b", false)}, nil},
	} {
		tasks := []topsv1.UpgradeTask{{RequestID: "started", State: topsv1.TaskRunning}}
		o, waiting, is := InterruptedWithdrawal([]Operation{tc.operation}, tc.requests, tasks)
		if is != (tc.want != nil) || is && o.ID != "op" || !slices.Equal(waiting, tc.want) {
			t.Errorf("%s: %v, %v", tc.name, is, waiting)
		}
	}
}
