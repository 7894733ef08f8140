package ota

import (
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// until polls real goroutines that run on a fake clock.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, 10*time.Second, true,
		func(context.Context) (bool, error) { return holds(), nil })
	if err != nil {
		t.Fatalf("waiting until %s: %v", what, err)
	}
}

// run starts the loop and returns a function that ends it and waits.
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
	cluster := newFakeCluster(outdatedPod())
	cluster.away = errAway
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
	cluster.set(func() { cluster.away = nil })
	until(t, "the loop pauses or connects", func() bool { return b.clock.HasWaiters() })
	b.clock.Step(retryLast)
	until(t, "the agent is shown", func() bool { return cluster.get(func() int { return cluster.applies }) == 1 })
}

func TestRunRepairsWhatWasWiped(t *testing.T) {
	cluster := newFakeCluster(outdatedPod())
	b := newBench(t, cluster, t.TempDir())
	b.mustAsk(t, "driver-x")
	defer b.run(t)()
	watches := func() int { return cluster.get(func() int { return len(cluster.watchers) }) }
	until(t, "the NodeUpgrade is watched", func() bool { return watches() == 1 })

	cluster.set(func() { cluster.nodeUpgrade.Status.Requests = nil })
	cluster.watchers[0].Modify(cluster.nodeUpgrade.DeepCopy())
	until(t, "the request is shown after an event", func() bool { return len(cluster.shown()) == 1 })

	until(t, "it is watched again", func() bool { return watches() == 2 && b.clock.HasWaiters() })
	cluster.set(func() { cluster.nodeUpgrade.Status.Requests = nil })
	b.clock.Step(2 * resyncPeriod)
	until(t, "the request is shown after the period", func() bool { return len(cluster.shown()) == 1 })
}

func TestRunTakesBackWhatWasWithdrawn(t *testing.T) {
	cluster := newFakeCluster(outdatedPod())
	b := newBench(t, cluster, t.TempDir())
	defer b.run(t)()
	until(t, "the NodeUpgrade is watched", func() bool { return cluster.get(func() int { return len(cluster.watchers) }) == 1 })

	// The apply reaches the server, its answer does not reach the agent.
	lost := entry{Sequence: 1, Request: numbered(1, "").Request}
	cluster.set(func() { cluster.nodeUpgrade.Status.Requests = requests([]entry{lost}) })
	if err := b.takeTurn(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.withdraw(lost)
	b.endTurn()
	until(t, "the withdrawn request is no longer shown", func() bool { return len(cluster.shown()) == 0 })
}

func TestRunIsQuietWhenNothingChanges(t *testing.T) {
	cluster := newFakeCluster(outdatedPod())
	b := newBench(t, cluster, t.TempDir())
	defer b.run(t)()
	for period := 1; period <= 3; period++ {
		until(t, "the NodeUpgrade is watched", func() bool {
			return cluster.get(func() int { return len(cluster.watchers) }) == period && b.clock.HasWaiters()
		})
		b.clock.Step(2 * resyncPeriod)
	}
	if applies := cluster.get(func() int { return cluster.applies }); applies != 1 {
		t.Errorf("%d applies in three periods, want the first one only", applies)
	}
}
