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
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/topsops/gcu-operator/test/apiserver"
)

const (
	namespace      = "kube-system"
	agentAccount   = "gcu-node-agent"
	managerAccount = "gcu-operator"
)

// plane is an API server with the shipped manifests on it.
type plane struct {
	*apiserver.Server
	config *rest.Config
	admin  client.Client
	// program is the node agent.
	program string
}

// folder contains the files that the tests share; its name is short, for the sockets
// below it.
var folder string

func TestMain(m *testing.M) {
	ctrllog.SetLogger(logr.Discard())
	var err error
	if folder, err = os.MkdirTemp("", "gcu-r-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := apiserver.Run(m)
	_ = os.RemoveAll(folder)
	os.Exit(code)
}

// sharedPlane returns the control plane of all tests.
func sharedPlane(t *testing.T) *plane {
	t.Helper()
	server := apiserver.SharedWith(t, func(s *apiserver.Server) error {
		p, err := planeOf(s)
		return errors.Join(err, p.install(), p.awaitPolicy(), build(p.program))
	})
	awaitRoles.Do(func() { server.AwaitRights(t, agentUser) })
	p, err := planeOf(server)
	check(t, err)
	return p
}

// awaitRoles waits once until the API server knows the roles that were installed.
var awaitRoles sync.Once

func planeOf(server *apiserver.Server) (*plane, error) {
	p := &plane{Server: server, config: server.As(apiserver.Admin), program: filepath.Join(folder, "node-agent")}
	var err error
	p.admin, err = client.New(p.config, client.Options{Scheme: server.Scheme})
	return p, err
}

// install applies the shipped manifests as in docs/install.md.
func (p *plane) install() error {
	home := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}} // the API server creates it too
	if err := client.IgnoreAlreadyExists(p.admin.Create(context.Background(), home)); err != nil {
		return err
	}
	admin, err := p.AddUser(envtest.User{Name: "admin", Groups: []string{"system:masters"}}, nil)
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

// awaitPolicy waits until the API server enforces the policy.
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

// clientOf returns a client for a configuration.
func (p *plane) clientOf(config *rest.Config) (client.Client, error) {
	return client.New(config, client.Options{Scheme: p.Scheme, Mapper: p.admin.RESTMapper()})
}

// as returns a client for a configuration.
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
