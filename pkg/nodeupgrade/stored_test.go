package nodeupgrade

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/drain"
	"github.com/topsops/gcu-operator/pkg/nodeupgrade/operation"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
	"github.com/topsops/gcu-operator/test/stored"
)

// storedOperations returns the operations of all nodes: of those that are at work what is done for good.
func storedOperations(t *testing.T, c client.Client) (all []topsv1.OperationStatus) {
	t.Helper()
	var list topsv1.NodeUpgradeList
	if err := c.List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		o := list.Items[i].Status.Operation
		if o == nil {
			continue
		}
		if at := slices.IndexFunc(o.Tasks, func(task topsv1.OperationTask) bool { return task.State == topsv1.OperationTaskRunning }); at >= 0 {
			o.Tasks, o.Reason, o.Message, o.Touched = append(o.Tasks[:at:at], topsv1.OperationTask{Name: o.Tasks[at].Name, StartTime: o.Tasks[at].StartTime}), "", "", false
		}
		all = append(all, *o)
	}
	return all
}

// TestAnotherManagerGoesOnWithAnOperation: a manager of today that starts in the middle of the operations of an earlier one
// takes the next step on the one node where a step is due, where a slot was given: what uses the device goes, then the driver.
// It waits for the pod that is being deleted already, touches no other node, and forgets nothing of what is done.
func TestAnotherManagerGoesOnWithAnOperation(t *testing.T) {
	builder, now, err := stored.Cluster("operating.yaml")
	if err != nil {
		t.Fatal(err)
	}
	api := builder.WithIndex(&corev1.Pod{}, nodeOfPod, indexByNode).Build()
	var writes []string
	noting := stored.Noting(api, func(verb string, object client.Object, _ []byte) { writes = append(writes, verb+" "+object.GetName()) })
	machine, err := operation.New(upgradeplan.DefaultBook())
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	r := New(Options{Client: noting, Live: noting, Namespace: "kube-system", Machine: machine, Recorder: events.NewFakeRecorder(100), Metrics: NewMetrics(registry),
		Drainer: drain.Drainer{Live: noting, Metrics: drain.NewMetrics(registry)}, Clock: func() time.Time { return now }})
	before := storedOperations(t, api)
	var nodes corev1.NodeList
	if err := api.List(t.Context(), &nodes); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		for i := range nodes.Items {
			if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&nodes.Items[i])}); err != nil {
				t.Fatal(err)
			}
		}
		now = now.Add(time.Second)
	}
	if diff := cmp.Diff([]string{"delete gr-back-4-gfd-gj6c2", "delete gr-back-4-driver-jk99p"}, writes); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before, storedOperations(t, api)); diff != "" {
		t.Errorf("operations (-stored +now):\n%s", diff)
	}
}
