package nodeupgrade

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// plane is a real kube-apiserver with etcd, without controllers: the tests play the
// DaemonSet controller, the disruption controller, the kubelet and the node agent.
type plane struct {
	environment *envtest.Environment
	scheme      *runtime.Scheme
	// admin may do everything; config is of the manager, who may do what its role says.
	admin  client.Client
	config *rest.Config
}

var shared struct {
	once  sync.Once
	plane *plane
	err   error
}

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
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
	p := &plane{scheme: runtime.NewScheme(),
		environment: &envtest.Environment{CRDDirectoryPaths: []string{"../../config/crd"}, ErrorIfCRDPathMissing: true}}
	if err := errors.Join(clientgoscheme.AddToScheme(p.scheme), topsv1.AddToScheme(p.scheme)); err != nil {
		return nil, err
	}
	config, err := p.environment.Start()
	if err != nil {
		return nil, fmt.Errorf("starting the API server: %w", err)
	}
	if err := p.prepare(config); err != nil {
		return nil, errors.Join(err, p.environment.Stop())
	}
	return p, nil
}

// prepare makes the clients, that of the manager with its generated role.
func (p *plane) prepare(config *rest.Config) (err error) {
	config.QPS = -1
	if p.admin, err = client.New(config, client.Options{Scheme: p.scheme}); err != nil {
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
	p.config.QPS = -1
	return nil
}
