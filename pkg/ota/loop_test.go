package ota

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/ota/request"
	"github.com/topsops/gcu-operator/test/fixture"
)

// until polls, because the code under test runs in goroutines on a fake clock.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, 10*time.Second, true,
		func(context.Context) (bool, error) { return holds(), nil })
	if err != nil {
		t.Fatalf("waiting until %s: %v", what, err)
	}
}

// run starts the loop; stop ends it and waits for it.
func (b *bench) run(t *testing.T) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); b.Run(ctx) }()
	return func() { cancel(); <-ended }
}

func (c *fakeCluster) get(read func() int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return read()
}

func TestRunRetriesWithGrowingPausesUntilTheServerIsThere(t *testing.T) {
	cluster := newFakeCluster(fixture.OutdatedPod())
	cluster.unreachable = errUnreachable
	b := newBench(t, cluster, t.TempDir())
	defer b.run(t)()

	calls := func() int { return cluster.get(func() int { return cluster.calls }) }
	for attempt := 1; attempt <= 3; attempt++ {
		until(t, "the loop pauses", func() bool { return calls() == attempt && b.clock.HasWaiters() })
		b.clock.Step(retryFirst<<(attempt-1) - time.Millisecond)
		if calls() != attempt {
			t.Fatalf("attempt %d was not followed by a pause", attempt)
		}
		b.clock.Step(retryFirst << attempt)
	}
	cluster.set(func() { cluster.unreachable = nil })
	until(t, "the loop pauses or connects", func() bool { return b.clock.HasWaiters() })
	b.clock.Step(retryLast)
	until(t, "the agent is submitted", func() bool { return cluster.get(func() int { return cluster.applies }) == 1 })
}

func TestRunRepairsWhatWasWiped(t *testing.T) {
	cluster := newFakeCluster(fixture.OutdatedPod())
	b := newBench(t, cluster, t.TempDir())
	b.mustUpgrade(t, "driver-x")
	defer b.run(t)()
	b.untilItWaits(t)

	wipe := func() {
		cluster.set(func() { cluster.nodeUpgrade.Status.Requests = nil })
	}
	submitted := func() bool { return len(cluster.submitted()) == 1 }
	wipe()
	b.Seen(cluster.nodeUpgrade.DeepCopy())
	until(t, "the request is submitted after the change was seen", submitted)

	b.untilItWaits(t)
	wipe()
	b.clock.Step(2 * resyncPeriod)
	until(t, "the request is submitted after the period", submitted)
}

// untilItWaits returns once the loop waits for a change.
func (b *bench) untilItWaits(t *testing.T) {
	t.Helper()
	until(t, "the loop waits", func() bool { return b.clock.HasWaiters() })
}

func TestRunIsWokenByWhatMattersOnly(t *testing.T) {
	b := newBench(t, newFakeCluster(fixture.OutdatedPod()), t.TempDir())
	woken := func() bool {
		select {
		case <-b.loop.outOfStep:
			return true
		default:
			return false
		}
	}
	seen := &topsv1.NodeUpgrade{ObjectMeta: metav1.ObjectMeta{Name: "node-a", UID: "nu-1"}}
	for _, step := range []struct {
		what   string
		change func()
		wakes  bool
	}{
		{"it is there", func() {}, true},
		{"nothing changed", func() {}, false},
		{"the host is reported", func() { seen.Status.Host = &topsv1.HostReport{BootID: "b"} }, false},
		{"an operation goes on", func() { seen.Status.Operation = &topsv1.OperationStatus{ID: "op"} }, false},
		{"a task is answered", func() { seen.Status.Tasks = []topsv1.UpgradeTask{{RequestID: "r"}} }, true},
		{"the requests are gone", func() { seen.Status.Requests = []topsv1.UpgradeRequest{{ID: "r"}} }, true},
		{"it is another one", func() { seen.UID = "nu-2" }, true},
		{"it is gone", func() { seen = nil }, true},
	} {
		step.change()
		b.Seen(seen.DeepCopy())
		if got := woken(); got != step.wakes {
			t.Errorf("%s: woken=%t, want %t", step.what, got, step.wakes)
		}
	}
}

func TestRunTakesBackWhatWasWithdrawn(t *testing.T) {
	cluster := newFakeCluster(fixture.OutdatedPod())
	b := newBench(t, cluster, t.TempDir())
	defer b.run(t)()
	b.untilItWaits(t)

	// The apply reaches the server, but its response does not reach the agent.
	lost := request.Request{UpgradeRequest: topsv1.UpgradeRequest{ID: "0000000000000001", RequestTime: metav1.Unix(1000, 0)}, Sequence: 1}
	cluster.set(func() { cluster.nodeUpgrade.Status.Requests = request.StatusOf([]request.Request{lost}) })
	if err := b.loop.acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.retract(lost.ID)
	b.loop.release()
	until(t, "the withdrawn request is no longer submitted", func() bool { return len(cluster.submitted()) == 0 })
}

func TestRunIsQuietWhenNothingChanges(t *testing.T) {
	cluster := newFakeCluster(fixture.OutdatedPod())
	b := newBench(t, cluster, t.TempDir())
	defer b.run(t)()
	for range 3 {
		b.untilItWaits(t)
		b.clock.Step(2 * resyncPeriod)
	}
	b.untilItWaits(t)
	if applies := cluster.get(func() int { return cluster.applies }); applies != 1 {
		t.Errorf("%d applies in three periods, want the first one only", applies)
	}
}
