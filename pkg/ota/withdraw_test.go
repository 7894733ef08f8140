package ota

import (
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/ota/endpoint"
	"github.com/topsops/gcu-operator/pkg/ota/guard"
	"github.com/topsops/gcu-operator/pkg/ota/request"
)

// taken returns which requests are submitted as withdrawn, by the name of their DaemonSet.
func (c *fakeCluster) taken() map[string]bool {
	taken := map[string]bool{}
	for name, r := range c.requested() {
		taken[name] = r.Withdrawn
	}
	return taken
}

func (b *bench) wantTaken(t *testing.T, want map[string]bool) {
	t.Helper()
	if diff := cmp.Diff(want, b.cluster.taken()); diff != "" {
		t.Errorf("taken back (-want +got):\n%s", diff)
	}
}

func (b *bench) sync(t *testing.T) {
	t.Helper()
	if err := b.syncOnce(t.Context()); err != nil {
		t.Fatalf("syncing: %v", err)
	}
}

var bothTaken = map[string]bool{"enflame-driver": true, "enflame-toolkit": true}

func TestAWaitingRequestIsWithdrawnWhenTheOperatorConfirms(t *testing.T) {
	b := newBench(t, newFleet(), t.TempDir())
	h := b.handler()
	call(t, h, "POST", "/v1/rollback", "").wants(409)
	id := call(t, h, "POST", "/v1/upgrade", "").wants(202).operation().ID
	b.cluster.answerAll(topsv1.TaskWaiting, "2 of at most 2 nodes are unavailable")
	b.wantTaken(t, map[string]bool{"enflame-driver": false, "enflame-toolkit": false})
	for range 2 {
		o := call(t, h, "POST", "/v1/rollback", "{}").wants(202).operation()
		if o.ID != id || o.State != request.Waiting || !strings.Contains(o.Message, "has not confirmed") {
			t.Errorf("taken back: %+v", o)
		}
		b.wantTaken(t, bothTaken)
	}
	first := b.cluster.requested()
	if p := call(t, h, "POST", "/v1/upgrade", "").wants(409).problem(); p.Operation != id {
		t.Errorf("an order before the operator has confirmed: %+v", p)
	}
	b.cluster.answerAll(topsv1.TaskWithdrawn, "it was taken back")
	b.sync(t)
	if o := call(t, h, "GET", "/v1/operations/"+id, "").operation(); o.State != request.Withdrawn || o.EndTime == nil {
		t.Errorf("at its end: %+v", o)
	}
	call(t, h, "POST", "/v1/rollback", "").wants(409)
	// Upgrading after all takes a new order.
	call(t, h, "POST", "/v1/upgrade", "").wants(202)
	for name, r := range b.cluster.requested() {
		if r.ID == first[name].ID || r.Withdrawn {
			t.Errorf("request for %s is %+v", name, r)
		}
	}
}

func TestWhatHasStartedGoesOn(t *testing.T) {
	b := newBench(t, newFleet(), t.TempDir())
	h := b.handler()
	id := call(t, h, "POST", "/v1/upgrade", "").wants(202).operation().ID
	b.cluster.answerAll(topsv1.TaskRunning, "evicting")
	b.sync(t)
	p := call(t, h, "POST", "/v1/rollback", "").wants(409).problem()
	if p.Operation != id || p.Title != "OperationRunning" || !strings.Contains(p.Detail, "kubectl gcu rollback") || !strings.Contains(p.Detail, "has started") {
		t.Errorf("refused with %+v", p)
	}
	// One component has started, the other waits.
	b.cluster.set(func() { b.cluster.nodeUpgrade.Status.Tasks[1].State = topsv1.TaskWaiting })
	waits := b.cluster.nodeUpgrade.Status.Requests[1].DaemonSet.Name
	b.sync(t)
	call(t, h, "POST", "/v1/rollback", "").wants(202)
	b.wantTaken(t, map[string]bool{"enflame-driver": waits == "enflame-driver", "enflame-toolkit": waits == "enflame-toolkit"})
	b.cluster.set(func() {
		b.cluster.nodeUpgrade.Status.Tasks[0].State, b.cluster.nodeUpgrade.Status.Tasks[1].State = topsv1.TaskDone, topsv1.TaskWithdrawn
	})
	b.sync(t)
	if o := call(t, h, "GET", "/v1/operations/"+id, "").operation(); o.State != request.Withdrawn || o.Requests[0].State == o.Requests[1].State {
		t.Errorf("at its end: %+v", o)
	}
}

func TestItCanBeTooLateToTakeBack(t *testing.T) {
	b := newBench(t, newFleet(), t.TempDir())
	h := b.handler()
	id := call(t, h, "POST", "/v1/upgrade", "").wants(202).operation().ID
	call(t, h, "POST", "/v1/rollback", "").wants(202)
	b.cluster.answerAll(topsv1.TaskDone, "replaced") // it had started before the operator saw the withdrawal
	b.sync(t)
	if o := call(t, h, "GET", "/v1/operations/"+id, "").operation(); o.State != request.Done {
		t.Errorf("at its end: %+v", o)
	}
}

func TestAnUnsentOperationIsWithdrawnLocally(t *testing.T) {
	c := newFleet()
	b := newBench(t, c, t.TempDir())
	h := b.handler()
	b.sync(t)
	c.set(func() { c.unreachable = errUnreachable })
	if o := call(t, h, "POST", "/v1/upgrade", "").wants(202).operation(); o.State != request.Queued {
		t.Fatalf("%+v", o)
	}
	if o := call(t, h, "POST", "/v1/rollback", "").wants(200).operation(); o.State != request.Withdrawn || o.EndTime == nil || o.Offline != "" {
		t.Errorf("taken back: %+v", o)
	}
	c.set(func() { c.unreachable = nil })
	restarted := newBench(t, c, b.directory)
	restarted.sync(t)
	b.wantTaken(t, map[string]bool{})
}

func TestAWithdrawalWithoutAConnectionIsSentLater(t *testing.T) {
	c := newFleet()
	b := newBench(t, c, t.TempDir())
	h := b.handler()
	call(t, h, "POST", "/v1/upgrade", "").wants(202)
	c.set(func() { c.unreachable = errUnreachable })
	call(t, h, "POST", "/v1/rollback", "").wants(202)
	c.set(func() { c.unreachable = nil })
	b.wantTaken(t, map[string]bool{"enflame-driver": false, "enflame-toolkit": false})
	// Killed here: the withdrawal is on disk.
	restarted := newBench(t, c, b.directory)
	restarted.sync(t)
	b.wantTaken(t, bothTaken)
}

func TestAnAPIServerThatRefusesTakesNothingBack(t *testing.T) {
	c := newFleet()
	b := newBench(t, c, t.TempDir())
	call(t, b.handler(), "POST", "/v1/upgrade", "").wants(202)
	c.set(func() { c.node = nil })
	call(t, b.handler(), "POST", "/v1/rollback", "").wants(503)
	b.wantTaken(t, map[string]bool{"enflame-driver": false, "enflame-toolkit": false})
}

func TestASinglePodRequestIsWithdrawnToo(t *testing.T) {
	b := newBench(t, newFleet(), t.TempDir())
	h := b.handler()
	b.mustUpgrade(t, "enflame-driver-x")
	o := call(t, h, "POST", "/v1/rollback", "").wants(202).operation()
	if len(o.Requests) != 1 || o.Requests[0].Pod != "enflame-driver-x" {
		t.Errorf("operation %+v", o)
	}
	b.wantTaken(t, map[string]bool{"enflame-driver": true})
	before := b.cluster.submitted()
	b.mustUpgrade(t, "enflame-driver-x") // requested again before the operator has answered
	if submitted := b.cluster.submitted(); len(submitted) != 2 || submitted[0] != before[0] || submitted[1] == before[0] {
		t.Errorf("requests %v after %v", submitted, before)
	}
	b.cluster.set(func() {
		b.cluster.nodeUpgrade.Status.Tasks = []topsv1.UpgradeTask{{RequestID: before[0], State: topsv1.TaskWithdrawn}}
	})
	b.sync(t)
	if o := call(t, h, "GET", "/v1/operations/"+o.ID, "").operation(); o.State != request.Withdrawn {
		t.Errorf("at its end: %+v", o)
	}
	b.wantTaken(t, map[string]bool{"enflame-driver": false}) // the newer request stays open
}

func TestAWithdrawalThatCannotBeRecordedFails(t *testing.T) {
	b := newBench(t, newFleet(), t.TempDir())
	call(t, b.handler(), "POST", "/v1/upgrade", "").wants(202)
	b.breakDisk(t, "requests")
	call(t, b.handler(), "POST", "/v1/rollback", "").wants(500)
	b.wantTaken(t, map[string]bool{"enflame-driver": false, "enflame-toolkit": false})
}

// TestAPartlySentOperationIsNotDropped: the agent was killed after recording the requests
// of an operation, and before recording that the operator knows of them.
func TestAPartlySentOperationIsNotDropped(t *testing.T) {
	c := newFleet()
	b := newBench(t, c, t.TempDir())
	id := call(t, b.handler(), "POST", "/v1/upgrade", "").wants(202).operation().ID
	r := b.loop.journals.Operations.List[0]
	r.Queued = true
	if err := b.loop.journals.Operations.Put(r); err != nil {
		t.Fatal(err)
	}
	c.set(func() { c.unreachable = errUnreachable })
	restarted := newBench(t, c, b.directory)
	call(t, restarted.handler(), "POST", "/v1/hold", "").wants(200)
	if o := call(t, restarted.handler(), "GET", "/v1/operations/"+id, "").operation(); o.State != request.Queued {
		t.Errorf("what the operator may know of is %+v", o)
	}
	if o := call(t, restarted.handler(), "POST", "/v1/rollback", "").wants(202).operation(); len(o.Requests) != 2 {
		t.Errorf("taken back without a connection: %+v", o)
	}
	again := newBench(t, c, b.directory) // killed again: it is on disk
	c.set(func() { c.unreachable = nil })
	again.sync(t)
	b.wantTaken(t, bothTaken)
}

// One of two requests was recorded when the agent was killed: the other is not made later.
func TestAHalfSentOperationIsWithdrawnAsAWhole(t *testing.T) {
	c := newFleet()
	b := newBench(t, c, t.TempDir())
	call(t, b.handler(), "POST", "/v1/upgrade", "").wants(202)
	journals := &b.loop.journals
	o := journals.Operations.List[0]
	o.Queued = true
	if err := journals.Operations.Put(o); err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(journals.Requests.List, func(r request.Request) bool { return r.DaemonSet.Name == "enflame-toolkit" })
	if err := journals.Requests.Remove(journals.Requests.List[i].ID); err != nil {
		t.Fatal(err)
	}
	c.set(func() { c.unreachable = errUnreachable })
	restarted := newBench(t, c, b.directory)
	if taken := call(t, restarted.handler(), "POST", "/v1/rollback", "").wants(202).operation(); len(taken.Requests) != 2 {
		t.Errorf("taken back: %+v", taken)
	}
	c.set(func() { c.unreachable = nil })
	restarted.sync(t)
	b.wantTaken(t, map[string]bool{"enflame-driver": true})
}

// The disk was full while the requests were recorded: some are on it.
func TestWhatAFullDiskKeptDoesNotComeBack(t *testing.T) {
	for name, end := range map[string]func(b *bench){
		"withdrawn": func(b *bench) { call(t, b.handler(), "POST", "/v1/rollback", "").wants(200) },
		"dropped":   func(b *bench) { call(t, b.handler(), "POST", "/v1/hold", "").wants(200) },
	} {
		t.Run(name, func(t *testing.T) {
			c := newFleet()
			b := newBench(t, c, t.TempDir())
			b.sync(t)
			c.set(func() { c.unreachable = errUnreachable })
			id := call(t, b.handler(), "POST", "/v1/upgrade", "").wants(202).operation().ID
			half := []request.Request{
				{Sequence: 1, UpgradeRequest: topsv1.UpgradeRequest{ID: "0123456789abcdef", Operation: id}},
				{Sequence: 2, UpgradeRequest: topsv1.UpgradeRequest{ID: "0123456789abcdef-2", Operation: id, Revision: strings.Repeat("x", 1<<20)}},
			}
			if err := b.loop.journals.Requests.Keep(half); err == nil {
				t.Fatal("both are recorded")
			}
			end(b)
			if restarted := newBench(t, c, b.directory); len(restarted.loop.journals.Requests.List) > 0 {
				t.Errorf("after a restart there is %+v", restarted.loop.journals.Requests.List)
			}
		})
	}
}

func TestRejectionsMatchTheOpenAPIDocument(t *testing.T) {
	for _, path := range []string{"GET /v1/openapi.yaml", "GET /v1/status", "POST /v1/upgrade", "POST /v1/components/driver/upgrade",
		"GET /v1/operations", "GET /v1/operations/op-1", "POST /v1/hold", "POST /v1/release", "POST /v1/rollback"} {
		for _, status := range []int{401, 403, 421} {
			method, target, _ := strings.Cut(path, " ")
			r, w := httptest.NewRequest(method, "http://localhost:10267"+target, nil), httptest.NewRecorder()
			endpoint.Deny(w, r, &guard.Denial{Status: status, Reason: "Denied", Message: "no"})
			reply{t: t, status: w.Code, header: w.Header(), body: w.Body.Bytes()}.isAsDescribed(r)
		}
	}
}

// answerBack has the operator answer the rollback that was asked for.
func (c *fakeCluster) answerBack(state topsv1.TaskState, reason string) {
	c.answerAll(state, "answered")
	c.set(func() {
		for i := range c.nodeUpgrade.Status.Tasks {
			c.nodeUpgrade.Status.Tasks[i].Reason = reason
		}
	})
}

func TestWhatTheLastOperationUpgradedIsBroughtBack(t *testing.T) {
	b := newBench(t, newFleet(), t.TempDir())
	h := b.handler()
	call(t, h, "POST", "/v1/components/driver/upgrade", "").wants(202)
	b.cluster.answerAll(topsv1.TaskDone, "replaced")
	b.cluster.upgraded("driver")
	b.sync(t)
	o := call(t, h, "POST", "/v1/rollback", "").wants(202).operation()
	if len(o.Requests) != 1 || o.Requests[0].Component != "driver" || !o.Rollback {
		t.Fatalf("operation %+v", o)
	}
	if r := b.cluster.requested()["enflame-driver"]; !r.Rollback || r.Revision != newestHash || r.Pod.UID != "successor" {
		t.Errorf("asked for %+v", r)
	}
	b.cluster.answerBack(topsv1.TaskWaiting, "Because")
	b.sync(t)
	if again := call(t, h, "POST", "/v1/rollback", "").wants(202).operation(); again.ID != o.ID {
		t.Errorf("asked twice: %+v, the first was %s", again, o.ID)
	}
	b.cluster.answerBack(topsv1.TaskDone, topsv1.ReasonUndone)
	b.sync(t)
	if o := call(t, h, "GET", "/v1/operations/"+o.ID, "").operation(); o.State != request.Done || !strings.Contains(o.Message, "1 component rolled back") {
		t.Errorf("at its end: %+v", o)
	}
	call(t, h, "POST", "/v1/components/driver/rollback", "").wants(202) // once more, from what it has now
}

func TestAnOperatorThatCannotBringOneNodeBackSaysSo(t *testing.T) {
	b := newBench(t, newFleet(), t.TempDir())
	o := call(t, b.handler(), "POST", "/v1/components/driver/rollback", "").wants(202).operation()
	b.cluster.answerBack(topsv1.TaskDone, "AtTarget")
	b.sync(t)
	if o := call(t, b.handler(), "GET", "/v1/operations/"+o.ID, "").operation(); o.State != request.Failed || !strings.Contains(o.Message, "upgrade it") {
		t.Errorf("at its end: %+v", o)
	}
}

// upgraded replaces the pod of a component by one of the newest revision.
func (c *fakeCluster) upgraded(component string) {
	c.set(func() {
		pod := c.pods["kube-system/enflame-"+component+"-x"]
		pod.UID, pod.Labels[appsv1.ControllerRevisionHashLabelKey] = "successor", newestHash
	})
}

// TestWhatWasUpgradedEarlierIsNotBroughtBackByARepeatedCall: the answer to the first, which withdrew another operation, was lost.
func TestWhatWasUpgradedEarlierIsNotBroughtBackByARepeatedCall(t *testing.T) {
	for name, test := range map[string]struct {
		earlier, withdrawn string
		answers            map[string]topsv1.TaskState
	}{
		"the withdrawal was in time": {"/v1/components/driver/upgrade", "/v1/components/toolkit/upgrade",
			map[string]topsv1.TaskState{"enflame-driver": topsv1.TaskDone, "enflame-toolkit": topsv1.TaskWithdrawn}},
		"the withdrawal was too late": {"", "/v1/components/driver/upgrade", map[string]topsv1.TaskState{"enflame-driver": topsv1.TaskDone}},
		"the withdrawal was too late for one part": {"", "/v1/upgrade",
			map[string]topsv1.TaskState{"enflame-driver": topsv1.TaskDone, "enflame-toolkit": topsv1.TaskWithdrawn}},
		"one part goes on": {"", "/v1/upgrade",
			map[string]topsv1.TaskState{"enflame-driver": topsv1.TaskRunning, "enflame-toolkit": topsv1.TaskWithdrawn}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, newFleet(), t.TempDir())
			if test.earlier != "" {
				call(t, b.handler(), "POST", test.earlier, "").wants(202)
				b.cluster.answerAll(topsv1.TaskDone, "replaced")
				b.cluster.upgraded("driver")
				b.sync(t)
			}
			id := call(t, b.handler(), "POST", test.withdrawn, "").wants(202).operation().ID
			call(t, b.handler(), "POST", "/v1/rollback", "", "Idempotency-Key", "k").wants(202)
			b.cluster.answerAll("", "answered")
			b.cluster.set(func() {
				for i, r := range b.cluster.nodeUpgrade.Status.Requests {
					b.cluster.nodeUpgrade.Status.Tasks[i].State = test.answers[r.DaemonSet.Name]
				}
			})
			b.cluster.upgraded("driver")
			b.sync(t)
			before := b.cluster.requested()
			b = newBench(t, b.cluster, b.directory) // the key outlives the agent
			again := call(t, b.handler(), "POST", "/v1/rollback", "", "Idempotency-Key", "k")
			if o := again.operation(); again.status >= 300 || o.ID != id || o.Rollback {
				t.Errorf("repeated: %d %s, want operation %s", again.status, again.body, id)
			}
			if diff := cmp.Diff(before, b.cluster.requested()); diff != "" {
				t.Errorf("requests after the repeated call (-before +after):\n%s", diff)
			}
		})
	}
}

func TestTheKeyOfAWithdrawalIsOfNoOtherCall(t *testing.T) {
	b := newBench(t, newFleet(), t.TempDir())
	h := b.handler()
	id := call(t, h, "POST", "/v1/components/driver/upgrade", "").wants(202).operation().ID
	for _, key := range []string{"k", "l"} { // two callers
		call(t, h, "POST", "/v1/rollback", "", "Idempotency-Key", key).wants(202)
	}
	b.cluster.answerAll(topsv1.TaskWithdrawn, "in time")
	b.sync(t)
	for _, path := range []string{"/v1/upgrade", "/v1/components/driver/upgrade", "/v1/components/driver/rollback"} {
		call(t, h, "POST", path, "", "Idempotency-Key", "k").wants(422)
	}
	next := call(t, h, "POST", "/v1/components/toolkit/upgrade", "").wants(202).operation().ID
	for _, key := range []string{"k", "l"} {
		if o := call(t, h, "POST", "/v1/rollback", "", "Idempotency-Key", key).wants(200).operation(); o.ID != id {
			t.Errorf("key %s: %+v, want operation %s", key, o, id)
		}
	}
	if o := call(t, h, "GET", "/v1/operations/"+next, "").operation(); o.State != request.Waiting || b.cluster.taken()["enflame-toolkit"] {
		t.Errorf("a repeated call withdrew what was asked for after it: %+v", o)
	}
}

// TestARollbackReturnedToAnotherCallIsNotRepeated: a second caller was given the rollback that was going on.
func TestARollbackReturnedToAnotherCallIsNotRepeated(t *testing.T) {
	b := newBench(t, newFleet(), t.TempDir())
	h := b.handler()
	id := call(t, h, "POST", "/v1/components/driver/rollback", "").wants(202).operation().ID
	call(t, h, "POST", "/v1/rollback", "", "Idempotency-Key", "k").wants(202)
	b.cluster.answerBack(topsv1.TaskDone, topsv1.ReasonUndone)
	b.sync(t)
	call(t, h, "POST", "/v1/components/driver/upgrade", "").wants(202)
	b.cluster.answerAll(topsv1.TaskDone, "replaced")
	b.cluster.upgraded("driver")
	b.sync(t)
	if o := call(t, h, "POST", "/v1/rollback", "", "Idempotency-Key", "k").wants(200).operation(); o.ID != id {
		t.Errorf("repeated: %+v, want operation %s", o, id)
	}
}

func TestARollbackThatIsQueuedIsWithdrawn(t *testing.T) {
	c := newFleet()
	b := seenBench(t, c)
	call(t, b.handler(), "POST", "/v1/components/driver/rollback", "").wants(202)
	if o := call(t, b.handler(), "POST", "/v1/rollback", "").wants(200).operation(); o.State != request.Withdrawn {
		t.Errorf("operation %+v", o)
	}
}
