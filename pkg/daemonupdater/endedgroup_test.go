package daemonupdater

import (
	"context"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
)

// hideUpgrades keeps NodeUpgrades from the cache of the reconciler while hidden is set.
func (c *cluster) hideUpgrades(hidden *bool) {
	c.reconciler.Client = interceptor.NewClient(c.reconciler.Client.(client.WithWatch), interceptor.Funcs{
		Get: func(ctx context.Context, w client.WithWatch, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
			if _, is := object.(*topsv1.NodeUpgrade); is && *hidden {
				return apierrors.NewNotFound(schema.GroupResource{Resource: "nodeupgrades"}, key.Name)
			}
			return w.Get(ctx, key, object, opts...)
		},
		List: func(ctx context.Context, w client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if _, is := list.(*topsv1.NodeUpgradeList); is && *hidden {
				return nil
			}
			return w.List(ctx, list, opts...)
		},
	})
}

// withoutStrategy removes the strategy of the gr.
func (c *cluster) withoutStrategy() {
	c.t.Helper()
	var live appsv1.DaemonSet
	if err := c.api.Get(c.t.Context(), client.ObjectKeyFromObject(c.driver), &live); err != nil {
		c.t.Fatal(err)
	}
	delete(live.Annotations, topsv1.AnnotationUpdateStrategy)
	c.update(&live)
}

// endedUnseen returns a cluster whose gr lost its strategy before the cache showed the operation that was just written. It has ended.
func endedUnseen(t *testing.T) *cluster {
	t.Helper()
	c, hidden := newCluster(t, ofTheFleet), true
	c.hideUpgrades(&hidden)
	c.mustReconcile()
	c.withoutStrategy()
	for range 3 {
		c.mustReconcile()
	}
	if c.upgrade() == nil || c.stored().ResourceVersion != "" {
		t.Fatalf("operation of %v, rollout %q: want an operation that is left", c.upgrade(), c.stored().Name)
	}
	hidden = false
	return c
}

func TestAnOperationThatTheCacheDidNotShowDoesNotOutliveItsGroup(t *testing.T) {
	c := endedUnseen(t)
	c.mustReconcile()
	if u := c.upgrade(); u != nil {
		t.Errorf("operation %s of node %s waits for a slot that nobody gives it", u.Spec.Operation.ID, u.Name)
	}
	all := endedUnseen(t)
	all.reconciler.changed.AddAll(observed.GroupOf(all.driver))
	all.mustReconcile()
	if u := all.upgrade(); u != nil {
		t.Errorf("operation %s of node %s is left after a pass over all nodes", u.Spec.Operation.ID, u.Name)
	}
}

// The cache shows neither the strategy, which is back, nor the rollout that the group has again.
func TestAnOperationOfAGroupThatHasARolloutIsNotTakenForOneThatWasLeft(t *testing.T) {
	c := preparedCluster(t)
	c.withoutStrategy()
	c.reconciler.forget(observed.GroupOf(c.driver))
	c.staleRollouts = true
	c.mustReconcile()
	if c.upgrade() == nil {
		t.Error("its operation is gone")
	}
}

func TestWhatIsLeftOfAnEndedGroupIsItsOwn(t *testing.T) {
	c := endedUnseen(t)
	u := c.upgrade()
	u.Spec.Operation.Rollout = "gcu-system/another"
	c.update(u)
	c.mustReconcile()
	if c.upgrade() == nil {
		t.Error("the operation of another group is gone")
	}
}

// A webhook may deny the removal for as long as it likes.
func TestAPodLeavesTheGateThoughAnOperationThatWasLeftIsNotRemoved(t *testing.T) {
	c := endedUnseen(t)
	denies, tried := false, 0
	runs := c.underGate(&denies, &tried)
	c.podAtGate()
	c.reconciler.Client = interceptor.NewClient(c.reconciler.Client.(client.WithWatch), interceptor.Funcs{
		Patch: func(ctx context.Context, w client.WithWatch, object client.Object, p client.Patch, opts ...client.PatchOption) error {
			if _, is := object.(*topsv1.NodeUpgrade); is {
				return broken500
			}
			return w.Patch(ctx, object, p, opts...)
		}})
	c.reconciler.changed.AddAll(observed.GroupOf(c.driver))
	if _, err := c.reconciler.Reconcile(t.Context(), observed.GroupOf(c.driver)); err == nil || c.upgrade() == nil {
		t.Fatalf("the operation was removed: %v", err)
	}
	if !runs() {
		t.Error("the pod is still at the gate")
	}
}
