package drain

import (
	"context"
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/topsops/gcu-operator/test/apiserver"
)

func TestMain(m *testing.M) { os.Exit(apiserver.Run(m)) }

// plane is access to an API server, on which the tests play the disruption controller
// and the kubelet.
type plane struct {
	// admin has full access, manager only the rights of the manager's role.
	admin   client.Client
	manager client.Client
	config  *rest.Config // of the manager
}

func apiServer(t *testing.T) *plane {
	t.Helper()
	server := apiserver.Shared(t)
	return &plane{server.Client(t, apiserver.Admin), server.Client(t, apiserver.Operator), server.As(apiserver.Operator)}
}

// stage is one test on the API server, with its own namespace and nodes.
type stage struct {
	*plane
	t         *testing.T
	namespace string
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{plane: apiServer(t), t: t}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "drain-"}}
	s.must(s.admin.Create(t.Context(), ns))
	s.namespace = ns.Name
	return s
}

func (s *stage) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// node creates a Ready node, which is removed when the test ends. It has labels, as from a
// kubelet: for a node created without any field, the API server never records managedFields.
func (s *stage) node(name string) *corev1.Node {
	s.t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}}}
	s.must(s.admin.Create(s.t.Context(), node))
	s.t.Cleanup(func() {
		if err := s.admin.Delete(context.Background(), node); client.IgnoreNotFound(err) != nil {
			s.t.Error(err)
		}
	})
	s.setReady(name, corev1.ConditionTrue)
	return s.readNode(name)
}

func (s *stage) setReady(name string, status corev1.ConditionStatus) {
	s.t.Helper()
	node := s.readNode(name)
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status, LastTransitionTime: metav1.Now()}}
	s.must(s.admin.Status().Update(s.t.Context(), node))
}

func (s *stage) readNode(name string) *corev1.Node {
	s.t.Helper()
	node := &corev1.Node{}
	s.must(s.admin.Get(s.t.Context(), client.ObjectKey{Name: name}, node))
	return node
}
