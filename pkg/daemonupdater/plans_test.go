package daemonupdater

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/reporter"
	"github.com/topsops/gcu-operator/test/fixture"
)

// followsPlan makes the DaemonSet the exporter of a gr that follows a plan.
func followsPlan(ds *appsv1.DaemonSet) {
	fixture.OfGcuResource(ds).Labels[topsv1.LabelComponent] = "exporter"
	fixture.Annotate(fixture.Annotate(ds, topsv1.AnnotationUpgradePlan, "mission"), topsv1.AnnotationRevision, "fleet-2")
}

func TestReconcileFollowsThePlanAndWritesItsResult(t *testing.T) {
	c := newCluster(t, followsPlan)
	c.mustReconcile()
	c.wantDeletions() // it does not exist yet
	plan := &topsv1.UpgradePlan{ObjectMeta: metav1.ObjectMeta{Name: "mission", Generation: 1}, Spec: topsv1.UpgradePlanSpec{GcuResource: "fleet", Revision: "fleet-2",
		Jobs:    []topsv1.PlannedJob{{Name: "light", Stages: []topsv1.PlannedStage{{"exporter_replace"}}}},
		Batches: []topsv1.PlannedBatch{{Name: "one", Jobs: []topsv1.PlannedNodes{{Job: "light", Nodes: []string{"b", "absent"}}}}}}}
	c.create(plan)
	if got := c.reconciler.watches().UnderPlan(t.Context(), plan); !cmp.Equal(got, []observed.Group{observed.GroupOf(c.driver)}) {
		t.Errorf("the plan wakes %v", got)
	}
	c.now = c.now.Add(reportInterval)
	c.mustReconcile()
	c.wantDeletions("driver-b")
	var stored topsv1.UpgradePlan
	if err := c.api.Get(t.Context(), client.ObjectKey{Name: "mission"}, &stored); err != nil {
		t.Fatal(err)
	}
	if got := stored.Status; got.Undo != 2 || !cmp.Equal(got.Undone, []string{"b", "absent"}) || got.ObservedGeneration != 1 {
		t.Errorf("the result is %+v", got)
	}
	crashes := fixture.PodOn(c.driver, "b", fixture.NewHash)
	crashes.CreationTimestamp, crashes.Status.Conditions = metav1.NewTime(c.now), nil
	crashes.UID, crashes.Status.ContainerStatuses = "uid-new", []corev1.ContainerStatus{{Name: "main", RestartCount: 5,
		State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}}}
	c.create(crashes)
	c.now = c.now.Add(reporter.PlanInterval)
	c.mustReconcile()
	if err := c.api.Get(t.Context(), client.ObjectKey{Name: "mission"}, &stored); err != nil {
		t.Fatal(err)
	}
	if got := stored.Status; got.Fail != 1 || len(got.Failed) != 1 || got.Failed[0].Task != "b_exporter_replace" {
		t.Errorf("the result is %+v, and the pod of b crash-loops", got)
	}
}

// Contract 93: a manager that starts after the node was decommissioned knows of it by the result alone.
func TestANodeThatIsDecommissionedStaysDone(t *testing.T) {
	c := newCluster(t, followsPlan)
	c.create(mission("a", "b", "c"))
	drop := func(objects ...client.Object) {
		t.Helper()
		for _, object := range objects {
			if err := c.api.Delete(t.Context(), object); err != nil {
				t.Fatal(err)
			}
		}
	}
	wantDone := func() {
		t.Helper()
		for range 2 {
			c.now = c.now.Add(time.Hour)
			c.mustReconcile()
		}
		var stored topsv1.UpgradePlan
		if err := c.api.Get(t.Context(), client.ObjectKey{Name: "mission"}, &stored); err != nil {
			t.Fatal(err)
		}
		if stored.Status.Done != 3 || stored.Status.Undo != 0 {
			t.Errorf("the result is %+v", stored.Status)
		}
	}
	for _, node := range []string{"a", "b", "c"} {
		drop(fixture.PodOn(c.driver, node, fixture.OldHash))
		c.create(fixture.PodOn(c.driver, node, fixture.NewHash))
	}
	wantDone()
	drop(fixture.PodOn(c.driver, "b", fixture.NewHash), fixture.Node("b"))
	c.startsAnew()
	wantDone()
}

// One write of the result fails in the pass that would roll back: the result comes first.
func TestTheFailuresOfARolledBackPlanSurviveAFailedWrite(t *testing.T) {
	c := newHaltedFleet(t, func(*topsv1.GcuResource) {})
	at := metav1.NewTime(c.now.Add(-reporter.PlanInterval))
	plan := mission("a", "b", "c")
	plan.Status = topsv1.UpgradePlanStatus{ObservedGeneration: 1, Time: &at, Undo: 3, Undone: []string{"a", "b", "c"}}
	c.create(plan)
	ds := c.live()
	fixture.Annotate(ds, topsv1.AnnotationUpgradePlan, "mission").Labels[topsv1.LabelComponent] = "exporter"
	c.update(ds)
	fails := 1
	c.reconciler.Client = interceptor.NewClient(c.reconciler.Client.(client.WithWatch), interceptor.Funcs{
		SubResourceUpdate: func(ctx context.Context, w client.Client, sub string, object client.Object, opts ...client.SubResourceUpdateOption) error {
			if _, is := object.(*topsv1.UpgradePlan); is && fails > 0 {
				fails--
				return apierrors.NewConflict(schema.GroupResource{Resource: "upgradeplans"}, object.GetName(), nil)
			}
			return w.SubResource(sub).Update(ctx, object, opts...)
		}})
	if _, err := c.reconcile(); err != nil || fails != 0 || c.ledger().Rollback != nil {
		t.Fatalf("rolled back without the result, which was not written: %v", err)
	}
	for range 3 {
		c.now = c.now.Add(reporter.PlanInterval)
		if _, err := c.reconcile(); err != nil {
			t.Error(err)
		}
	}
	c.inPlace(true)
	c.observes(fixture.OldHash, 3)
	c.now = c.now.Add(reporter.PlanInterval)
	c.mustReconcile()
	var stored topsv1.UpgradePlan
	c.must(c.api.Get(t.Context(), client.ObjectKey{Name: "mission"}, &stored))
	if stored.Status.RolledBackTime == nil || stored.Status.Fail != 2 {
		t.Errorf("done %d, fail %d, undo %d, rolled back at %v", stored.Status.Done, stored.Status.Fail, stored.Status.Undo, stored.Status.RolledBackTime)
	}
}
