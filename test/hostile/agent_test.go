package hostile

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/test/harness"
)

// agent is a running node agent.
type agent struct {
	// url of its endpoint.
	url string
	// errors receives its logged errors, in order.
	errors <-chan string
}

// logLine is a line of the agent's log.
type logLine struct {
	Message string `json:"msg"`
	Address string `json:"address"`
	Error   string `json:"error"`
}

// start runs the program for a node, with its own host root, until the test ends.
func (p *plane) start(t *testing.T, node string, config *rest.Config) *agent {
	t.Helper()
	root := filepath.Join(shortFolder(t), node)
	host, err := harness.NewHost(root, "1.0.0")
	check(t, err)
	t.Cleanup(host.Close)
	command := exec.Command(program(t, "node-agent"), "--kubeconfig", kubeconfig(t, config), "--node-name", node, "--ota-bind-address", "127.0.0.1:0",
		"--state-dir", t.TempDir(), "--host-root", host.Root, "--container-runtime", "containerd", "--log-dir=", "--log-format", "json",
		"--first-contact-spread", "0s", "--ota-auth", "none", "--ota-socket", filepath.Join(host.Root, "ota.sock"))
	log, err := command.StderrPipe()
	check(t, err)
	check(t, command.Start())
	address, failures, ended := make(chan string, 1), make(chan string, 100), make(chan struct{})
	go func() {
		defer close(ended)
		readLog(log, address, failures)
	}()
	t.Cleanup(func() {
		check(t, command.Process.Signal(os.Interrupt))
		<-ended
		if err := command.Wait(); err != nil {
			t.Errorf("the agent of %s: %v", node, err)
		}
	})
	select {
	case a := <-address:
		return &agent{url: "http://" + a, errors: failures}
	case <-ended:
		t.Fatalf("the agent of %s ended", node)
		return nil
	}
}

// readLog reads the endpoint's address and the errors from a log.
func readLog(log io.Reader, address, failures chan<- string) {
	for lines := json.NewDecoder(log); ; {
		var l logLine
		if err := lines.Decode(&l); err != nil {
			return
		}
		if l.Address != "" {
			address <- l.Address
		}
		if l.Error != "" {
			select {
			case failures <- l.Message + ": " + l.Error:
			default: // more than the test reads
			}
		}
	}
}

// kubeconfig writes a kubeconfig with a token.
func kubeconfig(t *testing.T, config *rest.Config) string {
	t.Helper()
	file := clientcmdapi.NewConfig()
	file.Clusters["c"] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	file.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: config.BearerToken}
	file.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	file.CurrentContext = "x"
	path := filepath.Join(t.TempDir(), "kubeconfig")
	check(t, clientcmd.WriteToFile(*file, path))
	return path
}

// outdated creates an outdated pod of a DaemonSet on a node.
func (p *plane) outdated(t *testing.T, name, node string) {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "driver", UID: "ds-uid", Controller: ptr.To(true)}}},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	check(t, p.admin.Create(t.Context(), pod))
	pod.Status.Conditions = []corev1.PodCondition{
		{Type: topsv1.PodNeedUpgrade, Status: corev1.ConditionTrue, Message: topsv1.PodNeedUpgradeMessagePrefix + "rev-2"}}
	check(t, p.admin.Status().Update(t.Context(), pod))
}

// until waits until holds returns true for the NodeUpgrade of a node.
func (p *plane) until(t *testing.T, node, what string, holds func(*topsv1.NodeUpgrade) bool) *topsv1.NodeUpgrade {
	t.Helper()
	n := &topsv1.NodeUpgrade{}
	err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, 20*time.Second, true, func(ctx context.Context) (bool, error) {
		return client.IgnoreNotFound(p.admin.Get(ctx, client.ObjectKey{Name: node}, n)) == nil && n.Name != "" && holds(n), nil
	})
	if err != nil {
		t.Fatalf("waiting until %s: %v; status %+v", what, err, n.Status)
	}
	return n
}

// TestTheAgentDoesItsWorkOnItsOwnNode runs the program through all its writes: it
// creates its NodeUpgrade and reports itself, a request, the host and the result of a
// task, next to fields of the operator.
func TestTheAgentDoesItsWorkOnItsOwnNode(t *testing.T) {
	p := sharedPlane(t)
	for token, identity := range map[string]func(*testing.T, *corev1.Node) *rest.Config{"pod": p.agentInPod, "node": p.agentOfNode} {
		t.Run("with a token that is bound to a "+token, func(t *testing.T) {
			node := p.addNode(t, "own-"+token)
			p.outdated(t, "driver-"+token, node.Name)
			a := p.start(t, node.Name, identity(t, node))
			p.until(t, node.Name, "it is there and the host is reported", func(n *topsv1.NodeUpgrade) bool {
				return n.Status.Agent != nil && n.Status.Host != nil
			})
			response, err := http.Post(a.url+"/openyurt.io/v1/namespaces/default/pods/driver-"+token+"/upgrade", "", nil)
			check(t, err)
			body, err := io.ReadAll(response.Body)
			check(t, err)
			check(t, response.Body.Close())
			if response.StatusCode != http.StatusOK {
				t.Fatalf("POST: %s %s", response.Status, body)
			}
			n := p.until(t, node.Name, "the request is shown", func(n *topsv1.NodeUpgrade) bool { return len(n.Status.Requests) == 1 })

			operator := p.as(t, p.account(t, managerAccount, nil))
			before := n.DeepCopy()
			ask(n, node)
			status := n.Status
			check(t, operator.Patch(t.Context(), n, client.MergeFrom(before)))
			before = n.DeepCopy()
			n.Status = status
			check(t, operator.Status().Patch(t.Context(), n, client.MergeFrom(before)))
			p.until(t, node.Name, "the task is answered", func(n *topsv1.NodeUpgrade) bool {
				r := n.Status.Host.Result("op-1", node.Name+"_driver_prepull")
				return r != nil && r.State == topsv1.HostTaskDone
			})
		})
	}
}

// ask stores an operation with a host task, like the operator.
func ask(n *topsv1.NodeUpgrade, node *corev1.Node) {
	task := node.Name + "_driver_prepull"
	n.Spec.Operation = &topsv1.NodeOperation{ID: "op-1", NodeUID: node.UID, Job: []topsv1.JobStage{{topsv1.TaskName(task)}}, Targets: []topsv1.OperationTarget{{
		Component: "driver", DaemonSet: topsv1.NamespacedRef{Namespace: "default", Name: "driver"}, Revision: "rev-2", Images: []string{"r.example/driver:2"}}}}
	n.Status.Operation = &topsv1.OperationStatus{ID: "op-1", Phase: topsv1.OperationRunning, Since: metav1.Now(), StartTime: metav1.Now(),
		Tasks: []topsv1.OperationTask{{Name: task, State: topsv1.OperationTaskRunning, Attempts: 1}}}
}

// TestARefusedAgentReportsWhy: the API server's message is logged.
func TestARefusedAgentReportsWhy(t *testing.T) {
	p := sharedPlane(t)
	node := p.addNode(t, "refused")
	a := p.start(t, node.Name, p.account(t, agentAccount, nil))
	select {
	case text := <-a.errors:
		if !strings.Contains(text, "has to use the token that is mounted into its pod") {
			t.Errorf("the log says %q", text)
		}
	case <-time.After(20 * time.Second):
		t.Error("the log does not say that the agent was rejected")
	}
}
