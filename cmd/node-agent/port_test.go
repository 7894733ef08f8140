package main

import (
	"context"
	"crypto/rand"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/topsops/gcu-operator/pkg/ota/proof"
)

// thief listens on the port of an agent and keeps the tokens that it is shown.
type thief struct {
	relay  string // challenges are relayed to this address
	mu     sync.Mutex
	tokens []string
}

func (th *thief) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if shown := r.Header.Get("Authorization"); shown != "" {
		th.mu.Lock()
		th.tokens = append(th.tokens, shown)
		th.mu.Unlock()
	}
	if th.relay == "" {
		return
	}
	forwarded, err := http.NewRequest(r.Method, "http://"+th.relay+r.URL.Path, nil)
	if err != nil {
		return
	}
	forwarded.Header = r.Header
	if response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(forwarded); err == nil {
		_ = response.Body.Close()
		w.Header().Set(proof.Header, response.Header.Get(proof.Header))
	}
}

// steal serves a thief and returns its address.
func (th *thief) steal(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: th}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		_ = server.Close()
		<-served
	})
	return listener.Addr().String()
}

// startAgent runs the agent with its socket in a directory until the test ends.
func startAgent(t *testing.T, directory, bind string) (log *buffer) {
	t.Helper()
	log = &buffer{}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, []string{"--node-name=node-a", "--kubeconfig=" + writeKubeconfig(t), "--state-dir=" + filepath.Join(directory, "state"), "--ota-bind-address=" + bind,
			"--ota-socket=" + filepath.Join(directory, "s"), "--log-dir=", "--log-format=json", "--host-root=" + filepath.Join(directory, "none")}, &buffer{}, log)
	}()
	t.Cleanup(func() {
		stop()
		if code := <-ended; code != exitOK {
			t.Errorf("exit code %d: %s", code, log.String())
		}
	})
	var answer buffer
	eventually(t, func() bool {
		return run(t.Context(), []string{"ota", "ping", "--socket", filepath.Join(directory, "s")}, &answer, &answer) == exitOK
	})
	return log
}

func eventually(t *testing.T, holds func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, 30*time.Second, true, func(context.Context) (bool, error) { return holds(), nil })
	if err != nil {
		t.Fatal(err)
	}
}

func shortDirectory(t *testing.T) string {
	t.Helper()
	directory, err := os.MkdirTemp("", "gcu-"+rand.Text()[:4])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(directory) })
	return directory
}

// TestAPortThatIsTakenStopsNothing: the socket serves, and the agent says so.
func TestAPortThatIsTakenStopsNothing(t *testing.T) {
	taken, directory := (&thief{}).steal(t), shortDirectory(t)
	log := startAgent(t, directory, taken)
	var stdout, stderr buffer
	code := run(t.Context(), []string{"ota", "status", "--socket", filepath.Join(directory, "s")}, &stdout, &stderr)
	if want := "Another process listens on " + taken; code != exitOK || !strings.Contains(stdout.String(), want) {
		t.Errorf("exit code %d, %s%s, want %q", code, stdout.String(), stderr.String(), want)
	}
	if !strings.Contains(log.String(), "Another process uses the address of the OTA endpoint") {
		t.Errorf("the log says nothing: %s", log.String())
	}
}

// TestTheTokenIsShownOnlyToTheAgent: neither to a process on its port, nor to one that passes
// what it is asked on to the agent.
func TestTheTokenIsShownOnlyToTheAgent(t *testing.T) {
	directory := shortDirectory(t)
	log := startAgent(t, directory, "127.0.0.1:0")
	_, after, _ := strings.Cut(log.String(), `"address":"`)
	agent, _, _ := strings.Cut(after, `"`)
	for name, tt := range map[string]struct {
		address string
		code    int
		says    string
	}{
		"the agent":                      {"http://" + agent, exitOK, ""},
		"the agent, in capitals":         {"HTTP://" + agent, exitOK, ""},
		"a thief":                        {"http://" + (&thief{}).steal(t), exitFailed, "is not the node agent"},
		"a thief, in capitals":           {"HTTP://" + (&thief{}).steal(t), exitFailed, "is not the node agent"},
		"a thief that asks the agent":    {"http://" + (&thief{relay: agent}).steal(t), exitFailed, "is not the node agent"},
		"an agent that does not listen":  {"http://127.0.0.1:1", exitFailed, "does not respond"},
		"an address that is no URL":      {agent, exitFailed, "is no URL of http or https"},
		"an address with another scheme": {"ftp://" + agent, exitFailed, "is no URL of http or https"},
	} {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr buffer
			code := run(t.Context(), []string{"ota", "status", "--address", tt.address, "--token-file", filepath.Join(directory, "state", tokenFileName)}, &stdout, &stderr)
			if code != tt.code || !strings.Contains(stderr.String(), tt.says) {
				t.Errorf("exit code %d, %s%s, want %d and %q", code, stdout.String(), stderr.String(), tt.code, tt.says)
			}
		})
	}
}

// TestAThiefSeesNoToken records what arrives.
func TestAThiefSeesNoToken(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	th := &thief{}
	var stdout, stderr buffer
	_ = run(t.Context(), []string{"ota", "upgrade", "--address", "http://" + th.steal(t), "--token-file", token}, &stdout, &stderr)
	th.mu.Lock()
	defer th.mu.Unlock()
	if len(th.tokens) > 0 {
		t.Errorf("it was shown %q", th.tokens)
	}
}
