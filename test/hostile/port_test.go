package hostile

import (
	"context"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/yaml"
)

// TestAProcessOnTheAgentsPortStopsNothingAndSeesNoToken: any process of a node may listen on
// 127.0.0.1:10267 before the agent does. The shipped liveness probe passes, root reads the
// status over the socket, which names the address, and the token is not shown.
func TestAProcessOnTheAgentsPortStopsNothingAndSeesNoToken(t *testing.T) {
	directory, agent := shortFolder(t), program(t, "node-agent")
	socket, state := filepath.Join(directory, "s"), filepath.Join(directory, "state")
	thief, shown := occupy(t)
	kubeconfig := filepath.Join(directory, "kubeconfig")
	check(t, os.WriteFile(kubeconfig, []byte(`{"apiVersion":"v1","kind":"Config","current-context":"c","contexts":[{"name":"c","context":{"cluster":"c"}}],
"clusters":[{"name":"c","cluster":{"server":"http://127.0.0.1:1"}}]}`), 0o600))
	running := exec.Command(agent, "--node-name=n", "--kubeconfig", kubeconfig, "--state-dir", state, "--ota-bind-address", thief, "--ota-socket", socket,
		"--log-dir=", "--host-root", filepath.Join(directory, "host"))
	check(t, running.Start())
	t.Cleanup(func() {
		_ = running.Process.Signal(os.Interrupt)
		if err := running.Wait(); err != nil {
			t.Errorf("the agent: %v", err)
		}
	})

	probe := shippedProbe(t)
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, patience, true, func(context.Context) (bool, error) {
		return exec.Command(agent, append(probe, "--socket", socket)...).Run() == nil, nil
	})
	if err != nil {
		t.Fatal("the shipped liveness probe does not pass")
	}
	if output, err := exec.Command(agent, "ota", "status", "--socket", socket).CombinedOutput(); err != nil || !strings.Contains(string(output), "Another process listens on "+thief) {
		t.Errorf("%v: %s", err, output)
	}
	output, err := exec.Command(agent, "ota", "status", "--address", "http://"+thief, "--token-file", filepath.Join(state, "ota-token")).CombinedOutput()
	if err == nil || !strings.Contains(string(output), "is not the node agent") || len(shown()) > 0 {
		t.Errorf("the thief was shown %q; %v: %s", shown(), err, output)
	}
}

// occupy listens on a port as any process can, and returns what it is shown.
func occupy(t *testing.T) (address string, shown func() []string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	var mu sync.Mutex
	var secrets []string
	server := &http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		secrets = append(secrets, r.Header.Values("Authorization")...)
	})}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		_ = server.Close()
		<-served
	})
	return listener.Addr().String(), func() []string {
		mu.Lock()
		defer mu.Unlock()
		return secrets
	}
}

// shippedProbe returns the arguments of the liveness probe of the node agent.
func shippedProbe(t *testing.T) []string {
	t.Helper()
	file, err := os.ReadFile("../../config/node-agent/daemonset.yaml")
	check(t, err)
	ds := &appsv1.DaemonSet{}
	check(t, yaml.UnmarshalStrict(file, ds))
	container := ds.Spec.Template.Spec.Containers[0]
	probe := container.LivenessProbe
	if probe == nil || probe.Exec == nil || probe.Exec.Command[0] != container.Command[0] {
		t.Fatalf("the liveness probe asks someone else: %+v", probe)
	}
	return probe.Exec.Command[1:]
}
