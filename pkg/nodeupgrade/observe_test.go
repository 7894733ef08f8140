package nodeupgrade

import (
	"errors"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/nodeupgrade/operation"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
	"github.com/topsops/gcu-operator/test/fixture"
)

// The driver must not go under a pod of the device plugin that the manager takes for another's, because its cache does not show the
// gr yet.
func TestTheUsersOfAGrThatTheCacheLacksAreSeenWhileTheDeviceIsClosed(t *testing.T) {
	ds, node := fixture.ComponentOf(plugin), fixture.Node("n1")
	gr := &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: "fleet", UID: "uid-fleet"},
		Spec: fixture.SpecNaming(types.NamespacedName{Namespace: ds.Namespace, Name: ds.Name})}
	pod := fixture.PodOn(ds, node.Name, fixture.NewHash)
	machine, err := operation.New(upgradeplan.DefaultBook())
	if err != nil {
		t.Fatal(err)
	}
	cached, live := storeOf(t, ds, pod), storeOf(t, ds, pod, gr)
	for taint, want := range map[string][]types.UID{"": nil, "op1": {pod.UID}} {
		r := New(Options{Client: cached, Live: live, Namespace: "gcu-system", Machine: machine, Clock: func() time.Time { return fixture.Epoch }})
		o := &observation{upgrade: fixture.NodeUpgrade(node.Name), node: node, daemonSets: map[types.UID]*appsv1.DaemonSet{}, seen: r.observer.stateTimes}
		o.facts.Now, o.facts.Operation = fixture.Epoch, &topsv1.OperationStatus{ID: "op1", Phase: topsv1.OperationRunning}
		o.facts.Node.Taint = taint
		if err := r.observer.readMembers(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		var seen []types.UID
		for i := range o.facts.Members {
			if pod := o.facts.Members[i].Pod; pod != nil {
				seen = append(seen, pod.UID)
			}
		}
		if !slices.Equal(seen, want) {
			t.Errorf("under taint %q it sees the pods %v, want %v", taint, seen, want)
		}
	}
}

// storeOf returns a client that has certain objects, and lists the pods of a node as the cache's index does.
func storeOf(t *testing.T, objects ...client.Object) client.WithWatch {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), topsv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithIndex(&corev1.Pod{}, nodeOfPod, indexByNode).WithObjects(objects...).Build()
}

// Whether a plugin can have cards is a question of the node, its agent and the pod (operation.HasNoCards).
func TestAPluginWithoutCardsIsSeenAsSuch(t *testing.T) {
	ds, node := fixture.ComponentOf(plugin), fixture.Node("n1")
	pod := fixture.PodOn(ds, node.Name, fixture.NewHash)
	pod.Status.StartTime = &metav1.Time{Time: fixture.Epoch}
	for _, tt := range []struct {
		name   string
		node   *corev1.Node
		engine time.Duration
		want   bool
	}{
		{"the engine was restarted since", node, time.Minute, true},
		{"the engine is older", node, -time.Minute, false},
		{"the Node is gone", nil, time.Minute, false},
	} {
		o := &observation{upgrade: fixture.NodeUpgrade(node.Name), node: tt.node, pods: []*corev1.Pod{pod}, daemonSets: map[types.UID]*appsv1.DaemonSet{}}
		o.facts.Now = fixture.Epoch.Add(time.Hour)
		o.upgrade.Status.Host = &topsv1.HostReport{Devices: ptr.To[int32](8),
			Runtime: &topsv1.RuntimeReport{Engine: "containerd", Default: topsv1.DefaultRuntime, StartTime: &metav1.Time{Time: fixture.Epoch.Add(tt.engine)}}}
		o.add(plugin, ds, fixture.NewHash)
		if m := o.facts.Members[0]; m.Pod != nil && m.Pod.NoCards != tt.want || m.Pod == nil && tt.want {
			t.Errorf("%s: %+v", tt.name, m.Pod)
		}
	}
}
