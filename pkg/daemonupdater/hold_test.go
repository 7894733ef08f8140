package daemonupdater

import (
	"context"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/watch"
	"github.com/topsops/gcu-operator/test/fixture"
)

// held returns the NodeUpgrade of a node with a hold set on the node.
func held(node string) *topsv1.NodeUpgrade {
	u := &topsv1.NodeUpgrade{ObjectMeta: metav1.ObjectMeta{Name: node}}
	u.Status.Agent = &topsv1.AgentStatus{Hold: &topsv1.NodeHold{Since: metav1.NewTime(fixture.Epoch), Message: "wait"}}
	return u
}

func TestANodeThatIsHeldIsSeenInTheView(t *testing.T) {
	c := newCluster(t, func(ds *appsv1.DaemonSet) { fixture.Annotate(ds, topsv1.AnnotationMaxUnavailable, "3") })
	hold := held("a")
	c.create(hold)
	c.mustReconcile()
	c.wantDeletions("driver-b", "driver-c")
	group := observed.Group{Kind: observed.KindDaemonSet, Namespace: c.driver.Namespace, Name: c.driver.Name}
	if n := c.reconciler.fleets[group].Node("a"); n == nil || len(n.Holds) != 1 || !n.Holds[0].Since.Equal(fixture.Epoch) || n.Holds[0].Message != "wait" {
		t.Fatalf("node a is seen as %+v", n)
	}

	hold.Status.Agent.Hold = nil
	if err := c.api.Status().Update(t.Context(), hold); err != nil {
		t.Fatal(err)
	}
	c.reconciler.changed.Add(group, "a")
	c.mustReconcile()
	if n := c.reconciler.fleets[group].Node("a"); len(n.Holds) > 0 {
		t.Errorf("node a is still held: %+v", n.Holds)
	}
}

func TestAHoldWakesTheGroups(t *testing.T) {
	c := newCluster(t, func(*appsv1.DaemonSet) {})
	released := held("a")
	released.Status.Agent.Hold = nil
	if !watch.UpgradeChanged().Update(event.UpdateEvent{ObjectOld: released, ObjectNew: held("a")}) {
		t.Error("a hold is not passed on")
	}
	if groups := c.reconciler.watches().OfNodeUpgrade(context.Background(), held("a")); len(groups) != 1 {
		t.Errorf("groups %v are woken, want that of the driver", groups)
	}
	byAdministrator := released.DeepCopy()
	byAdministrator.Annotations = map[string]string{topsv1.AnnotationHold: "2026-01-01T00:00:00Z new rack"}
	if !watch.UpgradeChanged().Update(event.UpdateEvent{ObjectOld: released, ObjectNew: byAdministrator}) {
		t.Error("a hold of an administrator is not passed on")
	}
	if groups := c.reconciler.watches().OfNodeUpgrade(context.Background(), byAdministrator); len(groups) != 1 {
		t.Errorf("groups %v are woken by an administrator, want that of the driver", groups)
	}
	aged := held("a")
	aged.Status.Agent.StartTime = metav1.NewTime(fixture.Epoch)
	if watch.UpgradeChanged().Update(event.UpdateEvent{ObjectOld: held("a"), ObjectNew: aged}) {
		t.Error("a restart of the agent is passed on")
	}
}

func TestAnUpgradeOfTheNodeAgentWakesTheGroups(t *testing.T) {
	c := newCluster(t, func(*appsv1.DaemonSet) {})
	of := func(capabilities ...string) *topsv1.NodeUpgrade {
		u := &topsv1.NodeUpgrade{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
		u.Status.Agent = &topsv1.AgentStatus{Version: "1.2", Capabilities: capabilities}
		return u
	}
	if !watch.UpgradeChanged().Update(event.UpdateEvent{ObjectOld: of("prepull"), ObjectNew: of("prepull", "verify-driver")}) {
		t.Error("a change of what the agent is capable of is not passed on")
	}
	if groups := c.reconciler.watches().OfNodeUpgrade(t.Context(), of("prepull")); len(groups) != 1 {
		t.Errorf("groups %v are woken, want that of the driver", groups)
	}
}

func TestANodeThatAnAdministratorHoldsIsLeftAlone(t *testing.T) {
	c := newCluster(t, func(ds *appsv1.DaemonSet) { fixture.Annotate(ds, topsv1.AnnotationMaxUnavailable, "3") })
	hold := &topsv1.NodeUpgrade{ObjectMeta: metav1.ObjectMeta{Name: "a", Annotations: map[string]string{topsv1.AnnotationHold: "2026-01-01T00:00:00Z new rack"}}}
	c.create(hold)
	c.mustReconcile()
	c.wantDeletions("driver-b", "driver-c")
	hold.Annotations = nil
	if err := c.api.Update(t.Context(), hold); err != nil {
		t.Fatal(err)
	}
	c.reconciler.changed.Add(observed.Group{Kind: observed.KindDaemonSet, Namespace: c.driver.Namespace, Name: c.driver.Name}, "a")
	c.mustReconcile()
	c.wantDeletions("driver-a", "driver-b", "driver-c")
}
