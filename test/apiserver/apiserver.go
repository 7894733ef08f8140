package apiserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/test/need"
)

// Namespace is the operator's namespace.
const Namespace = "kube-system"

// Accounts with exactly the rights in config/rbac. Admin has all rights.
const (
	Admin     = ""
	Operator  = "system:serviceaccount:" + Namespace + ":gcu-operator"
	NodeAgent = "system:serviceaccount:" + Namespace + ":gcu-node-agent"
)

// config is the folder of the shipped manifests.
var config = filepath.Join("..", "..", "config")

// Server is a running API server.
type Server struct {
	*envtest.Environment
	// Scheme contains Kubernetes' kinds and ours.
	Scheme *runtime.Scheme
	admin  *rest.Config
}

// shared is the server of all tests of a package.
var shared struct {
	once   sync.Once
	server *Server
	err    error
}

// Run runs the tests of a package, and stops their shared server. It returns the exit
// code for TestMain, which is also not 0 if goroutines are left.
func Run(m *testing.M) int {
	code := m.Run()
	if shared.server != nil {
		if err := shared.server.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stopping the API server:", err)
			return 1
		}
	}
	if code != 0 {
		return code // failed tests may leave goroutines
	}
	http.DefaultClient.CloseIdleConnections()
	if err := goleak.Find(
		// lumberjack's goroutine that compresses old log files ends with the process.
		goleak.IgnoreTopFunction("gopkg.in/natefinch/lumberjack%2ev2.(*Logger).millRun"),
		// A controller-runtime cache that stops while an event arrives never receives it from
		// its filter.
		goleak.IgnoreTopFunction("k8s.io/apimachinery/pkg/watch.(*filteredWatch).loop"),
	); err != nil {
		fmt.Fprintln(os.Stderr, "the tests have passed, and left goroutines behind:", err)
		return 1
	}
	return 0
}

// Shared returns the shared server of a package's tests, with the CRDs and the
// accounts. TestMain must call Run.
func Shared(t *testing.T) *Server {
	t.Helper()
	return SharedWith(t, (*Server).install)
}

// SharedWith is like Shared, with another install function that is called once.
func SharedWith(t *testing.T, install func(*Server) error) *Server {
	t.Helper()
	mayStart(t)
	shared.once.Do(func() { shared.server, shared.err = start(install) })
	if shared.err != nil {
		t.Fatalf("starting the API server: %v", shared.err)
	}
	return shared.server
}

// Start returns a server like the shared one that is stopped at the end of the test.
func Start(t *testing.T) *Server {
	t.Helper()
	mayStart(t)
	s, err := start((*Server).install)
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

func mayStart(t *testing.T) {
	t.Helper()
	if testing.Short() {
		need.Skip(t, "needs an API server, which -short disables")
	}
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		t.Fatal("KUBEBUILDER_ASSETS is not set: run make test, which builds an API server and says where it is")
	}
}

func start(install func(*Server) error) (*Server, error) {
	s := &Server{Environment: &envtest.Environment{}, Scheme: runtime.NewScheme()}
	if err := errors.Join(clientgoscheme.AddToScheme(s.Scheme), topsv1.AddToScheme(s.Scheme)); err != nil {
		return nil, err
	}
	s.ControlPlane.GetAPIServer().Configure().Append("enable-admission-plugins", "NodeRestriction") // as installers of clusters do
	var err error
	if s.admin, err = s.Start(); err != nil {
		return nil, err
	}
	s.admin.QPS = -1
	if err := install(s); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

// install creates the CRDs, and the accounts with their rights, from the shipped files.
func (s *Server) install() error {
	if err := s.InstallCRDs(); err != nil {
		return err
	}
	return s.createFiles(accounts...)
}

// InstallShipped creates the CRDs and everything in the folders of roles and of admission policies, the gate if it ServesGate,
// and the user of a REST API without authentication. The API server enforces the policies a little later.
func (s *Server) InstallShipped() error {
	if err := s.InstallCRDs(); err != nil {
		return err
	}
	folders := []string{"rbac", "admission", "rest-api"}
	if gate, err := s.ServesGate(); err != nil {
		return err
	} else if gate {
		folders = append(folders, "gate")
	}
	for _, folder := range folders {
		files, err := filesOf(folder)
		if err != nil {
			return err
		}
		if err := s.createFiles(files...); err != nil {
			return err
		}
	}
	return s.createFiles("webhook/rights.yaml") // there is no Service that the API server could reach
}

// ServesGate reports whether the API server has what the gate needs: it does from Kubernetes 1.36 on.
func (s *Server) ServesGate() (bool, error) {
	c, err := client.New(s.admin, client.Options{Scheme: s.Scheme})
	if err != nil {
		return false, err
	}
	_, err = c.RESTMapper().RESTMapping(schema.GroupKind{Group: "admissionregistration.k8s.io", Kind: "MutatingAdmissionPolicy"}, "v1")
	if meta.IsNoMatchError(err) {
		return false, nil
	}
	return err == nil, err
}

// filesOf returns the files that the kustomization of a folder lists, relative to the folder config.
func filesOf(folder string) (files []string, err error) {
	raw, err := os.ReadFile(filepath.Join(config, folder, "kustomization.yaml"))
	if err != nil {
		return nil, err
	}
	var list struct {
		Resources []string `json:"resources"`
	}
	if err := yaml.Unmarshal(raw, &list); err != nil {
		return nil, fmt.Errorf("reading the kustomization of %s: %w", folder, err)
	}
	for _, name := range list.Resources {
		files = append(files, folder+"/"+name)
	}
	return files, nil
}

// InstallAnonymous gives the user of a REST API without authentication its rights.
func (s *Server) InstallAnonymous() error { return s.createFiles("rest-api/anonymous.yaml") }

// InstallWithVolcano installs what SharedWith installs else, and what volcano needs.
func (s *Server) InstallWithVolcano() error {
	if err := s.install(); err != nil {
		return err
	}
	return s.createFiles("volcano/components.yaml", "volcano/webhooks.yaml")
}

// InstallCRDs creates the shipped CRDs, and waits until their kinds are served.
func (s *Server) InstallCRDs() error {
	_, err := envtest.InstallCRDs(s.admin, crds())
	return err
}

// RemoveCRDs deletes the shipped CRDs with all objects of their kinds, and waits until
// they are gone.
func (s *Server) RemoveCRDs(ctx context.Context) error {
	if err := envtest.UninstallCRDs(s.admin, crds()); err != nil {
		return err
	}
	c, err := client.New(s.admin, client.Options{Scheme: s.Scheme})
	if err != nil {
		return err
	}
	return wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		left := &metav1.PartialObjectMetadataList{}
		left.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinitionList"})
		err := c.List(ctx, left)
		return !slices.ContainsFunc(left.Items, func(crd metav1.PartialObjectMetadata) bool {
			return strings.HasSuffix(crd.Name, "."+topsv1.GroupVersion.Group)
		}), err
	})
}

func crds() envtest.CRDInstallOptions {
	return envtest.CRDInstallOptions{Paths: []string{filepath.Join(config, "crd")}, ErrorIfPathMissing: true}
}

// accounts are the files of the accounts and their rights.
var accounts = []string{"rbac/service_accounts.yaml", "rbac/manager_role.yaml", "rbac/node_agent_role.yaml", "rbac/bindings.yaml", "rbac/components.yaml"}

// createFiles creates the objects in files of the folder config.
func (s *Server) createFiles(names ...string) error {
	c, err := client.New(s.admin, client.Options{Scheme: s.Scheme})
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := create(c, filepath.Join(config, name)); err != nil {
			return fmt.Errorf("creating the objects in %s: %w", name, err)
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
		if kind := object.GetKind(); !strings.HasPrefix(kind, "Cluster") && !strings.HasPrefix(kind, "Validating") {
			object.SetNamespace(Namespace) // like kustomize
		}
		if err := c.Create(context.Background(), object); err != nil {
			return err
		}
	}
}

// As returns a configuration with the rights of an account or any other user, without a
// rate limit. The caller may change it.
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

// KubeconfigFile writes an administrator's kubeconfig to a temporary file of the test,
// and returns its path.
func (s *Server) KubeconfigFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, s.KubeConfig, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
