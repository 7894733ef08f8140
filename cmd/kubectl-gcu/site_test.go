package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/test/apiserver"
)

func TestMain(m *testing.M) { os.Exit(apiserver.Run(m)) }

// site is an API server with the CRDs and roles, and the plugin.
type site struct {
	client.Client
	t          *testing.T
	config     *rest.Config
	kubeconfig string
}

// newSite returns the API server, which all tests share: each uses its own names. There is
// no operator: the tests play it.
func newSite(t *testing.T) *site {
	t.Helper()
	server := apiserver.Shared(t)
	config := server.As(apiserver.Admin)
	return &site{Client: server.Client(t, apiserver.Admin), t: t, config: config, kubeconfig: apiserver.KubeconfigOf(t, config)}
}

// as returns the plugin with the permissions of a user with these rules.
func (s *site) as(name string, rules ...rbacv1.PolicyRule) *site {
	s.t.Helper()
	user, err := apiserver.Shared(s.t).AddUser(envtest.User{Name: name}, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	s.create(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules})
	s.create(&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects: []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: name}}})
	other := *s
	other.kubeconfig = apiserver.KubeconfigOf(s.t, user.Config())
	s.eventually("the right", func() bool { return other.gcu("status").code != exitForbidden })
	return &other
}

// answer is the output of the plugin.
type answer struct {
	code     int
	out, err string
}

// gcu runs the plugin.
func (s *site) gcu(args ...string) answer { return s.gcuWith(s.t.Context(), "", args...) }

func (s *site) gcuWith(ctx context.Context, input string, args ...string) answer {
	var out, errOut bytes.Buffer
	// Insert after the first word: the last one is what a shell completes.
	args = slices.Insert(args, 1, "--kubeconfig", s.kubeconfig, "--cache-dir", filepath.Join(filepath.Dir(s.kubeconfig), "cache"))
	code := run(ctx, args, strings.NewReader(input), &out, &errOut)
	return answer{code, out.String(), errOut.String()}
}

// says fails the test unless the plugin exits with a code and prints all of the words.
func (s *site) says(a answer, code int, words ...string) answer {
	s.t.Helper()
	if a.code != code {
		s.t.Fatalf("exit code %d, want %d; it says\n%s%s", a.code, code, a.out, a.err)
	}
	for _, w := range words {
		if !strings.Contains(a.out+a.err, w) {
			s.t.Errorf("it does not say %q:\n%s%s", w, a.out, a.err)
		}
	}
	return a
}

// create creates an object, with its status, that is removed with the test.
func (s *site) create(o client.Object) {
	s.t.Helper()
	if err := apiserver.CreateWithStatus(s.t.Context(), s, o); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		if err := s.Delete(context.Background(), o); client.IgnoreNotFound(err) != nil {
			s.t.Error(err)
		}
	})
}

// read updates an object from the API server.
func (s *site) read(o client.Object) {
	s.t.Helper()
	if err := s.Get(s.t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
		s.t.Fatal(err)
	}
}

// eventually calls check until it is true.
func (s *site) eventually(what string, check func() bool) {
	s.t.Helper()
	for end := time.Now().Add(30 * time.Second); !check(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			s.t.Fatalf("%s does not happen", what)
		}
	}
}

// gr creates a gr with a driver, as observed by the operator.
func (s *site) gr(name string, annotations ...string) *topsv1.GcuResource {
	s.t.Helper()
	gr := &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: topsv1.GcuResourceSpec{Driver: &topsv1.BaseFields{Version: "1.0"}},
		Status: topsv1.GcuResourceStatus{ObservedGeneration: 1, Phase: topsv1.PhaseRunning, ReadyResource: "1/1",
			ResourceStatuses: []topsv1.ResourceStatus{{Name: "driver", Namespace: "kube-system", Status: topsv1.PhaseRunning}}}}
	for i := 0; i < len(annotations); i += 2 {
		metav1.SetMetaDataAnnotation(&gr.ObjectMeta, annotations[i], annotations[i+1])
	}
	s.create(gr)
	return gr
}

// rollout creates the DaemonRollout of a gr.
func (s *site) rollout(name string, status topsv1.DaemonRolloutStatus) *topsv1.DaemonRollout {
	s.t.Helper()
	dro := &topsv1.DaemonRollout{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name},
		Spec: topsv1.DaemonRolloutSpec{TargetRef: topsv1.TargetRef{Kind: "GcuResource", Name: name}}, Status: status}
	s.create(dro)
	return dro
}

// upgrade creates the NodeUpgrade of a node with an operation.
func (s *site) upgrade(node string, edit func(*topsv1.NodeUpgrade)) *topsv1.NodeUpgrade {
	s.t.Helper()
	task := func(name string) topsv1.TaskName { return topsv1.TaskName(node + "_" + name) }
	u := &topsv1.NodeUpgrade{ObjectMeta: metav1.ObjectMeta{Name: node}}
	u.Spec.Operation = &topsv1.NodeOperation{ID: "op-1", NodeUID: "uid", Granted: true,
		Targets: []topsv1.OperationTarget{{Component: "driver", Revision: "new", DaemonSet: topsv1.NamespacedRef{Namespace: "kube-system", Name: "driver", UID: "x"}}},
		Job:     []topsv1.JobStage{{task("node_cordon")}, {task("driver_replace")}, {task("driver_verify")}, {task("node_uncordon")}}}
	u.Status.Operation = &topsv1.OperationStatus{ID: "op-1", Phase: topsv1.OperationFailed, Held: true, Reason: "VerifyFailed", Since: metav1.Now(), StartTime: metav1.Now(),
		Tasks: []topsv1.OperationTask{{Name: string(task("driver_replace")), State: topsv1.OperationTaskDone}, {Name: string(task("driver_verify")), State: topsv1.OperationTaskFailed}}}
	if edit != nil {
		edit(u)
	}
	s.create(u)
	return u
}

// onlyOursWrote fails the test unless kubectl-gcu owns an annotation, by a patch.
func onlyOursWrote(t *testing.T, o client.Object, field string) {
	t.Helper()
	if !slices.ContainsFunc(o.GetManagedFields(), func(f metav1.ManagedFieldsEntry) bool {
		return f.Manager == fieldManager && f.FieldsV1 != nil && strings.Contains(f.FieldsV1.GetRawString(), field)
	}) {
		t.Errorf("field manager %s does not own %s: %+v", fieldManager, field, o.GetManagedFields())
	}
}

// grFile writes a file with a gr.
func grFile(name, version string) string {
	return "apiVersion: topsops.enflame.com/v1\nkind: GcuResource\nmetadata: {name: " + name + "}\nspec: {driver: {version: \"" + version + "\"}}\n"
}
