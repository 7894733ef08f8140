package ota

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

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
	call(t, restarted.handler(), "POST", "/v1/rollback", "").wants(503)
	call(t, restarted.handler(), "POST", "/v1/hold", "").wants(200)
	if o := call(t, restarted.handler(), "GET", "/v1/operations/"+id, "").operation(); o.State != request.Queued {
		t.Errorf("what the operator may know of is %+v", o)
	}
	c.set(func() { c.unreachable = nil })
	restarted.sync(t)
	call(t, restarted.handler(), "POST", "/v1/rollback", "").wants(202)
	b.wantTaken(t, bothTaken)
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
	b.cluster.set(func() {
		pod := b.cluster.pods["kube-system/enflame-driver-x"]
		pod.UID, pod.Labels["controller-revision-hash"] = "successor", newestHash
	})
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

// TestWhatWasUpgradedEarlierIsNotBroughtBackByARepeatedCall: the answer to the first, which withdrew another operation, was lost.
func TestWhatWasUpgradedEarlierIsNotBroughtBackByARepeatedCall(t *testing.T) {
	b := newBench(t, newFleet(), t.TempDir())
	h := b.handler()
	call(t, h, "POST", "/v1/components/driver/upgrade", "").wants(202)
	b.cluster.answerAll(topsv1.TaskDone, "replaced")
	b.sync(t)
	call(t, h, "POST", "/v1/components/toolkit/upgrade", "").wants(202)
	call(t, h, "POST", "/v1/rollback", "", "Idempotency-Key", "k").wants(202)
	b.cluster.answerAll(topsv1.TaskWithdrawn, "in time")
	b.sync(t)
	call(t, h, "POST", "/v1/rollback", "", "Idempotency-Key", "k").wants(409)
}

func TestARollbackThatIsQueuedIsWithdrawn(t *testing.T) {
	c := newFleet()
	b := seenBench(t, c)
	call(t, b.handler(), "POST", "/v1/components/driver/rollback", "").wants(202)
	if o := call(t, b.handler(), "POST", "/v1/rollback", "").wants(200).operation(); o.State != request.Withdrawn {
		t.Errorf("operation %+v", o)
	}
}
