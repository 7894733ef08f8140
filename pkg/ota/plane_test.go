package ota_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/testr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/nodeapi"
	"github.com/topsops/gcu-operator/pkg/ota"
	"github.com/topsops/gcu-operator/pkg/ota/guard"
)

// controlPlane is a real kube-apiserver with etcd, without controllers.
type controlPlane struct {
	environment *envtest.Environment
	admin       client.Client
	// agent is the identity of the node agents, with the rights that the
	// markers in cmd/node-agent name and no others.
	agent *rest.Config
}

var shared struct {
	once  sync.Once
	plane *controlPlane
	err   error
}

func TestMain(m *testing.M) {
	ctrllog.SetLogger(logr.Discard())
	code := m.Run()
	if shared.plane != nil {
		if err := shared.plane.environment.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stopping the control plane:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// sharedPlane returns the control plane of the tests that leave it running.
func sharedPlane(t *testing.T) *controlPlane {
	t.Helper()
	needsAPIServer(t)
	shared.once.Do(func() { shared.plane, shared.err = startPlane() })
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.plane
}

func needsAPIServer(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("it needs an API server")
	}
}

func startPlane() (*controlPlane, error) {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		return nil, fmt.Errorf("KUBEBUILDER_ASSETS is not set, and this test needs a real API server: run make test")
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, topsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	environment := &envtest.Environment{
		CRDDirectoryPaths: []string{"../../config/crd"}, ErrorIfCRDPathMissing: true, Scheme: scheme,
	}
	config, err := environment.Start()
	if err != nil {
		return nil, fmt.Errorf("starting the control plane: %w", err)
	}
	plane := &controlPlane{environment: environment}
	if err := plane.prepare(config, scheme); err != nil {
		_ = environment.Stop()
		return nil, err
	}
	return plane, nil
}

func (p *controlPlane) prepare(config *rest.Config, scheme *runtime.Scheme) (err error) {
	if p.admin, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
		return err
	}
	rules, err := agentRules()
	if err != nil {
		return err
	}
	const name = "gcu-node-agent"
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: name}},
	}
	for _, object := range []client.Object{role, binding} {
		if err := p.admin.Create(context.Background(), object); err != nil {
			return err
		}
	}
	user, err := p.environment.AddUser(envtest.User{Name: name}, nil)
	if err != nil {
		return err
	}
	p.agent = user.Config()
	return nil
}

var marker = regexp.MustCompile(`^// \+kubebuilder:rbac:groups=([^,]*),resources=([^,]*),verbs=(\S*)$`)

// agentRules reads the rights of the agent where they are written down.
func agentRules() ([]rbacv1.PolicyRule, error) {
	file, err := os.Open("../../cmd/node-agent/doc.go")
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	var rules []rbacv1.PolicyRule
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if m := marker.FindStringSubmatch(lines.Text()); m != nil {
			rules = append(rules, rbacv1.PolicyRule{
				APIGroups: []string{strings.Trim(m[1], `"`)}, Resources: strings.Split(m[2], ";"), Verbs: strings.Split(m[3], ";"),
			})
		}
	}
	if len(rules) == 0 {
		return nil, fmt.Errorf("no rbac markers in %s", file.Name())
	}
	return rules, nil
}

// noPuller is a node that pulls nothing.
type noPuller struct{}

func (noPuller) Pull(context.Context, string, topsv1.OperationTarget) error { return nil }

func (noPuller) Pulled(string) *topsv1.HostTaskResult { return nil }

// site is one node with a namespace of its own and an agent.
type site struct {
	*controlPlane
	t         *testing.T
	node      *corev1.Node
	namespace string
	stateDir  string
	cluster   ota.Cluster
	server    *nodeapi.Server
	// endpoint of the running agent, "http://127.0.0.1:port".
	endpoint string
}

func newSite(t *testing.T, plane *controlPlane, name string) *site {
	t.Helper()
	s := &site{controlPlane: plane, t: t, namespace: "ns-" + name, stateDir: t.TempDir()}
	s.node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	s.create(s.node)
	s.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}})
	s.connect(plane.agent)
	return s
}

func (s *site) connect(config *rest.Config) {
	s.t.Helper()
	var err error
	if s.server, err = nodeapi.New(config, "test"); err != nil {
		s.t.Fatal(err)
	}
	s.cluster = s.server
}

func (s *site) create(object client.Object) {
	s.t.Helper()
	if err := s.admin.Create(s.t.Context(), object); err != nil {
		s.t.Fatalf("creating %T: %v", object, err)
	}
}

// outdated creates a pod of a DaemonSet on this node that can be upgraded to
// revision rev-2; change may make it another one.
func (s *site) outdated(name string, change func(*corev1.Pod)) *corev1.Pod {
	s.t.Helper()
	controller := true
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name, OwnerReferences: []metav1.OwnerReference{{
			APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "DaemonSet", Name: "driver", UID: "ds-uid", Controller: &controller,
		}}},
		Spec: corev1.PodSpec{NodeName: s.node.Name, Containers: []corev1.Container{{Name: "c", Image: "i"}}},
		Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{
			Type: topsv1.PodNeedUpgrade, Status: corev1.ConditionTrue, Message: topsv1.PodNeedUpgradeMessagePrefix + "rev-2",
		}}},
	}
	if change != nil {
		change(pod)
	}
	status := pod.Status
	s.create(pod)
	pod.Status = status
	if err := s.admin.Status().Update(s.t.Context(), pod); err != nil {
		s.t.Fatalf("writing the status of pod %s: %v", name, err)
	}
	return pod
}

// start runs an agent as cmd/node-agent does and returns what stops it.
func (s *site) start() (stop func()) {
	s.t.Helper()
	inbox, err := ota.NewInbox(ota.Options{
		NodeName: s.node.Name, StateDirectory: s.stateDir, Version: "test", Cluster: s.cluster, Puller: noPuller{},
		Clock: clock.RealClock{}, Log: testr.New(s.t),
	})
	if err != nil {
		s.t.Fatalf("opening the inbox: %v", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	s.endpoint = "http://" + listener.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { inbox.Run(ctx) })
	running.Go(func() {
		if err := s.server.Follow(ctx, s.node.Name, testr.New(s.t), inbox.Seen); err != nil {
			s.t.Errorf("following the NodeUpgrade: %v", err)
		}
	})
	running.Go(func() {
		if err := ota.Serve(ctx, []guard.Door{{Listener: listener, Caller: guard.Anybody}}, ota.NewHandler(ota.HandlerOptions{Desk: inbox, Stopping: ctx.Done(), Clock: clock.RealClock{}, Log: testr.New(s.t)}), testr.New(s.t)); err != nil {
			s.t.Errorf("serving: %v", err)
		}
	})
	stop = sync.OnceFunc(func() { cancel(); running.Wait() })
	s.t.Cleanup(stop)
	return stop
}

// post asks for the upgrade of a pod and returns status and body.
func (s *site) post(pod string) (int, string) {
	s.t.Helper()
	return s.send(http.MethodPost, "/openyurt.io/v1/namespaces/"+s.namespace+"/pods/"+pod+"/upgrade")
}

func (s *site) send(method, path string) (int, string) {
	s.t.Helper()
	request, err := http.NewRequestWithContext(s.t.Context(), method, s.endpoint+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		s.t.Errorf("%s %s: %v", method, path, err)
		return 0, ""
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		s.t.Errorf("reading the answer to %s %s: %v", method, path, err)
	}
	return response.StatusCode, string(body)
}

func (s *site) mustPost(pod string) {
	s.t.Helper()
	if status, body := s.post(pod); status != http.StatusOK || body != "Start updating pod "+s.namespace+"/"+pod {
		s.t.Fatalf("POST for %s: %d %q", pod, status, body)
	}
}

func (s *site) nodeUpgrade() *topsv1.NodeUpgrade {
	s.t.Helper()
	nodeUpgrade := &topsv1.NodeUpgrade{}
	if err := s.admin.Get(s.t.Context(), client.ObjectKey{Name: s.node.Name}, nodeUpgrade); err != nil {
		s.t.Fatalf("getting NodeUpgrade %s: %v", s.node.Name, err)
	}
	return nodeUpgrade
}

// answer applies tasks as the operator does, with a field manager of its own.
func (s *site) answer(tasks ...topsv1.UpgradeTask) {
	s.t.Helper()
	raw, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&topsv1.NodeUpgrade{
		TypeMeta:   metav1.TypeMeta{APIVersion: topsv1.GroupVersion.String(), Kind: "NodeUpgrade"},
		ObjectMeta: metav1.ObjectMeta{Name: s.node.Name},
		Status:     topsv1.NodeUpgradeStatus{Tasks: tasks},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	configuration := client.ApplyConfigurationFromUnstructured(&unstructured.Unstructured{Object: raw})
	if err := s.admin.Status().Apply(s.t.Context(), configuration, client.FieldOwner(topsv1.ManagedBy), client.ForceOwnership); err != nil {
		s.t.Fatalf("applying tasks: %v", err)
	}
}

// until polls the control plane.
func (s *site) until(what string, holds func() bool) {
	s.t.Helper()
	err := wait.PollUntilContextTimeout(s.t.Context(), 10*time.Millisecond, 15*time.Second, true,
		func(context.Context) (bool, error) { return holds(), nil })
	if err != nil {
		s.t.Fatalf("waiting until %s: %v", what, err)
	}
}
