package daemonupdater

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/test/fixture"
)

func TestIndexByController(t *testing.T) {
	driver := fixture.DaemonSet("driver")
	owned := fixture.PodOn(driver, "a", fixture.OldHash)
	notControlled := owned.DeepCopy()
	notControlled.OwnerReferences[0].Controller = nil
	tests := []struct {
		name   string
		object client.Object
		want   []string
	}{
		{"a pod is found by the UID of its DaemonSet, also with its node", owned, []string{"uid-driver", "uid-driver/a"}},
		{"a ControllerRevision too", fixture.RevisionsOf(driver, fixture.NewHash)[0], []string{"uid-driver"}},
		{"an object of nobody is not found", &corev1.Pod{}, nil},
		{"an owner that is not the controller finds nothing", notControlled, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, indexByController(tt.object)); diff != "" {
				t.Errorf("indexByController (-want +got):\n%s", diff)
			}
		})
	}
}

// TestNodesOfAPassThatFailedAreReadInTheNext: the failed pass has already taken the events about
// them.
func TestNodesOfAPassThatFailedAreReadInTheNext(t *testing.T) {
	faults := map[string]interceptor.Funcs{
		"while it read what comes before the nodes": {
			List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
				return broken500
			},
		},
		"while it read a node": {
			Get: func(ctx context.Context, w client.WithWatch, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
				if _, ok := object.(*corev1.Node); ok {
					return broken500
				}
				return w.Get(ctx, key, object, opts...)
			},
		},
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, pausedFirst)
			c.reconciler.Deadlines.Unavailable = 0 // a node is skipped at once
			c.mustReconcile()
			if err := c.api.Status().Update(context.Background(), fixture.Offline(fixture.Node("a"))); err != nil {
				t.Fatal(err)
			}
			working := c.reconciler.Client
			c.reconciler.Client = interceptor.NewClient(c.api.(client.WithWatch), fault)
			if _, err := c.reconcile(); err == nil {
				t.Fatal("the pass did not fail")
			}
			c.reconciler.Client, c.now = working, c.now.Add(reportInterval)
			if _, err := c.reconciler.Reconcile(context.Background(), observed.GroupOf(c.driver)); err != nil {
				t.Fatal(err)
			}
			if got := c.stored().Status.SkippedNodes; got != 1 {
				t.Errorf("%d nodes are skipped, want the one that went offline", got)
			}
		})
	}
}

// TestANodeIsRetriedThoughTheClockIsSetBack: the unsuccessful operation ended by the clock before, which is in the future
// now, and no event of the node says so.
func TestANodeIsRetriedThoughTheClockIsSetBack(t *testing.T) {
	c := newCluster(t, ofTheFleet)
	for _, name := range []string{"b", "c"} {
		for _, object := range []client.Object{fixture.Node(name), fixture.PodOn(c.driver, name, fixture.OldHash)} {
			if err := c.api.Delete(t.Context(), object); err != nil {
				t.Fatal(err)
			}
		}
	}
	c.mustReconcile()
	c.show(c.upgrade(), func(op *topsv1.OperationStatus) { op.Phase, op.Reason = topsv1.OperationDeferred, "PodsNotEvicted" })
	ended := c.upgrade().Spec.Operation.ID
	c.now = c.now.Add(time.Minute)
	for range 2 {
		c.mustReconcile()
	}
	if id := c.upgrade().Spec.Operation.ID; id != ended {
		t.Fatalf("operation %s follows at once, want the node deferred", id)
	}
	c.now = c.now.Add(-3 * time.Hour)
	if _, err := c.reconciler.Reconcile(t.Context(), observed.GroupOf(c.driver)); err != nil {
		t.Fatal(err)
	}
	if c.upgrade().Spec.Operation.ID == ended {
		t.Error("the node is not retried")
	}
}
