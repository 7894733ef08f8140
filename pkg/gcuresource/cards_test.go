package gcuresource

import (
	"context"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/test/world"
)

// reports lets the node agent of a node report, and the operator come to rest.
func (s *scene) reports(t *testing.T, node string, changes ...func(*topsv1.NodeUpgrade)) {
	t.Helper()
	ctx := context.Background()
	u := world.Reported(node, changes...)
	status := u.Status
	if err := client.IgnoreAlreadyExists(s.api.Create(ctx, u)); err != nil {
		t.Fatal(err)
	}
	u = &topsv1.NodeUpgrade{}
	if err := s.api.Get(ctx, client.ObjectKey{Name: node}, u); err != nil {
		t.Fatal(err)
	}
	before := u.DeepCopy()
	u.Status = status
	if err := s.api.Status().Patch(ctx, u, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	s.rests(t)
}

// offers lets the kubelet of a node offer cards, and the operator come to rest.
func (s *scene) offers(t *testing.T, node, cards string) {
	t.Helper()
	s.kubeletReports(t, node, func(status *corev1.NodeStatus) {
		status.Allocatable = corev1.ResourceList{"enflame.com/gcu": resource.MustParse(cards)}
	})
}

// kubeletReports lets the kubelet of a node change its status, and the operator come to rest.
func (s *scene) kubeletReports(t *testing.T, node string, change func(*corev1.NodeStatus)) {
	t.Helper()
	ctx := context.Background()
	n := &corev1.Node{}
	if err := s.api.Get(ctx, client.ObjectKey{Name: node}, n); err != nil {
		t.Fatal(err)
	}
	before := n.DeepCopy()
	change(&n.Status)
	if err := s.api.Status().Patch(ctx, n, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	s.rests(t)
}

func (s *scene) rests(t *testing.T) {
	t.Helper()
	if err := s.goOn(nil); err != nil {
		t.Fatal(err)
	}
}

// tells checks the phase and ready count of the gr, and what it says about the plugin.
func (s *scene) tells(t *testing.T, phase, ready, plugin string) {
	t.Helper()
	gr := &topsv1.GcuResource{}
	if err := s.api.Get(context.Background(), client.ObjectKey{Name: hero}, gr); err != nil {
		t.Fatal(err)
	}
	for _, rs := range gr.Status.ResourceStatuses {
		if rs.Name == "devicePlugin" && rs.Message != plugin {
			t.Errorf("the plugin: %q, want %q", rs.Message, plugin)
		}
	}
	if gr.Status.Phase != phase || gr.Status.ReadyResource != ready {
		t.Errorf("the gr is %s %s, want %s %s", gr.Status.ReadyResource, gr.Status.Phase, ready, phase)
	}
}

func (s *scene) hasPlugin() bool {
	return s.api.Get(context.Background(), client.ObjectKey{Namespace: "kube-system", Name: "enflame-gcu-k8s-plugin"}, &appsv1.DaemonSet{}) == nil
}

// Contract 60, 83 and 86: the nodes have cards and a driver, and their engines have to be restarted
// once the toolkit has configured them.
func TestTheFirstDeploymentEndsWithCardsThatWork(t *testing.T) {
	const refused = "docker must be restarted: run on the node: systemctl restart docker"
	s := inMemory(t)
	s.spec = topsv1.GcuResourceSpec{NFD: &topsv1.NFDSpec{}, Toolkit: &topsv1.BaseFields{}, DevicePlugin: &topsv1.BaseFields{}, GFD: &topsv1.BaseFields{}}
	if err := deployAll(s); err != nil {
		t.Fatal(err)
	}
	for _, node := range sceneNodes {
		s.reports(t, node, world.Runc)
	}
	s.tells(t, "deploying", "2/4", "waiting until docker or containerd is restarted on one of these nodes: node-1, node-2")
	if s.hasPlugin() {
		t.Error("the plugin was created before any container gets cards")
	}

	s.reports(t, "node-1")
	if !s.hasPlugin() {
		t.Fatal("the plugin waits for the last node")
	}
	const silent = "8 cards on 1 node, none allocatable: node-1: the pod there is available and does not offer them: see its log; "
	s.tells(t, "deploying", "2/4", silent+"8 cards on 1 node, none allocatable: node-2: the default runtime is runc until docker or containerd is restarted")

	s.offers(t, "node-1", "8")
	s.reports(t, "node-2", world.Runc, world.Operates(topsv1.OperationRunning, "LeftToAdministrator", refused))
	s.tells(t, "deploying", "2/4", "8 cards on 1 node, none allocatable: node-2: the default runtime is runc; "+refused)

	s.reports(t, "node-2")
	s.offers(t, "node-2", "8")
	s.tells(t, "Running", "4/4", "")

	// What exists is never held back: a node joins, or goes back.
	s.reports(t, "node-2", world.Runc)
	s.offers(t, "node-2", "0")
	s.tells(t, "deploying", "3/4", "8 cards on 1 node, none allocatable: node-2: the default runtime is runc until docker or containerd is restarted")
	if !s.hasPlugin() {
		t.Error("the plugin was deleted")
	}
}
