package daemonupdater

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/access"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/nodeupgrade/operation"
	"github.com/topsops/gcu-operator/test/fixture"
)

// The limit was lowered while two nodes were in flight. An operation keeps the later one cordoned, and its pods are available. Its next
// operation does not wait for its turn: only that returns the node to service, and the earlier one may wait for it.
func TestANodeThatIsKeptCordonedGetsItsNextOperationBeforeItsTurn(t *testing.T) {
	c := preparedCluster(t)
	c.mustReconcile()
	u := c.upgrade()
	other := "a"
	if u.Name == other {
		other = "b"
	}
	earlier := &topsv1.NodeUpgrade{ObjectMeta: metav1.ObjectMeta{Name: other}, Spec: topsv1.NodeUpgradeSpec{Operation: u.Spec.Operation.DeepCopy()}}
	earlier.Spec.Operation.ID, earlier.Spec.Operation.NodeUID, earlier.Spec.Operation.Granted = "earlier", types.UID("uid-"+other), true
	earlier.Status.Operation = &topsv1.OperationStatus{ID: "earlier", Rollout: u.Spec.Operation.Rollout, Revision: u.Spec.Operation.Revision,
		Phase: topsv1.OperationRunning, Granted: true, Since: fixture.Ago(0), StartTime: fixture.Ago(0)}
	c.create(earlier)
	r := c.stored()
	slot := r.Status.InFlight[0]
	r.Status.InFlight[0].Turn = 2
	slot.Node, slot.UID, slot.Operation, slot.Turn = other, types.UID("uid-"+other), "earlier", 1
	r.Status.InFlight = append(r.Status.InFlight, slot)
	if err := c.api.Status().Update(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	c.show(u, func(op *topsv1.OperationStatus) {
		op.Granted, op.Held, op.Phase, op.Reason = true, true, topsv1.OperationAborted, operation.ReasonTargetChanged
	})
	for _, granted := range []bool{false, true} {
		c.mustReconcile()
		var next topsv1.NodeUpgrade
		if err := c.api.Get(t.Context(), client.ObjectKeyFromObject(u), &next); err != nil {
			t.Fatal(err)
		}
		if op := next.Spec.Operation; op.ID == u.Spec.Operation.ID || op.Granted != granted || len(c.slots()) != 2 {
			t.Fatalf("operation %s, granted=%t, slots %v: want another than %s, and the grant a pass later", op.ID, op.Granted, c.slots(), u.Spec.Operation.ID)
		}
	}
}

func TestANodeThatHasItsTurnEarlyIsConfirmedLiveToBeUnavailable(t *testing.T) {
	held := &topsv1.NodeUpgrade{ObjectMeta: metav1.ObjectMeta{Name: "a"},
		Status: topsv1.NodeUpgradeStatus{Operation: &topsv1.OperationStatus{ID: "op", Phase: topsv1.OperationFailed, Held: true}}}
	released := held.DeepCopy()
	released.Status.Operation.Held = false
	tests := []struct {
		name    string
		unready []int
		live    func(*cluster)
		want    bool
	}{
		{"the pod that seemed not to be Ready is", []int{0}, func(*cluster) {}, true},
		{"there is no such pod", []int{0}, func(c *cluster) { removeFrom(c, fixture.PodOn(c.driver, "a", fixture.OldHash)) }, false},
		{"the pod is Ready, and an operation began", []int{0}, func(c *cluster) { c.create(held.DeepCopy()) }, true},
		{"no operation has the node", nil, func(*cluster) {}, true},
		{"the operation that kept it cordoned released it", nil, func(c *cluster) { c.create(released.DeepCopy()) }, true},
		{"an operation keeps it cordoned", nil, func(c *cluster) { c.create(held.DeepCopy()) }, false},
		{"it is offline, and may be back before it is granted", nil, func(c *cluster) {
			removeFrom(c, fixture.Node("a"))
			c.create(fixture.Offline(fixture.Node("a")))
		}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := newCluster(t, unchanged)
			tt.live(c)
			available, err := access.Cluster{Live: c.api}.Available(t.Context(), []observed.Member{{DaemonSet: c.driver}}, map[string][]int{"a": tt.unready})
			if err != nil || available["a"] != tt.want {
				t.Errorf("available: %v, %v; want %t", available, err, tt.want)
			}
		})
	}
	c := newCluster(t, unchanged)
	live := interceptor.NewClient(c.api.(client.WithWatch), interceptor.Funcs{Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
		return broken500
	}})
	if _, err := (access.Cluster{Live: live}).Available(t.Context(), nil, map[string][]int{"a": nil}); err == nil {
		t.Error("no error though the NodeUpgrade cannot be read")
	}
}

func removeFrom(c *cluster, object client.Object) {
	c.t.Helper()
	if err := c.api.Delete(c.t.Context(), object); err != nil {
		c.t.Fatal(err)
	}
}
