package ota

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/ota/request"
)

// tearRequests leaves half of the file of each request.
func (b *bench) tearRequests(t *testing.T) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(b.directory, "requests", "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("requests %v, %v", files, err)
	}
	for _, file := range files {
		if err := os.Truncate(file, 20); err != nil {
			t.Fatal(err)
		}
	}
}

// TestWhatTheDiskLostIsRestoredByALaterAgent: the agent that noticed the loss was restarted before it reached the API server.
func TestWhatTheDiskLostIsRestoredByALaterAgent(t *testing.T) {
	for name, test := range map[string]struct {
		lose func(b *bench, t *testing.T)
		// meanwhile happens at the agent that notices the loss.
		meanwhile func(b *bench, t *testing.T)
	}{
		"torn files": {lose: (*bench).tearRequests},
		"no files, and a hold before the first contact": {
			lose: func(b *bench, t *testing.T) {
				for _, journal := range []string{"requests", "operations", "hold"} {
					b.breakDisk(t, journal)
				}
			},
			meanwhile: func(b *bench, t *testing.T) { call(t, b.handler(), "POST", "/v1/hold", "").wants(http.StatusOK) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newFleet()
			b := newBench(t, c, t.TempDir())
			id := call(t, b.handler(), "POST", "/v1/upgrade", "").wants(http.StatusAccepted).operation().ID
			want := c.submitted()
			test.lose(b, t)
			c.set(func() { c.unreachable = errUnreachable })
			noticed := newBench(t, c, b.directory)
			if test.meanwhile != nil {
				test.meanwhile(noticed, t)
			}
			restarted := newBench(t, c, b.directory)
			restarted.reconnect(t)
			if diff := cmp.Diff(want, c.submitted()); diff != "" {
				t.Errorf("status.requests (-want +got):\n%s", diff)
			}
			replies(topsv1.TaskDone)(restarted)
			if o := call(t, restarted.handler(), "GET", "/v1/operations/"+id, "").operation(); o.State != request.Done {
				t.Errorf("when the operator has answered, the operation is %s", o.State)
			}
			if last := newBench(t, c, b.directory); last.loop.journals.Incomplete {
				t.Error("what was restored counts as lost when the agent starts again")
			}
		})
	}
}

// halfSentAndLost returns an agent without a connection that lost the requests of an operation that the operator may have.
func halfSentAndLost(t *testing.T) *bench {
	t.Helper()
	b := halfSent(t, newFleet(), 2)
	b.tearRequests(t)
	return newBench(t, b.cluster, b.directory)
}

func TestAHoldDropsNoOperationOfWhichRequestsMayBeLost(t *testing.T) {
	b := halfSentAndLost(t)
	call(t, b.handler(), "POST", "/v1/hold", "").wants(http.StatusOK)
	if o := b.loop.journals.Operations.List[0]; !o.Queued {
		t.Errorf("it is %+v", o)
	}
}

func TestNothingIsWithdrawnWhileRequestsMayBeLost(t *testing.T) {
	b := halfSentAndLost(t)
	call(t, b.handler(), "POST", "/v1/rollback", "").wants(http.StatusServiceUnavailable)
	b.reconnect(t)
	call(t, b.handler(), "POST", "/v1/rollback", "").wants(http.StatusAccepted)
	if diff := cmp.Diff(map[bool]int{true: 2}, count(b.cluster.taken())); diff != "" {
		t.Errorf("requests, by whether they are taken back (-want +got):\n%s", diff)
	}
}

// TestAnOperationWhoseRequestsAreLostEverywhereEnds: the disk lost them, and the NodeUpgrade was created again. Nobody answers
// them any more, and the node must take other requests.
func TestAnOperationWhoseRequestsAreLostEverywhereEnds(t *testing.T) {
	c := newFleet()
	b := newBench(t, c, t.TempDir())
	id := call(t, b.handler(), "POST", "/v1/upgrade", "").wants(http.StatusAccepted).operation().ID
	b.tearRequests(t)
	c.set(func() { c.nodeUpgrade = nil })
	restarted := newBench(t, c, b.directory)
	restarted.sync(t)
	if o := call(t, restarted.handler(), "GET", "/v1/operations/"+id, "").operation(); o.State != request.Failed || o.Requests[0].Reason != string(request.ReasonRequestLost) {
		t.Errorf("it is %+v", o)
	}
	call(t, restarted.handler(), "POST", "/v1/upgrade", "").wants(http.StatusAccepted)
}

// TestWhatEndedOnThisNodeIsNotSentWhenItsFileIsTorn: only the disk of this node knows that a queued operation was withdrawn or dropped.
func TestWhatEndedOnThisNodeIsNotSentWhenItsFileIsTorn(t *testing.T) {
	for name, test := range map[string]struct {
		end   func(t *testing.T, b *bench)
		taken map[string]bool
		state request.State
	}{
		"withdrawn": {func(t *testing.T, b *bench) {
			call(t, b.handler(), "POST", "/v1/rollback", "").wants(http.StatusOK)
		}, map[string]bool{}, request.Withdrawn},
		"dropped by a hold": {func(t *testing.T, b *bench) {
			call(t, b.handler(), "POST", "/v1/hold", "").wants(http.StatusOK)
			call(t, b.handler(), "POST", "/v1/release", "").wants(http.StatusOK)
		}, map[string]bool{}, request.Dropped},
		"dropped when it was to be sent": {func(t *testing.T, b *bench) {
			annotations := b.cluster.daemonSets["kube-system/enflame-driver"].Annotations
			strategy := func(of map[string]string) {
				b.cluster.set(func() {
					for _, ds := range b.cluster.daemonSets {
						ds.Annotations = of
					}
				})
			}
			strategy(nil)
			b.reconnect(t)
			strategy(annotations)
		}, map[string]bool{}, request.Dropped},
		"withdrawn with a single request": {func(t *testing.T, b *bench) {
			call(t, b.handler(), "POST", "/v1/rollback", "").wants(http.StatusAccepted)
		}, map[string]bool{"enflame-toolkit": true}, request.Waiting},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, newFleet(), t.TempDir())
			if len(test.taken) > 0 {
				b.mustUpgrade(t, "enflame-toolkit-x")
			}
			b.sync(t)
			b.cluster.set(func() { b.cluster.unreachable = errUnreachable })
			id := call(t, b.handler(), "POST", "/v1/upgrade", "").wants(http.StatusAccepted).operation().ID
			test.end(t, b)
			if err := os.Truncate(filepath.Join(b.directory, "operations", id+".json"), 20); err != nil {
				t.Fatal(err)
			}
			restarted := newBench(t, b.cluster, b.directory)
			restarted.reconnect(t)
			restarted.sync(t)
			restarted.wantTaken(t, test.taken)
			if o := call(t, restarted.handler(), "GET", "/v1/operations/"+id, "").wants(http.StatusOK).operation(); o.State != test.state {
				t.Errorf("then it is %s: %+v", o.State, o)
			}
		})
	}
}
