package ota

import (
	"fmt"
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
