package host

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/hostagent/task"
	"github.com/topsops/gcu-operator/test/apiserver"
)

const storyNode = "node-a"

// story is an API server, a real docker, and the shipped node agent.
type story struct {
	t          *testing.T
	admin      client.Client
	daemon     daemon
	program    string
	kubeconfig string
	dir        string
}

func newStory(t *testing.T) *story {
	t.Helper()
	needHost(t)
	s := &story{t: t, dir: t.TempDir(), daemon: startEngine(t, task.Docker)}
	// docker runs outside the host root, so its image folder is not below it.
	check(t, os.MkdirAll(filepath.Join(s.daemon.Root, s.daemon.Root, "data"), 0o755))
	ctrllog.SetLogger(logr.Discard())
	server := apiserver.Start(t)
	s.admin, s.kubeconfig = server.Client(t, apiserver.Admin), server.KubeconfigFile(t)
	s.program = filepath.Join(s.dir, "node-agent")
	build := exec.Command("go", "build", "-o", s.program, "../../cmd/node-agent")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the agent: %v\n%s", err, output)
	}
	return s
}

// startAgent starts the program and returns a function that kills it.
func (s *story) startAgent() (kill func()) {
	s.t.Helper()
	log, err := os.OpenFile(filepath.Join(s.dir, "agent.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	check(s.t, err)
	arguments := []string{"--kubeconfig", s.kubeconfig, "--node-name", storyNode, "--ota-bind-address", "127.0.0.1:0",
		"--ota-socket=", "--first-contact-spread=0s", "--host-root", s.daemon.Root, "--state-dir", filepath.Join(s.dir, "state"), "--log-dir", filepath.Join(s.dir, "log"), "-v", "4"}
	for _, argument := range s.daemon.restartArgv() {
		arguments = append(arguments, "--restart-command-docker", argument)
	}
	command := exec.Command(s.program, arguments...)
	command.Stdout, command.Stderr = log, log
	check(s.t, command.Start())
	check(s.t, log.Close())
	killed := false
	kill = func() {
		if killed {
			return
		}
		killed = true
		_ = command.Process.Signal(syscall.SIGKILL)
		_ = command.Wait() // it was killed
	}
	s.t.Cleanup(kill)
	return kill
}

func (s *story) nodeUpgrade() *topsv1.NodeUpgrade {
	n := &topsv1.NodeUpgrade{}
	if err := s.admin.Get(context.Background(), client.ObjectKey{Name: storyNode}, n); err != nil {
		return nil
	}
	return n
}

// ask stores an operation whose tasks are running, like the operator.
func (s *story) ask(id, image string, tasks ...string) {
	s.t.Helper()
	node := &corev1.Node{}
	check(s.t, s.admin.Get(s.t.Context(), client.ObjectKey{Name: storyNode}, node))
	before := s.nodeUpgrade()
	n := before.DeepCopy()
	n.Spec.Operation = &topsv1.NodeOperation{ID: id, NodeUID: node.UID, DefaultRuntime: first, Granted: true, Targets: []topsv1.OperationTarget{{
		Component: "toolkit", Revision: "r", DaemonSet: topsv1.NamespacedRef{Namespace: "kube-system", Name: "toolkit"},
		Images: []string{image}, PullSecrets: []string{"gcu-pull-secret"},
	}}}
	status := &topsv1.OperationStatus{ID: id, Phase: topsv1.OperationRunning, Since: metav1.Now(), StartTime: metav1.Now()}
	var stage topsv1.JobStage
	for _, task := range tasks {
		stage = append(stage, topsv1.TaskName(storyNode+"_"+task))
		status.Tasks = append(status.Tasks, topsv1.OperationTask{Name: storyNode + "_" + task, State: topsv1.OperationTaskRunning, Attempts: 1})
	}
	n.Spec.Operation.Job = []topsv1.JobStage{stage}
	check(s.t, s.admin.Patch(s.t.Context(), n, client.MergeFrom(before)))
	before = s.nodeUpgrade()
	n = before.DeepCopy()
	n.Status.Operation = status
	check(s.t, s.admin.Status().Patch(s.t.Context(), n, client.MergeFrom(before)))
}

// done waits until the report has the task as Done, and returns it.
func (s *story) done(id, task string) (host *topsv1.HostReport, result *topsv1.HostTaskResult) {
	s.t.Helper()
	err := poll(time.Minute, id+" "+task, func() bool {
		n := s.nodeUpgrade()
		if n == nil {
			return false
		}
		host, result = n.Status.Host, n.Status.Host.Result(id, storyNode+"_"+task)
		return result != nil && result.State.Final()
	})
	if err != nil || result.State != topsv1.HostTaskDone {
		log, _ := os.ReadFile(filepath.Join(s.dir, "agent.log"))
		s.t.Fatalf("%v: result %+v\n%s", err, result, log)
	}
	return host, result
}

func TestAnOperationOfTheAPIServerRestartsTheRuntimeOnce(t *testing.T) {
	s, l := newStory(t), openLibrary(t)
	image := l.image(t, "gcu/gcu-runtime:2.0")
	pullSecret := secret(t, l.address, librarian)
	pullSecret.Namespace, pullSecret.Name = "kube-system", "gcu-pull-secret"
	check(t, s.admin.Create(t.Context(), &pullSecret))
	check(t, s.admin.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: storyNode}}))
	kill := s.startAgent()
	check(t, poll(time.Minute, "the first report", func() bool {
		n := s.nodeUpgrade()
		return n != nil && n.Status.Host != nil && n.Status.Host.Runtime != nil
	}))
	host := s.nodeUpgrade().Status.Host
	if r := host.Runtime; r.Engine != "docker" || r.Default != "runc" || r.RestartStopsContainers == nil || !*r.RestartStopsContainers || host.FreeDiskBytes == nil {
		t.Errorf("report %+v of runtime %+v", host, r)
	}
	before, err := s.daemon.started()
	check(t, err)

	s.ask("prepare", image, "toolkit_prepull")
	if _, r := s.done("prepare", "toolkit_prepull"); r.Reason != string(task.ReasonPulled) {
		t.Errorf("result %+v", r)
	}
	s.daemon.configure(t, first) // like the toolkit's pod
	s.ask("upgrade", image, "node_restart-runtime", "runtime_verify")
	host, r := s.done("upgrade", "node_restart-runtime")
	if r.Reason != string(task.ReasonRestarted) || host.Runtime == nil || host.Runtime.Default != first {
		t.Errorf("result %+v, runtime %+v", r, host.Runtime)
	}
	s.done("upgrade", "runtime_verify")

	kill()
	s.startAgent() // finds the restart done
	s.ask("again", image, "node_restart-runtime")
	if host, r := s.done("again", "node_restart-runtime"); r.Reason != string(task.ReasonAlreadyDefault) || host.Result("upgrade", storyNode+"_node_restart-runtime") == nil {
		t.Errorf("result %+v, all %+v", r, host.Results)
	}
	after, err := s.daemon.started()
	check(t, err)
	if len(after) != len(before)+1 {
		t.Errorf("%d restarts, want 1", len(after)-len(before))
	}
	log, err := os.ReadFile(filepath.Join(s.dir, "log", "restart-docker.log"))
	if err != nil || strings.Count(string(log), "restart docker success") != 1 {
		t.Errorf("restart-docker.log: %v\n%s", err, log)
	}
}
