package daemonupdater

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/gating"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/podreplace/retry"
	"github.com/topsops/gcu-operator/test/fixture"
)

var overQuota = apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "driver", errors.New("exceeded quota: few, requested: pods=1, used: pods=3, limited: pods=3"))

// underGate adds the gate, and returns a function that reports whether node c has a pod that may run. The API server denies
// what is done about pods at the gate as long as denies says so; tried counts that.
func (c *cluster) underGate(denies *bool, tried *int) (runs func() bool) {
	c.reconciler.Gate = func() gating.Mode { return gating.On }
	denied := func(o client.Object, write func() error) error {
		if _, isPod := o.(*corev1.Pod); !isPod {
			return write()
		}
		*tried++
		if *denies {
			return overQuota
		}
		return write()
	}
	c.reconciler.Client = interceptor.NewClient(c.reconciler.Client.(client.WithWatch), interceptor.Funcs{
		Create: func(ctx context.Context, w client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return denied(o, func() error { return w.Create(ctx, o, opts...) })
		},
		Patch: func(ctx context.Context, w client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			return denied(o, func() error { return w.Patch(ctx, o, p, opts...) })
		}})
	return func() bool {
		var list corev1.PodList
		if err := c.api.List(c.t.Context(), &list); err != nil {
			c.t.Fatal(err)
		}
		for i := range list.Items {
			if pod := &list.Items[i]; daemonset.NodeName(pod) == "c" && !daemonset.AwaitsUpgrade(pod) {
				return true
			}
		}
		return false
	}
}

// podAtGate replaces the pod of node c by one at the gate.
func (c *cluster) podAtGate() {
	c.t.Helper()
	if err := c.api.Delete(c.t.Context(), fixture.PodOn(c.driver, "c", fixture.OldHash)); err != nil {
		c.t.Fatal(err)
	}
	gated := fixture.PodOn(c.driver, "c", fixture.NewHash)
	gated.Name, gated.UID = "driver-gated", "uid-gated"
	gated.Spec = corev1.PodSpec{Affinity: affinityTo("c"), SchedulingGates: []corev1.PodSchedulingGate{{Name: topsv1.GateAwaitingUpgrade}}}
	gated.Status = corev1.PodStatus{}
	c.create(gated)
	c.reconciler.changed.Add(observed.GroupOf(c.driver), "c")
}

// The pod at the gate counts against a quota that fits exactly, so that the earlier one may not be created.
func TestAPodThatMayNotComeBackThroughTheGateIsSaidAndTriedLater(t *testing.T) {
	denies, tried := true, 0
	c := newCluster(t, pausedFirst)
	runs := c.underGate(&denies, &tried)
	old := fixture.RevisionsOf(c.driver, fixture.OldHash)[0]
	old.Revision, old.Data.Raw = 1, []byte(`{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"app:old"}]}}}}`)
	c.update(old)
	c.mustReconcile()
	c.podAtGate()
	c.passes(fixture.Epoch.Add(time.Minute))
	denied := c.now
	if tried != 1 {
		t.Fatalf("%d attempts, want one", tried)
	}
	if again := c.passes(denied.Add(reportInterval - 1)); again > retry.First {
		t.Errorf("the next pass is in %s", again)
	}
	c.passes(denied.Add(7 * time.Second)) // the next attempt, and time to write the status
	c.passes(c.now.Add(7 * time.Second))
	status := c.stored().Status
	if said := fixture.MessageOf(status, topsv1.RolloutGated); !strings.Contains(said, "on c:") || !strings.Contains(said, "exceeded quota: few") {
		t.Errorf("condition Gated says %q", said)
	}
	if len(status.Waiting) != 2 || !strings.Contains(status.Waiting[0].Message+status.Waiting[1].Message, "exceeded quota: few") {
		t.Errorf("the nodes wait for %+v", status.Waiting)
	}
	before := tried
	for range 3 {
		c.passes(c.now)
	}
	if tried > before {
		t.Errorf("it is tried %d times at once", tried-before)
	}
	denies = false
	c.passes(c.now.Add(5 * time.Minute))
	if !runs() {
		t.Error("it is not tried again when the quota permits it")
	}
	c.reconciler.changed.Add(observed.GroupOf(c.driver), "c")
	c.passes(c.now.Add(time.Minute))
	if said := fixture.MessageOf(c.stored().Status, topsv1.RolloutGated); strings.Contains(said, "quota") {
		t.Errorf("condition Gated still says %q", said)
	}
}

// The operations that are left, and the DaemonRollout, must not wait for that. The node is looked at again without an event.
func TestAGroupEndsThoughAPodMayNotLeaveTheGate(t *testing.T) {
	denies, tried := true, 0
	c := preparedCluster(t)
	runs := c.underGate(&denies, &tried)
	c.podAtGate()
	c.optOut()
	var u topsv1.NodeUpgrade
	u.Name = c.upgrade().Name
	var before *topsv1.DaemonRollout
	for range 5 {
		before = c.stored()
		if c.mustReconcile() == 0 {
			break
		}
		if err := c.api.Get(t.Context(), client.ObjectKeyFromObject(&u), &u); err != nil {
			t.Fatal(err)
		}
		c.show(&u, func(op *topsv1.OperationStatus) { op.Phase, op.Reason = topsv1.OperationAborted, "Aborted" })
	}
	if u := c.upgrade(); u != nil || c.stored().Name != "" {
		t.Fatalf("operation %+v, rollout %q are left", u, c.stored().Name)
	}
	if tried == 0 || runs() {
		t.Fatalf("%d attempts were denied, and the pod runs: %t", tried, runs())
	}
	current := c.reconciler.Client
	c.reconciler.Client = interceptor.NewClient(current.(client.WithWatch), interceptor.Funcs{
		Get: func(ctx context.Context, w client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if dro, ok := o.(*topsv1.DaemonRollout); ok {
				before.DeepCopyInto(dro) // the cache still shows it
				return nil
			}
			return w.Get(ctx, key, o, opts...)
		}})
	if after, err := c.reconciler.Reconcile(t.Context(), observed.GroupOf(c.driver)); err != nil || after.RequeueAfter == 0 {
		t.Errorf("after a pass with a stale cache the next one is in %s, %v", after.RequeueAfter, err)
	}
	c.reconciler.Client, denies = current, false
	if _, err := c.reconciler.Reconcile(t.Context(), observed.GroupOf(c.driver)); err != nil || !runs() {
		t.Errorf("the pod is still at the gate: %v", err)
	}
}

// A node awaits a restart of its runtime that is not made, so the group of the gr without a strategy is still reconciled.
func TestAPodLeavesTheGateOfAGroupThatOnlyRestartsRuntimes(t *testing.T) {
	denies, tried := false, 0
	c := newCluster(t, deployed)
	runs := c.underGate(&denies, &tried)
	c.runtimeOn("a", "runc")
	c.podAtGate()
	if c.mustReconcile(); c.stored().Name != "" || !runs() {
		t.Errorf("rollout %q, the pod runs: %t; want it released without a rollout", c.stored().Name, runs())
	}
}
