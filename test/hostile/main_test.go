package hostile

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/test/apiserver"
	"github.com/topsops/gcu-operator/test/need"
)

// patience is how long a test waits for what must happen.
const patience = 30 * time.Second

func TestMain(m *testing.M) {
	ctrllog.SetLogger(logr.Discard())
	var err error
	if programs, err = os.MkdirTemp("", "gcu-h-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := apiserver.Run(m)
	_ = os.RemoveAll(programs)
	os.Exit(code)
}

// cluster returns the API server of all tests, with CRDs, roles and admission policies.
func cluster(t *testing.T) *apiserver.Server {
	t.Helper()
	s := apiserver.SharedWith(t, (*apiserver.Server).InstallShipped)
	awaitRoles.Do(func() {
		s.AwaitRights(t, apiserver.Operator)
		s.AwaitRights(t, apiserver.NodeAgent)
	})
	awaitPolicies(t, s)
	return s
}

// since136 skips what needs Kubernetes 1.36, as the gate does, on an earlier one.
func since136(t *testing.T, s *apiserver.Server, what string) {
	t.Helper()
	serves, err := s.ServesGate()
	check(t, err)
	if !serves {
		need.Skip(t, what+", which needs Kubernetes 1.36 or later")
	}
}

// awaitRoles waits once until the API server knows the shipped roles.
var awaitRoles sync.Once

// awaitPolicies waits until the API server enforces the policies.
func awaitPolicies(t *testing.T, s *apiserver.Server) {
	t.Helper()
	agent := agentOf(t, s, "await-policies")
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		err := agent.Create(ctx, nodeUpgrade("another", "uid"), client.DryRunAll)
		return apierrors.IsForbidden(err), client.IgnoreAlreadyExists(err)
	})
	if err != nil && !apierrors.IsForbidden(err) {
		t.Fatal(err)
	}
}

// agentOf returns a client with the rights of the agent of a node.
func agentOf(t *testing.T, s *apiserver.Server, node string) client.WithWatch {
	t.Helper()
	return as(t, s, rest.ImpersonationConfig{UserName: apiserver.NodeAgent,
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + apiserver.Namespace, "system:authenticated"},
		Extra:  map[string][]string{"authentication.kubernetes.io/node-name": {node}}})
}

// tenantIn returns a client of a user who administers a new namespace.
func tenantIn(t *testing.T, s *apiserver.Server, namespace string) client.WithWatch {
	t.Helper()
	admin := s.Client(t, apiserver.Admin)
	check(t, admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}))
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "tenant"},
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{"", "apps", "batch"}, Resources: []string{"*"}, Verbs: []string{"*"}}}}
	check(t, admin.Create(t.Context(), role))
	user := "tenant-of-" + namespace
	check(t, admin.Create(t.Context(), &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "tenant"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "tenant"}}))
	s.AwaitRight(t, authorizationv1.SubjectAccessReviewSpec{User: user, ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: "create", Resource: "pods"}})
	return as(t, s, rest.ImpersonationConfig{UserName: user, Groups: []string{"system:authenticated"}})
}

func as(t *testing.T, s *apiserver.Server, who rest.ImpersonationConfig) client.WithWatch {
	t.Helper()
	config := s.As(who.UserName)
	config.Impersonate = who
	c, err := client.NewWithWatch(config, client.Options{Scheme: s.Scheme})
	check(t, err)
	return c
}

// addNode creates a Node with its NodeUpgrade.
func addNode(t *testing.T, s *apiserver.Server, name string) *topsv1.NodeUpgrade {
	t.Helper()
	admin := s.Client(t, apiserver.Admin)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	check(t, admin.Create(t.Context(), node))
	u := nodeUpgrade(name, node.UID)
	check(t, agentOf(t, s, name).Create(t.Context(), u))
	return u
}

func nodeUpgrade(node string, uid types.UID) *topsv1.NodeUpgrade {
	return &topsv1.NodeUpgrade{ObjectMeta: metav1.ObjectMeta{Name: node, OwnerReferences: []metav1.OwnerReference{
		{APIVersion: "v1", Kind: "Node", Name: node, UID: uid}}}}
}

// write merges a status into the NodeUpgrade of a node.
func write(t *testing.T, c client.Client, node string, status any, opts ...client.SubResourcePatchOption) error {
	t.Helper()
	data, err := json.Marshal(map[string]any{"status": status})
	check(t, err)
	return c.Status().Patch(t.Context(), nodeUpgrade(node, ""), client.RawPatch(types.MergePatchType, data), opts...)
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
