package daemonupdater

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/pkg/podreplace/retry"
	"github.com/topsops/gcu-operator/test/fixture"
)

// unfencedCluster returns a cluster with two slots that are not needed any more, one of them queued,
// whose pods may not be fenced.
func unfencedCluster(t *testing.T) *cluster {
	c := newCluster(t, unchanged)
	c.onDelete = func(string) error { return apierrors.NewTooManyRequests("busy", 1) } // it may still happen later
	if _, err := c.reconcile(); err == nil || len(c.slots()) != 1 {
		t.Fatalf("slots %v, %v, want one and a deletion that failed", c.slots(), err)
	}
	c.onFence = apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "driver-a", errors.New("policy says no"))
	old := fixture.RevisionsOf(c.driver, fixture.OldHash)[0]
	old.Revision = 3
	c.update(old) // the pods are at the target again
	c.passes(fixture.Epoch.Add(reportInterval))
	return c
}

// passes makes a pass at the given time.
func (c *cluster) passes(at time.Time) time.Duration {
	c.t.Helper()
	c.now = at
	return c.mustReconcile()
}

func TestAFenceThatIsDeniedIsRetriedLaterAndSaidMeanwhile(t *testing.T) {
	c := unfencedCluster(t)
	denied := c.now
	for range 3 {
		c.passes(denied.Add(retry.First - 1))
	}
	if c.fences != 2 {
		t.Errorf("tried %d times, want once for each of two nodes", c.fences)
	}
	if again := c.passes(denied.Add(retry.First)); c.fences != 4 || again > 2*retry.First {
		t.Errorf("tried %d times, again after %s, want twice for each", c.fences, again)
	}
	c.passes(denied.Add(10 * time.Second))
	if step := c.stored().Status.InFlight[0].Step; step != "FenceDenied" {
		t.Errorf("the node waits for %q, want FenceDenied", step)
	}
	c.onFence = nil
	c.passes(denied.Add(time.Minute))
	c.passes(denied.Add(2 * time.Minute))
	if len(c.slots()) != 0 {
		t.Errorf("slots %v when the pod is fenced, want none", c.slots())
	}
}

func TestADeniedFenceIsNotWaitedForWhenThePodWasWrittenToOtherwise(t *testing.T) {
	c := unfencedCluster(t)
	var pods corev1.PodList
	if err := c.api.List(t.Context(), &pods); err != nil {
		t.Fatal(err)
	}
	for i := range pods.Items {
		pods.Items[i].Labels["written"] = "yes"
		c.update(&pods.Items[i])
	}
	c.passes(c.now.Add(time.Minute))
	if again := c.passes(c.now.Add(rollout.DefaultDeadlines.Progress)); len(c.slots()) != 0 || again != 0 || c.fences != 2 {
		t.Errorf("slots %v, decides again after %s, fenced %d times, want none, never, once for each", c.slots(), again, c.fences)
	}
}
