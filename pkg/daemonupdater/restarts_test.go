package daemonupdater

import (
	"context"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/test/fixture"
)

// deployed makes the DaemonSet the toolkit of the gr "fleet", without a strategy.
func deployed(ds *appsv1.DaemonSet) {
	fixture.OfGcuResource(ds)
	ds.Labels[topsv1.LabelComponent] = "toolkit"
	delete(ds.Annotations, topsv1.AnnotationUpdateStrategy)
}

// runtimeOn stores what the agent of a node reports of the default runtime.
func (c *cluster) runtimeOn(node, name string) {
	c.t.Helper()
	var u topsv1.NodeUpgrade
	if err := c.api.Get(c.t.Context(), client.ObjectKey{Name: node}, &u); err != nil {
		u.Name = node
		c.create(&u)
	}
	u.Status.Host = &topsv1.HostReport{Time: fixture.Ago(0), Runtime: &topsv1.RuntimeReport{Engine: "docker", Default: name}}
	if err := c.api.Status().Update(c.t.Context(), &u); err != nil {
		c.t.Fatal(err)
	}
}

// endOperations ends the operations that were granted or withdrawn.
func (c *cluster) endOperations() {
	c.t.Helper()
	var list topsv1.NodeUpgradeList
	if err := c.api.List(c.t.Context(), &list); err != nil {
		c.t.Fatal(err)
	}
	for i := range list.Items {
		u := &list.Items[i]
		op, shown := u.Spec.Operation, u.Status.Operation
		switch {
		case op == nil || shown != nil && shown.Phase.Final():
		case op.Abort:
			c.show(u, func(op *topsv1.OperationStatus) { op.Phase = topsv1.OperationAborted })
		case op.Granted:
			c.show(u, func(op *topsv1.OperationStatus) { op.Phase = topsv1.OperationDone })
		}
	}
}

// atTargets brings all pods to the target.
func (c *cluster) atTargets() {
	c.t.Helper()
	for _, node := range []string{"a", "b", "c"} {
		pod := fixture.PodOn(c.driver, node, fixture.OldHash)
		if err := c.api.Delete(context.Background(), pod); err != nil {
			c.t.Fatal(err)
		}
		c.create(fixture.PodOn(c.driver, node, fixture.NewHash))
	}
}

func TestRuntimesAreRestartedWithoutAStrategy(t *testing.T) {
	c := newCluster(t, deployed)
	c.atTargets()
	c.runtimeOn("a", "enflame")
	if c.mustReconcile(); c.stored().ResourceVersion != "" || len(c.reconciler.fleets) != 0 {
		t.Fatal("nodes are read, or a rollout made, though no runtime has to be restarted")
	}
	c.runtimeOn("a", "runc")
	c.runtimeOn("b", "runc")
	c.mustReconcile()
	if r := c.stored(); r.Status.Strategy != string(rollout.RestartsOnly) || r.Status.MaxUnavailable != 1 {
		t.Fatalf("rollout %+v; want restarts of one node at a time", r.Status)
	}
	u := c.upgrade()
	if u == nil || u.Spec.Operation.Granted {
		t.Fatalf("operation %+v, want one being prepared", u)
	}
	c.show(u, prepared)
	c.now = c.now.Add(moveInterval)
	if c.mustReconcile(); len(c.slots()) != 1 || !c.upgrade().Spec.Operation.Granted {
		t.Fatalf("slots %v, operation %+v; want it granted", c.slots(), c.upgrade().Spec.Operation)
	}
	c.runtimeOn("a", "enflame")
	c.runtimeOn("b", "enflame")
	for range 5 {
		c.endOperations()
		c.now = c.now.Add(moveInterval)
		c.mustReconcile()
	}
	if r, u := c.stored(), c.upgrade(); r.ResourceVersion != "" || u != nil || len(c.deletions) != 0 {
		t.Errorf("rollout %q, operation %v are left, pods %v were deleted", r.Name, u, c.deletions)
	}
}

func TestUnderOTAARuntimeIsRestartedWithoutARequestOnceItsNodeIsIdle(t *testing.T) {
	c := newCluster(t, func(ds *appsv1.DaemonSet) {
		deployed(ds)
		fixture.Annotate(ds, topsv1.AnnotationUpdateStrategy, "OTA")
	})
	c.atTargets()
	c.runtimeOn("a", "runc")
	c.mustReconcile()
	u := c.upgrade()
	if u == nil || !u.Spec.Operation.OnlyIdle || u.Spec.Operation.Granted {
		t.Fatalf("operation %+v, want one that looks whether the node is idle", u)
	}
	for _, inUse := range []bool{true, false} {
		u = c.upgrade()
		c.show(u, func(op *topsv1.OperationStatus) { prepared(op); op.InUse = inUse })
		c.now = c.now.Add(moveInterval)
		c.mustReconcile()
		w := c.stored().Status.Waiting
		if asks := len(w) == 1 && w[0].Reason == string(rollout.ReasonAwaitingRequest); asks != inUse {
			t.Errorf("in use: %t, it waits for %v", inUse, w)
		}
		next := c.upgrade().Spec.Operation
		if next.ID != u.Spec.Operation.ID || next.Abort || next.Granted == inUse {
			t.Errorf("in use: %t, operation %+v after %s", inUse, next, u.Spec.Operation.ID)
		}
	}
}

func TestARuntimeThatNoToolkitNeedsIsNoRolloutsBusiness(t *testing.T) {
	c := newCluster(t, deployed) // its pods are outdated
	c.runtimeOn("a", "runc")
	c.mustReconcile()
	if r, u := c.stored(), c.upgrade(); r.ResourceVersion != "" || u != nil || len(c.deletions) != 0 {
		t.Errorf("rollout %q, operation %v, deletions %v; want none without a strategy", r.Name, u, c.deletions)
	}
}

func TestANodeAndAReportWakeAGroupThatRestartsRuntimes(t *testing.T) {
	c := newCluster(t, deployed)
	if groups := c.reconciler.watches().OnNode(t.Context(), fixture.Node("a")); len(groups) != 1 {
		t.Errorf("a node wakes %v", groups)
	}
	c.runtimeOn("a", "runc")
	var u topsv1.NodeUpgrade
	if err := c.api.Get(t.Context(), client.ObjectKey{Name: "a"}, &u); err != nil {
		t.Fatal(err)
	}
	if groups := c.reconciler.watches().OfNodeUpgrade(t.Context(), &u); len(groups) != 1 {
		t.Errorf("a report wakes %v", groups)
	}
}
