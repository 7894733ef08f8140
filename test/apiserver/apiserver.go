package apiserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// Namespace is where the operator is.
const Namespace = "kube-system"

// Accounts, which have the rights of config/rbac and no others. Admin may do everything.
const (
	Admin     = ""
	Operator  = "system:serviceaccount:" + Namespace + ":gcu-operator"
	NodeAgent = "system:serviceaccount:" + Namespace + ":gcu-node-agent"
)

// config is the folder of what is shipped.
var config = filepath.Join("..", "..", "config")

// CRDs is the folder of the shipped CRDs.
var CRDs = filepath.Join(config, "crd")

// Server is a running API server.
type Server struct {
	*envtest.Environment
	// Scheme knows the kinds of Kubernetes and ours.
	Scheme *runtime.Scheme
	admin  *rest.Config
}

// shared is the server of all tests of a package.
var shared struct {
	once   sync.Once
	server *Server
	err    error
}

// Run runs the tests of a package, and stops the server that they share. It returns
// the exit code for TestMain.
func Run(m *testing.M) int {
	code := m.Run()
	if shared.server == nil {
		return code
	}
	if err := shared.server.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stopping the API server:", err)
		return 1
	}
	return code
}

// Shared returns the server that the tests of a package share, with the CRDs and the
// accounts. TestMain must call Run.
func Shared(t *testing.T) *Server {
	t.Helper()
	need(t)
	shared.once.Do(func() { shared.server, shared.err = start(true) })
	if shared.err != nil {
		t.Fatalf("starting the API server: %v", shared.err)
	}
	return shared.server
}

// Start returns a server like the shared one that ends with the test.
func Start(t *testing.T) *Server {
	t.Helper()
	return startFor(t, true)
}

// StartBare returns a server without CRDs and accounts that ends with the test.
func StartBare(t *testing.T) *Server {
	t.Helper()
	return startFor(t, false)
}

func startFor(t *testing.T, installed bool) *Server {
	t.Helper()
	need(t)
	s, err := start(installed)
	if err != nil {
		t.Fatalf("starting the API server: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Errorf("stopping the API server: %v", err)
		}
	})
	return s
}

func need(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: it needs an API server")
	}
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		t.Fatal("KUBEBUILDER_ASSETS is not set: run make test, which builds an API server and says where it is")
	}
}

func start(installed bool) (*Server, error) {
	s := &Server{Environment: &envtest.Environment{}, Scheme: runtime.NewScheme()}
	if err := errors.Join(clientgoscheme.AddToScheme(s.Scheme), topsv1.AddToScheme(s.Scheme)); err != nil {
		return nil, err
	}
	if installed {
		s.CRDDirectoryPaths, s.ErrorIfCRDPathMissing = []string{CRDs}, true
	}
	var err error
	if s.admin, err = s.Start(); err != nil {
		return nil, err
	}
	s.admin.QPS = -1
	if installed {
		err = s.makeAccounts()
	}
	if err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

// makeAccounts makes the accounts with their rights, from the files that are shipped.
func (s *Server) makeAccounts() error {
	c, err := client.New(s.admin, client.Options{Scheme: s.Scheme})
	if err != nil {
		return err
	}
	for _, name := range []string{"service_accounts.yaml", "manager_role.yaml", "node_agent_role.yaml", "bindings.yaml"} {
		if err := create(c, filepath.Join(config, "rbac", name)); err != nil {
			return fmt.Errorf("creating what %s has: %w", name, err)
		}
	}
	return nil
}

// create creates the objects of a file.
func create(c client.Client, path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	for decoder := yaml.NewYAMLOrJSONDecoder(file, 4096); ; {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(&object.Object); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if len(object.Object) == 0 {
			continue
		}
		if !strings.HasPrefix(object.GetKind(), "Cluster") {
			object.SetNamespace(Namespace) // as kustomize does
		}
		if err := c.Create(context.Background(), object); err != nil {
			return err
		}
	}
}

// As returns access to the server with the rights of an account, or of any other user,
// without a limit of requests. The caller may change it.
func (s *Server) As(user string) *rest.Config {
	as := rest.CopyConfig(s.admin)
	as.Impersonate.UserName = user
	return as
}

// Client returns a client with the rights of an account or another user.
func (s *Server) Client(t *testing.T, user string) client.WithWatch {
	t.Helper()
	c, err := client.NewWithWatch(s.As(user), client.Options{Scheme: s.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// KubeconfigFile writes the kubeconfig of an administrator to a file that goes with the test,
// and returns its path.
func (s *Server) KubeconfigFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, s.KubeConfig, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
