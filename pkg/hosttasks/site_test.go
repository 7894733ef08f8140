package hosttasks

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/hostagent"
	"github.com/topsops/gcu-operator/pkg/nodeapi"
	"github.com/topsops/gcu-operator/test/apiserver"
)

// controlPlane is access to an API server without controllers.
type controlPlane struct {
	admin client.Client
	// agent has the identity of the node agents, with the rights of config/rbac.
	agent *rest.Config
}

func sharedPlane(t *testing.T) *controlPlane {
	t.Helper()
	server := apiserver.Shared(t)
	return &controlPlane{server.Client(t, apiserver.Admin), server.As(apiserver.NodeAgent)}
}

// link is the network between an agent and the API server.
type link struct {
	mutex       sync.Mutex
	isDown      bool
	connections []net.Conn
}

func (l *link) dial(ctx context.Context, network, address string) (net.Conn, error) {
	connection, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.isDown {
		return nil, errors.Join(errors.New("the link is down"), connection.Close())
	}
	l.connections = append(l.connections, connection)
	return connection, nil
}

func (l *link) set(down bool) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.isDown = down
	if down {
		for _, connection := range l.connections {
			_ = connection.Close() // it may be closed already
		}
		l.connections = nil
	}
}

// site is one node with its host, its NodeUpgrade and an agent.
type site struct {
	*controlPlane
	t        *testing.T
	host     *fakeHost
	manager  *systemd
	link     *link
	node     *corev1.Node
	stateDir string
	// change modifies the agent's options before it starts.
	change func(*Options)
}

func newSite(t *testing.T, name string) *site {
	t.Helper()
	s := &site{controlPlane: sharedPlane(t), t: t, host: newHost(t), link: &link{}, stateDir: t.TempDir(), change: func(*Options) {}}
	s.manager = &systemd{host: s.host}
	s.node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	s.create(s.node)
	s.create(&topsv1.NodeUpgrade{ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: []metav1.OwnerReference{
		{APIVersion: "v1", Kind: "Node", Name: name, UID: s.node.UID}}}})
	return s
}

func (s *site) create(object client.Object) {
	s.t.Helper()
	if err := s.admin.Create(s.t.Context(), object); err != nil {
		s.t.Fatalf("creating %T: %v", object, err)
	}
}

func (s *site) nodeUpgrade() *topsv1.NodeUpgrade {
	s.t.Helper()
	n := &topsv1.NodeUpgrade{}
	if err := s.admin.Get(s.t.Context(), client.ObjectKey{Name: s.node.Name}, n); err != nil {
		s.t.Fatal(err)
	}
	return n
}

func (s *site) task(action string) string { return s.node.Name + "_" + action }

// ask stores an operation as the operator does once the tasks have begun; change may modify
// it.
func (s *site) ask(id string, attempt int32, change func(*topsv1.NodeUpgrade), tasks ...string) {
	s.t.Helper()
	before := s.nodeUpgrade()
	n := before.DeepCopy()
	n.Spec.Operation = &topsv1.NodeOperation{ID: id, NodeUID: s.node.UID, DefaultRuntime: "enflame", Granted: true, Targets: []topsv1.OperationTarget{{
		Component: "driver", DaemonSet: topsv1.NamespacedRef{Namespace: "kube-system", Name: "driver"}, Revision: "r2", Images: []string{"r.example/driver:2"},
	}}}
	n.Status.Operation = &topsv1.OperationStatus{ID: id, Phase: topsv1.OperationRunning, Since: metav1.Now(), StartTime: metav1.Now()}
	var stage topsv1.JobStage
	for _, t := range tasks {
		stage = append(stage, topsv1.TaskName(s.task(t)))
		n.Status.Operation.Tasks = append(n.Status.Operation.Tasks, topsv1.OperationTask{Name: s.task(t), State: topsv1.OperationTaskRunning, Attempts: attempt})
	}
	n.Spec.Operation.Job = []topsv1.JobStage{stage}
	if change != nil {
		change(n)
	}
	status := n.Status.Operation
	if err := s.admin.Patch(s.t.Context(), n, client.MergeFrom(before)); err != nil {
		s.t.Fatalf("storing the operation: %v", err)
	}
	s.updateStatus(func(n *topsv1.NodeUpgrade) { n.Status.Operation = status })
}

// updateStatus changes the operator's part of the status.
func (s *site) updateStatus(change func(*topsv1.NodeUpgrade)) {
	s.t.Helper()
	before := s.nodeUpgrade()
	after := before.DeepCopy()
	change(after)
	if err := s.admin.Status().Patch(s.t.Context(), after, client.MergeFrom(before)); err != nil {
		s.t.Fatalf("storing the status: %v", err)
	}
}

// start runs an agent as cmd/node-agent does, and returns a function that stops it.
func (s *site) start() (stop func()) {
	s.t.Helper()
	config := rest.CopyConfig(s.agent)
	config.Dial = s.link.dial
	server, err := nodeapi.New(config, "test", clock.RealClock{}, testr.New(s.t))
	if err != nil {
		s.t.Fatal(err)
	}
	executor, err := hostagent.New(hostagent.Options{
		StateDirectory: s.stateDir, HostRoot: s.host.root, ServiceManager: s.manager, Host: s.node.Name,
		Poll: 5 * time.Millisecond, RepeatAfter: 200 * time.Millisecond, Clock: clock.RealClock{}, Log: testr.New(s.t),
	})
	if err != nil {
		s.t.Fatal(err)
	}
	o := Options{NodeName: s.node.Name, RestartAllowed: true, Executor: executor, Cluster: server, Clock: clock.RealClock{}, Log: testr.New(s.t)}
	s.change(&o)
	worker := New(o)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { worker.Run(ctx) })
	running.Go(func() {
		if err := server.Follow(ctx, s.node.Name, testr.New(s.t), worker.Seen); err != nil {
			s.t.Errorf("following the NodeUpgrade: %v", err)
		}
	})
	stop = sync.OnceFunc(func() { cancel(); running.Wait() })
	s.t.Cleanup(stop)
	return stop
}

// result returns the reported result of a task, the zero value for none.
func (s *site) result(operation, task string) topsv1.HostTaskResult {
	s.t.Helper()
	if r := s.nodeUpgrade().Status.Host.Result(operation, s.task(task)); r != nil {
		return *r
	}
	return topsv1.HostTaskResult{}
}

// untilAnswered waits for the final result of an attempt, or a Waiting one.
func (s *site) untilAnswered(operation, task string, attempt int32) topsv1.HostTaskResult {
	s.t.Helper()
	var r topsv1.HostTaskResult
	until(s.t, operation+" "+task+" is answered", func() bool {
		r = s.result(operation, task)
		return r.Attempt == attempt && r.State != "" && r.State != topsv1.HostTaskRunning
	})
	return r
}

// journaled returns the names of the files in the journal.
func (s *site) journaled() []string {
	s.t.Helper()
	files, err := filepath.Glob(filepath.Join(s.stateDir, "tasks", "*"))
	if err != nil {
		s.t.Fatal(err)
	}
	slices.Sort(files)
	return files
}
