package drain

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// plane is a real kube-apiserver with etcd, without controllers: the tests play
// the disruption controller and the kubelet.
type plane struct {
	environment *envtest.Environment
	// admin may do everything, manager what the manager's role says and no more.
	admin   client.Client
	manager client.Client
	config  *rest.Config // of the manager
}

var shared struct {
	once  sync.Once
	plane *plane
	err   error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if shared.plane != nil {
		if err := shared.plane.environment.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stopping the API server:", err)
			code = 1
		}
	}
	os.Exit(code)
}

func apiServer(t *testing.T) *plane {
	t.Helper()
	if testing.Short() {
		t.Skip("it needs an API server")
	}
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		t.Fatal("KUBEBUILDER_ASSETS is not set: run make test, which builds an API server and says where it is")
	}
	shared.once.Do(func() { shared.plane, shared.err = startPlane() })
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.plane
}

func startPlane() (*plane, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), topsv1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	p := &plane{environment: &envtest.Environment{CRDDirectoryPaths: []string{"../../config/crd"}, ErrorIfCRDPathMissing: true}}
	config, err := p.environment.Start()
	if err != nil {
		return nil, fmt.Errorf("starting the API server: %w", err)
	}
	if err := p.prepare(config, scheme); err != nil {
		return nil, errors.Join(err, p.environment.Stop())
	}
	return p, nil
}

// prepare makes the clients, that of the manager with its generated role.
func (p *plane) prepare(config *rest.Config, scheme *runtime.Scheme) (err error) {
	if p.admin, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
		return err
	}
	data, err := os.ReadFile("../../config/rbac/manager_role.yaml")
	if err != nil {
		return err
	}
	role := &rbacv1.ClusterRole{} // the second document is a Role for leader election
	if err := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096).Decode(role); err != nil {
		return err
	}
	const user = "manager"
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: user},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}}}
	for _, o := range []client.Object{role, binding} {
		if err := p.admin.Create(context.Background(), o); err != nil {
			return err
		}
	}
	added, err := p.environment.AddUser(envtest.User{Name: user}, nil)
	if err != nil {
		return err
	}
	p.config = added.Config()
	p.manager, err = client.New(p.config, client.Options{Scheme: scheme})
	return err
}

// stage is one test on the API server: a namespace and nodes of its own.
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

// node makes a Ready node, which is removed when the test ends. As from a kubelet,
// it has labels: of a node that is created with nothing, the API server never
// records who sets what.
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
