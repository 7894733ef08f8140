package ota

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/ota/request"
	"github.com/topsops/gcu-operator/pkg/ota/response"
)

// statesOf returns the states of an operation's parts, by their pods.
func statesOf(o response.Operation) map[string]request.State {
	states := map[string]request.State{}
	for _, p := range o.Requests {
		states[p.Pod] = p.State
	}
	return states
}

// TestASingleRequestIsWithdrawnWithAQueuedOperation: the operator has the request and not the operation, which may be about the same
// pod.
func TestASingleRequestIsWithdrawnWithAQueuedOperation(t *testing.T) {
	const single = "enflame-toolkit-x"
	for name, test := range map[string]struct {
		queued string
		want   map[string]request.State
	}{
		"of which it is a part": {"/v1/upgrade", map[string]request.State{"enflame-driver-x": request.Withdrawn, single: request.Waiting}},
		"of another component":  {"/v1/components/driver/upgrade", map[string]request.State{"enflame-driver-x": request.Withdrawn, single: request.Waiting}},
		"a rollback":            {"/v1/components/driver/rollback", map[string]request.State{"enflame-driver-x": request.Withdrawn, single: request.Waiting}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, newFleet(), t.TempDir())
			b.mustUpgrade(t, single)
			b.sync(t)
			b.cluster.set(func() { b.cluster.unreachable = errUnreachable })
			id := call(t, b.handler(), "POST", test.queued, "").wants(202).operation().ID
			o := call(t, b.handler(), "POST", "/v1/rollback", "").wants(202).operation()
			if diff := cmp.Diff(test.want, statesOf(o)); diff != "" || o.ID != id || o.State != request.Waiting || o.EndTime != nil {
				t.Errorf("withdrawn: %s is %s, its parts (-want +got):\n%s", o.ID, o.State, diff)
			}
			b.reconnect(t)
			b.wantTaken(t, map[string]bool{"enflame-toolkit": true})
			for state, want := range map[topsv1.TaskState]request.State{topsv1.TaskWithdrawn: request.Withdrawn, topsv1.TaskDone: request.Done} {
				answered := newBench(t, b.cluster, b.directory)
				b.cluster.answerAll(state, "answered")
				answered.lookAtCluster()
				o := call(t, answered.handler(), "GET", "/v1/operations/"+id, "").operation()
				if got := statesOf(o)[single]; got != want || o.EndTime == nil {
					t.Errorf("when the operator has answered %s, the request is %s: %+v", state, got, o)
				}
			}
		})
	}
}

// TestASingleRequestIsWithdrawnBesideARollback, which goes on: it is about another component.
func TestASingleRequestIsWithdrawnBesideARollback(t *testing.T) {
	for _, connected := range []bool{true, false} {
		t.Run(fmt.Sprintf("connected %t", connected), func(t *testing.T) {
			b := newBench(t, newFleet(), t.TempDir())
			b.mustUpgrade(t, "enflame-toolkit-x")
			id := call(t, b.handler(), "POST", "/v1/components/driver/rollback", "").wants(202).operation().ID
			if !connected {
				b.cluster.set(func() { b.cluster.unreachable = errUnreachable })
			}
			if o := call(t, b.handler(), "POST", "/v1/rollback", "", "Idempotency-Key", "k").wants(202).operation(); o.ID != id || o.State != request.Waiting {
				t.Errorf("returned: %+v, want operation %s", o, id)
			}
			if !connected {
				newBench(t, b.cluster, b.directory).reconnect(t) // the withdrawal outlives the agent
			}
			b.wantTaken(t, map[string]bool{"enflame-driver": false, "enflame-toolkit": true})
		})
	}
}

// answerRollback has the operator answer the rollback as done, and the single request as given.
func (b *bench) answerRollback(t *testing.T, single topsv1.TaskState) {
	t.Helper()
	b.cluster.answerBack(topsv1.TaskDone, topsv1.ReasonUndone)
	b.cluster.set(func() {
		for i, r := range b.cluster.nodeUpgrade.Status.Requests {
			if task := &b.cluster.nodeUpgrade.Status.Tasks[i]; !r.Rollback {
				task.State, task.Reason = single, ""
			}
		}
	})
	b.sync(t)
}

// TestARollbackWaitsForTheRequestsThatAreWithdrawnBesideIt, and says whether that was in time.
func TestARollbackWaitsForTheRequestsThatAreWithdrawnBesideIt(t *testing.T) {
	for _, tt := range []struct {
		single topsv1.TaskState
		want   request.State
		says   string
	}{
		{topsv1.TaskWaiting, request.Waiting, "toolkit"},
		{topsv1.TaskRunning, request.Running, "toolkit"},
		{topsv1.TaskWithdrawn, request.Done, "1 component rolled back"},
		{topsv1.TaskDone, request.Failed, "withdrawn too late"},
		{topsv1.TaskFailed, request.Failed, "toolkit"},
	} {
		t.Run(string(tt.single), func(t *testing.T) {
			b := newBench(t, newFleet(), t.TempDir())
			b.mustUpgrade(t, "enflame-toolkit-x")
			id := call(t, b.handler(), "POST", "/v1/components/driver/rollback", "").wants(202).operation().ID
			for range 2 { // the same once more changes nothing
				if o := call(t, b.handler(), "POST", "/v1/rollback", "").wants(202).operation(); o.ID != id || len(o.Requests) != 2 {
					t.Errorf("returned: %+v, want operation %s", o, id)
				}
			}
			b.answerRollback(t, tt.single)
			if o := call(t, b.handler(), "GET", "/v1/operations/"+id, "").operation(); o.State != tt.want || !strings.Contains(o.Message, tt.says) || (o.EndTime != nil) != tt.want.Final() {
				t.Errorf("the rollback is %s: %+v", o.State, o)
			}
		})
	}
}

// TestKilledAtEveryWriteASingleRequestIsWithdrawnBesideARollback by the repeated call, also if the rollback has ended by then; and without
// it, by the agent that is back, if it has become a part of the rollback.
func TestKilledAtEveryWriteASingleRequestIsWithdrawnBesideARollback(t *testing.T) {
	rollback := step{"it is taken back", post("/v1/rollback", "", "Idempotency-Key", "tuesday")}
	for at, survived := 1, false; !survived && !t.Failed(); at++ {
		c, r := newFleet(), &reaper{}
		r.watch(t, c)
		b := newBench(t, c, t.TempDir())
		b.mustUpgrade(t, "enflame-toolkit-x")
		id := call(t, b.handler(), "POST", "/v1/components/driver/rollback", "").wants(202).operation().ID
		*r = reaper{at: at}
		_, survived = b.survives(rollback)
		*r = reaper{}
		b = newBenchAt(t, c, b.directory, b.clock)
		b.sync(t)
		o := call(t, b.handler(), "GET", "/v1/operations/"+id, "").operation()
		if taken := c.taken(); taken["enflame-toolkit"] != (len(o.Requests) == 2) {
			t.Errorf("killed at %d, the requests are withdrawn: %v, the rollback is %+v", at, taken, o)
		}
		b.answerRollback(t, topsv1.TaskWaiting)
		if status, _ := b.survives(rollback); status >= 300 {
			t.Errorf("killed at %d, the repeated call is answered with %d", at, status)
		}
		if taken := c.taken(); !taken["enflame-toolkit"] {
			t.Errorf("killed at %d, the requests are withdrawn: %v", at, taken)
		}
	}
}

// TestASingleRequestBesideARollbackStaysIfItsWithdrawalCannotBeRecorded, and the rollback is as before.
func TestASingleRequestBesideARollbackStaysIfItsWithdrawalCannotBeRecorded(t *testing.T) {
	b := newBench(t, newFleet(), t.TempDir())
	b.mustUpgrade(t, "enflame-toolkit-x")
	id := call(t, b.handler(), "POST", "/v1/components/driver/rollback", "").wants(202).operation().ID
	b.breakDisk(t, "requests")
	call(t, b.handler(), "POST", "/v1/rollback", "").wants(500)
	b.sync(t)
	if o := b.loop.journals.Operations.List[0]; o.ID != id || len(o.Parts) != 1 || b.cluster.taken()["enflame-toolkit"] {
		t.Errorf("then the rollback is %+v", o)
	}
}

// TestKilledAtEveryWriteASingleRequestIsWithdrawnWithAQueuedOperation by the repeated call.
func TestKilledAtEveryWriteASingleRequestIsWithdrawnWithAQueuedOperation(t *testing.T) {
	rollback := step{"it is taken back", post("/v1/rollback", "", "Idempotency-Key", "tuesday")}
	for at, survived := 1, false; !survived && !t.Failed(); at++ {
		c, r := newFleet(), &reaper{}
		r.watch(t, c)
		b := newBench(t, c, t.TempDir())
		b.mustUpgrade(t, "enflame-toolkit-x")
		b.sync(t)
		c.set(func() { c.unreachable = errUnreachable })
		id := call(t, b.handler(), "POST", "/v1/upgrade", "").wants(202).operation().ID
		*r = reaper{at: at}
		_, survived = b.survives(rollback)
		*r = reaper{}
		b = newBenchAt(t, c, b.directory, b.clock)
		if status, _ := b.survives(rollback); status >= 300 {
			t.Errorf("killed at %d, the repeated call is answered with %d", at, status)
		}
		b.reconnect(t)
		b.wantTaken(t, map[string]bool{"enflame-toolkit": true})
		want := map[string]request.State{"enflame-driver-x": request.Withdrawn, "enflame-toolkit-x": request.Waiting}
		if diff := cmp.Diff(want, statesOf(call(t, b.handler(), "GET", "/v1/operations/"+id, "").operation())); diff != "" {
			t.Errorf("killed at %d, the parts are (-want +got):\n%s", at, diff)
		}
	}
}
