package ota

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/ota/records"
	"github.com/topsops/gcu-operator/pkg/ota/request"
)

// killed ends an agent in the middle of a step.
type killed struct{}

// reaper counts the moments before and after each write outside the process: before a
// journal file is written, before it is renamed into place, and before and after a write to
// the API server. It kills the agent at one of them.
type reaper struct{ passed, at int }

func (r *reaper) pass() {
	r.passed++
	if r.passed == r.at {
		panic(killed{})
	}
}

// watch makes the reaper observe writes until the test ends.
func (r *reaper) watch(t *testing.T, c *fakeCluster) {
	t.Helper()
	requests, operations, holds := records.RequestKind, records.OperationKind, records.HoldKind
	t.Cleanup(func() { records.RequestKind, records.OperationKind, records.HoldKind = requests, operations, holds })
	records.RequestKind.ID = func(e request.Request) string { r.pass(); return requests.ID(e) }
	records.OperationKind.ID = func(o request.Operation) string { r.pass(); return operations.ID(o) }
	records.HoldKind.ID = func(h records.HoldRecord) string { r.pass(); return holds.ID(h) }
	c.onApply, c.applied = r.pass, r.pass
}

// step is an action on the node or of the operator; it may be repeated.
type step struct {
	what string
	do   func(b *bench) (status int)
}

func post(path, body string, headers ...string) func(*bench) int {
	return func(b *bench) int {
		r := httptest.NewRequest(http.MethodPost, "http://localhost"+path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		w := httptest.NewRecorder()
		b.handler().ServeHTTP(w, r)
		return w.Code
	}
}

// replies makes the operator answer open requests, and the agent see the answers.
func replies(state topsv1.TaskState) func(*bench) int {
	return func(b *bench) int {
		b.cluster.set(func() {
			tasks := &b.cluster.nodeUpgrade.Status.Tasks
			for _, r := range b.cluster.nodeUpgrade.Status.Requests {
				if !slices.ContainsFunc(*tasks, func(t topsv1.UpgradeTask) bool { return t.RequestID == r.ID && t.State.Final() }) {
					*tasks = append(dropTask(*tasks, r.ID), topsv1.UpgradeTask{RequestID: r.ID, State: state})
				}
			}
		})
		if err := b.syncOnce(b.context); err != nil {
			return http.StatusInternalServerError
		}
		return http.StatusOK
	}
}

func dropTask(tasks []topsv1.UpgradeTask, id string) []topsv1.UpgradeTask {
	var kept []topsv1.UpgradeTask
	for _, task := range tasks {
		if task.RequestID != id {
			kept = append(kept, task)
		}
	}
	return kept
}

// story is the life of a node: an upgrade, a hold, and a withdrawn request.
func story() []step {
	return []step{
		{"an order", post("/v1/components/driver/upgrade", "{}", "Idempotency-Key", "monday")},
		{"it runs", replies(topsv1.TaskRunning)},
		{"it is done", replies(topsv1.TaskDone)},
		{"a hold", post("/v1/hold", `{"message":"surgery"}`)},
		{"a release", post("/v1/release", "")},
		{"a request on OpenYurt's path", post("/openyurt.io/v1/namespaces/kube-system/pods/enflame-toolkit-x/upgrade", "")},
		{"it is taken back", post("/v1/rollback", "", "Idempotency-Key", "tuesday")},
		{"it was in time", replies(topsv1.TaskWithdrawn)},
		{"the same call again", post("/v1/rollback", "", "Idempotency-Key", "tuesday")},
	}
}

// play runs the story, killing and restarting the agent once. It returns what is left:
// requests, operations and the hold.
func play(t *testing.T, at int) (end []string, passed int) {
	t.Helper()
	c := newFleet()
	r := &reaper{}
	r.watch(t, c)
	b := newBench(t, c, t.TempDir())
	b.sync(t)
	*r = reaper{at: at}
	for _, s := range story() {
		status, alive := b.survives(s)
		if !alive { // no response: the agent restarts, and the caller repeats the request
			b = newBenchAt(t, c, b.directory, b.clock)
			b.sync(t)
			status, _ = b.survives(s)
		}
		if status >= 300 {
			t.Fatalf("%s, killed at %d: answered with %d", s.what, at, status)
		}
		b.clock.Step(1e9)
	}
	for _, request := range c.nodeUpgrade.Status.Requests {
		end = append(end, fmt.Sprint("request ", request.ID, " ", request.Withdrawn))
	}
	for _, o := range b.Operations().Operations {
		end = append(end, fmt.Sprint("operation ", o.Component, " ", o.State, " ", len(o.Requests)))
	}
	return append(end, fmt.Sprint("held ", c.shownHold())), r.passed
}

// survives runs a step, and reports whether the agent survived it.
func (b *bench) survives(s step) (status int, alive bool) {
	defer func() {
		if end := recover(); end == nil {
			return
		} else if _, ours := end.(killed); !ours {
			panic(end)
		}
		alive = false
	}()
	return s.do(b), true
}

// TestKilledAtEveryWriteTheStoryEndsTheSame kills the agent before and after every write to
// a journal and to the API server.
func TestKilledAtEveryWriteTheStoryEndsTheSame(t *testing.T) {
	want, moments := play(t, 0)
	if moments < 30 {
		t.Fatalf("only %d moments to be killed at", moments)
	}
	for at := 1; at <= moments; at++ {
		got, _ := play(t, at)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("killed at %d of %d the end is another one (-want +got):\n%s", at, moments, diff)
		}
	}
}

// TestKilledAtEveryWriteAHalfSentOperationIsWithdrawnAsAWhole kills the agent while it withdraws, without a connection, an
// operation that it was killed in sending. A repeated call finds no upgrade that goes on; without one, no part differs from another.
func TestKilledAtEveryWriteAHalfSentOperationIsWithdrawnAsAWhole(t *testing.T) {
	rollback := step{"it is taken back", post("/v1/rollback", "", "Idempotency-Key", "tuesday")}
	for i := range 6 { // with three, the operator has both
		repeated, recorded, survived := i%2 == 0, 1+i/2, false
		for at := 1; !survived && !t.Failed(); at++ {
			t.Run(fmt.Sprintf("killed at %d, %d requests recorded, repeated %t", at, recorded, repeated), func(t *testing.T) {
				c, r := newFleet(), &reaper{}
				r.watch(t, c)
				b := halfSent(t, c, recorded)
				*r = reaper{at: at}
				_, survived = b.survives(rollback)
				*r = reaper{}
				b = newBenchAt(t, c, b.directory, b.clock)
				c.set(func() { c.unreachable = nil })
				if status := post("/v1/hold", "")(b); status >= 300 { // before the loop is back
					t.Errorf("a hold is answered with %d", status)
				}
				if repeated && !survived {
					if status, _ := b.survives(rollback); status >= 300 {
						t.Errorf("the repeated call is answered with %d", status)
					}
				}
				b.sync(t)
				if diff := cmp.Diff(map[bool]int{true: min(recorded, 2)}, count(c.taken())); diff != "" && (repeated || survived || len(count(c.taken())) > 1) {
					t.Errorf("requests, by whether they are taken back (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// count returns how often each value occurs.
func count(taken map[string]bool) map[bool]int {
	counts := map[bool]int{}
	for _, is := range taken {
		counts[is]++
	}
	return counts
}

// halfSent returns an agent without a connection that was killed in sending an operation of two requests: one is recorded, or both,
// of which the operator has one, or with three the operation was sent.
func halfSent(t *testing.T, c *fakeCluster, recorded int) *bench {
	t.Helper()
	b := newBench(t, c, t.TempDir())
	call(t, b.handler(), "POST", "/v1/upgrade", "").wants(202)
	o := b.loop.journals.Operations.List[0]
	o.Queued = recorded < 3
	if err := b.loop.journals.Operations.Put(o); err != nil {
		t.Fatal(err)
	}
	if recorded == 1 {
		if err := b.loop.journals.Requests.Remove(b.loop.journals.Requests.List[1].ID); err != nil {
			t.Fatal(err)
		}
	}
	c.set(func() {
		c.unreachable, c.nodeUpgrade.Status.Requests = errUnreachable, c.nodeUpgrade.Status.Requests[:recorded-1]
	})
	return newBench(t, c, b.directory)
}

func TestAHalfSentOperationStaysQueuedIfItsWithdrawalCannotBeRecorded(t *testing.T) {
	b := halfSent(t, newFleet(), 2)
	b.breakDisk(t, "requests")
	call(t, b.handler(), "POST", "/v1/rollback", "").wants(500)
	if o := b.loop.journals.Operations.List[0]; !o.Queued || o.Withdrawn || o.State() != request.Queued {
		t.Errorf("then it is %+v", o)
	}
}
