package rights

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

const (
	namespace      = "kube-system"
	agentAccount   = "gcu-node-agent"
	managerAccount = "gcu-operator"
)

// plane is a real kube-apiserver with etcd, without controllers, and the shipped
// manifests on it.
type plane struct {
	environment *envtest.Environment
	config      *rest.Config
	admin       client.Client
	// program is the node agent.
	program string
}

var shared struct {
	once   sync.Once
	folder string
	plane  *plane
	err    error
}

func TestMain(m *testing.M) {
	ctrllog.SetLogger(logr.Discard())
	code := m.Run()
	if shared.plane != nil {
		if err := errors.Join(shared.plane.environment.Stop(), os.RemoveAll(shared.folder)); err != nil {
			fmt.Fprintln(os.Stderr, "stopping the control plane:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// sharedPlane returns the control plane of all tests.
func sharedPlane(t *testing.T) *plane {
	t.Helper()
	shared.once.Do(func() { shared.plane, shared.err = startPlane() })
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.plane
}

func startPlane() (*plane, error) {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		return nil, errors.New("KUBEBUILDER_ASSETS is not set, and this test needs a real API server: run make test")
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), topsv1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	var err error
	if shared.folder, err = os.MkdirTemp("", "gcu-r-"); err != nil { // short, for the sockets below it
		return nil, err
	}
	p := &plane{environment: &envtest.Environment{Scheme: scheme}, program: filepath.Join(shared.folder, "node-agent")}
	if p.config, err = p.environment.Start(); err != nil {
		return nil, fmt.Errorf("starting the control plane: %w", err)
	}
	if p.admin, err = client.New(p.config, client.Options{Scheme: scheme}); err == nil {
		err = errors.Join(p.install(), p.awaitPolicy(), build(p.program))
	}
	if err != nil {
		return nil, errors.Join(err, p.environment.Stop(), os.RemoveAll(shared.folder))
	}
	return p, nil
}

// install applies what is shipped, as the README says.
func (p *plane) install() error {
	home := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}} // which the API server makes too
	if err := client.IgnoreAlreadyExists(p.admin.Create(context.Background(), home)); err != nil {
		return err
	}
	admin, err := p.environment.AddUser(envtest.User{Name: "admin", Groups: []string{"system:masters"}}, nil)
	if err != nil {
		return err
	}
	kubectl, err := admin.Kubectl()
	if err != nil {
		return err
	}
	for _, args := range [][]string{
		{"apply", "--server-side", "-k", "../../config/default"},
		{"wait", "--for=condition=Established", "--timeout=30s", "crd/nodeupgrades.topsops.enflame.com"},
	} {
		if _, stderr, err := kubectl.Run(args...); err != nil {
			return fmt.Errorf("kubectl %v: %w: %s", args, err, stderr)
		}
	}
	return nil
}

// awaitPolicy waits until the API server holds requests against the policy.
func (p *plane) awaitPolicy() error {
	agent, err := p.clientOf(p.powerful("await-policy"))
	if err != nil {
		return err
	}
	return wait.PollUntilContextTimeout(context.Background(), 50*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		err := agent.Create(ctx, ownedBy("another"), client.DryRunAll)
		if apierrors.IsForbidden(err) {
			return true, nil
		}
		return false, err
	})
}

// clientOf returns a client of somebody.
func (p *plane) clientOf(config *rest.Config) (client.Client, error) {
	return client.New(config, client.Options{Scheme: p.admin.Scheme(), Mapper: p.admin.RESTMapper()})
}

// as returns a client of somebody.
func (p *plane) as(t *testing.T, config *rest.Config) client.Client {
	t.Helper()
	c, err := p.clientOf(config)
	check(t, err)
	return c
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
