package ota_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/testr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/nodeapi"
	"github.com/topsops/gcu-operator/pkg/ota"
	"github.com/topsops/gcu-operator/pkg/ota/endpoint"
	"github.com/topsops/gcu-operator/pkg/ota/guard"
	"github.com/topsops/gcu-operator/test/apiserver"
)

// controlPlane gives access to an API server without controllers.
type controlPlane struct {
	admin client.Client
	// agent is the identity of the node agents, with the permissions of config/rbac.
	agent *rest.Config
}

func TestMain(m *testing.M) {
	ctrllog.SetLogger(logr.Discard())
	os.Exit(apiserver.Run(m))
}

func sharedPlane(t *testing.T) *controlPlane {
	t.Helper()
	server := apiserver.Shared(t)
	return &controlPlane{server.Client(t, apiserver.Admin), server.As(apiserver.NodeAgent)}
}

// noPuller pulls nothing.
type noPuller struct{}

func (noPuller) Pull(context.Context, string, topsv1.OperationTarget) error { return nil }

func (noPuller) Pulled(string) *topsv1.HostTaskResult { return nil }

// site is one node with its own namespace and agent.
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
	if s.server, err = nodeapi.New(config, "test", clock.RealClock{}, testr.New(s.t)); err != nil {
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

// outdated creates an outdated pod of a DaemonSet on this node, with newest revision rev-2;
// change may modify it first.
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

// start runs an agent like cmd/node-agent does; stop ends it.
func (s *site) start() (stop func()) {
	s.t.Helper()
	inbox, err := ota.NewInbox(ota.Options{
		NodeName: s.node.Name, StateDirectory: s.stateDir, Version: "test", Capabilities: []string{"prepull"}, Cluster: s.cluster, Puller: noPuller{},
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
		if err := endpoint.Serve(ctx, []guard.Listener{{Listener: listener, Caller: guard.AllowAll}}, endpoint.NewHandler(endpoint.Options{Backend: inbox, Stopping: ctx.Done(), Clock: clock.RealClock{}, Log: testr.New(s.t)}), testr.New(s.t)); err != nil {
			s.t.Errorf("serving: %v", err)
		}
	})
	stop = sync.OnceFunc(func() { cancel(); running.Wait() })
	s.t.Cleanup(stop)
	return stop
}

// post requests the upgrade of a pod and returns status and body.
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

// requests returns those that the NodeUpgrade shows, none before the agent has created it.
func (s *site) requests() []topsv1.UpgradeRequest {
	s.t.Helper()
	nodeUpgrade := &topsv1.NodeUpgrade{}
	if err := s.admin.Get(s.t.Context(), client.ObjectKey{Name: s.node.Name}, nodeUpgrade); client.IgnoreNotFound(err) != nil {
		s.t.Fatalf("getting NodeUpgrade %s: %v", s.node.Name, err)
	}
	return nodeUpgrade.Status.Requests
}

// answer applies tasks like the operator, with its own field manager.
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
