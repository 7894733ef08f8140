package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/topsops/gcu-operator/pkg/hostagent/task"
	"github.com/topsops/gcu-operator/pkg/logging"
)

// nowhere points to a port without a listener.
const nowhere = `{"apiVersion":"v1","kind":"Config","current-context":"c",
"clusters":[{"name":"c","cluster":{"server":"http://127.0.0.1:1"}}],
"contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],"users":[{"name":"u","user":{}}]}`

func writeKubeconfig(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, []byte(nowhere), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// buffer is a bytes.Buffer that is safe for concurrent use.
type buffer struct {
	mu   sync.Mutex
	data bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.data.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.data.String()
}

func TestWrongFlagsEndEarlyWithOneLine(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	t.Setenv("NODE_NAME", "")
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	good := []string{"--node-name=node-a", "--kubeconfig=" + writeKubeconfig(t), "--state-dir=" + t.TempDir(), "--ota-bind-address=127.0.0.1:0", "--ota-socket=", "--log-dir="}
	for name, test := range map[string]struct {
		args []string
		code int
		says string
	}{
		"no node name":                   {nil, exitUsage, "--node-name is required"},
		"a bad node name":                {[]string{"--node-name=Node_A"}, exitUsage, "is not the name of a node"},
		"contract 100: a public address": {append(good, "--ota-bind-address=0.0.0.0:10267"), exitUsage, "is not a loopback address"},
		"no port":                        {append(good, "--ota-bind-address=127.0.0.1"), exitUsage, "is not ip:port"},
		"a public address without TLS":   {append(good, "--ota-bind-address=0.0.0.0:10267", "--ota-auth=token"), exitUsage, "any other needs --ota-auth=token"},
		"contract 100: a public address without authentication": {append(good, "--ota-bind-address=0.0.0.0:0", "--ota-auth=none", "--ota-tls-cert-file=c", "--ota-tls-key-file=k"), exitUsage, "is not a loopback address"},
		"a way to authenticate that there is not":               {append(good, "--ota-auth=basic"), exitUsage, `--ota-auth "basic" is none of token, none`},
		"a certificate without a key":                           {append(good, "--ota-tls-cert-file=c"), exitUsage, "give both or none"},
		"a certificate that is not there":                       {append(good, "--ota-tls-cert-file=/none/c", "--ota-tls-key-file=/none/k"), exitFailed, "reading --ota-tls-cert-file"},
		"a relative socket":                                     {append(good, "--ota-socket=ota.sock"), exitUsage, "is not an absolute path"},
		"a group that is no number":                             {append(good, "--ota-socket-group=docker"), exitUsage, "--ota-socket-group"},
		"a group below zero":                                    {append(good, "--ota-socket-group=-2"), exitUsage, "is not the number of a group"},
		"a token that is not secret":                            {append(good, "--ota-token-file="+file), exitFailed, "reading --ota-token-file"},
		"a socket where there is a file":                        {append(good, "--ota-socket="+file+"/ota.sock"), exitFailed, "listening on --ota-socket"},
		"a spread below zero":                                   {append(good, "--first-contact-spread=-1s"), exitUsage, "is negative"},
		"an empty state directory":                              {append(good, "--state-dir="), exitUsage, "--state-dir is empty"},
		"a relative host root":                                  {append(good, "--host-root=host"), exitUsage, `--host-root "host" is not an absolute path`},
		"an unknown runtime":                                    {append(good, "--container-runtime=podman"), exitUsage, "is none of auto, docker, containerd"},
		"an endpoint that is no path":                           {append(good, "--container-runtime-endpoint=tcp://1.2.3.4:5"), exitUsage, "--container-runtime-endpoint \"tcp://1.2.3.4:5\" is not a socket"},
		"a configuration that is no path":                       {append(good, "--containerd-config=config.toml"), exitUsage, `--containerd-config "config.toml" is not an absolute path`},
		"a unit that is no service":                             {append(good, "--containerd-unit=k0sworker"), exitUsage, "it ends with .service"},
		"an empty endpoint":                                     {append(good, "--docker-endpoint="), exitUsage, "--docker-endpoint \"\" is not a socket"},
		"a shell string":                                        {append(good, "--restart-command-docker=service docker restart"), exitUsage, "is not the absolute path of a program"},
		"a relative log directory":                              {append(good, "--log-dir=log"), exitUsage, `--log-dir "log" is not an absolute path`},
		"no truth value":                                        {append(good, "--restart-runtime=perhaps"), exitUsage, "--restart-runtime"},
		"an unknown log format":                                 {append(good, "--log-format=xml"), exitUsage, `--log-format "xml" is none of`},
		"a verbosity below zero":                                {append(good, "-v=-1"), exitUsage, "not between 0 and 10"},
		"an unknown flag":                                       {append(good, "--bogus"), exitUsage, "unknown flag: --bogus"},
		"an argument":                                           {append(good, "serve"), exitUsage, "unknown command"},
		"a kubeconfig that is absent":                           {append(good, "--kubeconfig="+file+"x"), exitFailed, "reading --kubeconfig"},
		"no kubeconfig outside a pod":                           {append(good, "--kubeconfig="), exitFailed, "name a file with --kubeconfig or KUBECONFIG"},
		"a state directory in a file":                           {append(good, "--state-dir="+file), exitFailed, "opening --state-dir"},
	} {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr buffer
			code := run(t.Context(), test.args, &stdout, &stderr)
			if text := stderr.String(); code != test.code || !strings.Contains(text, test.says) || strings.Count(text, "\n") != 1 {
				t.Errorf("exit code %d and %q, want %d and one line with %q", code, text, test.code, test.says)
			}
		})
	}
}

func TestTheAliasOfRestartRuntime(t *testing.T) {
	for _, test := range []struct {
		args []string
		want bool
	}{
		{nil, true},
		{[]string{"--restart-docker=false"}, false},
		{[]string{"--restart-docker"}, true},
		{[]string{"--restart-runtime=false"}, false},
		{[]string{"--restart-runtime=false", "--restart-docker=true"}, true},
		{[]string{"--restart-docker=true", "--restart-runtime=false"}, false},
	} {
		var o options
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		o.bindFlags(flags)
		if err := flags.Parse(test.args); err != nil || o.restartRuntime != test.want {
			t.Errorf("%q: restarts the runtime: %t, %v, want %t", test.args, o.restartRuntime, err, test.want)
		}
	}
}

func TestFlagsAboutTheHost(t *testing.T) {
	o := options{nodeName: "n", bindAddress: defaultBindAddress, auth: authToken, stateDir: "/s", hostRoot: "/host", runtime: "docker", log: logging.Options{Format: logging.JSON},
		containerdEndpoint: "unix:///run/k3s/containerd/containerd.sock", containerdConfig: "/data/k3s/config.toml", dockerEndpoint: "/run//docker.sock",
		restartContainerd: []string{"/usr/sbin/service", "containerd", "restart"}}
	got, err := o.validate()
	if err != nil {
		t.Fatal(err)
	}
	if got.engine != task.Docker || got.paths.ContainerdSocket != "run/k3s/containerd/containerd.sock" || got.paths.ContainerdConfig != "data/k3s/config.toml" || got.paths.DockerSocket != "run/docker.sock" {
		t.Errorf("engine %s, paths %+v", got.engine, got.paths)
	}
	if argv := got.commands[task.Containerd]; len(got.commands) != 1 || len(argv) != 3 {
		t.Errorf("commands %q", got.commands)
	}
}

func TestAnswersThatNeedNoFlags(t *testing.T) {
	t.Setenv("NODE_NAME", "")
	for says, args := range map[string][]string{
		"node-agent version dev": {"--version"},
		"--ota-bind-address":     {"--help"},
		"Examples:":              {"--help"},
		"complete":               {"completion", "bash"},
	} {
		var stdout, stderr buffer
		if code := run(t.Context(), args, &stdout, &stderr); code != exitOK || !strings.Contains(stdout.String(), says) {
			t.Errorf("%v: exit code %d, %q does not say %q", args, code, stdout.String(), says)
		}
	}
}

// logLine is one line of the JSON log.
type logLine struct {
	Message string `json:"msg"`
	Address string `json:"address"`
}

func TestAgentStartsWithoutServerLogsJSONAndStopsCleanly(t *testing.T) {
	t.Setenv("NODE_NAME", "node-a")
	ctx, terminate := context.WithCancel(t.Context())
	defer terminate()
	reader, writer := io.Pipe()
	ended := make(chan int, 1)
	var stdout buffer
	go func() {
		ended <- run(ctx, []string{"--kubeconfig=" + writeKubeconfig(t), "--state-dir=" + t.TempDir(), "--ota-bind-address=127.0.0.1:0", "--ota-auth=none", "--ota-socket=", "--log-dir=", "--host-root=" + filepath.Join(t.TempDir(), "none"), "-v=4"}, &stdout, writer)
		_ = writer.Close()
	}()

	var messages []string
	for lines := json.NewDecoder(reader); ; {
		var l logLine
		if err := lines.Decode(&l); err == io.EOF {
			break
		} else if err != nil {
			t.Fatalf("the log is not JSON after %q: %v", messages, err)
		}
		messages = append(messages, l.Message)
		if l.Address != "" {
			go func() {
				if status := post(t, l.Address); status != http.StatusServiceUnavailable {
					t.Errorf("POST without an API server: %d", status)
				}
				terminate()
			}()
		}
	}
	select {
	case code := <-ended:
		if code != exitOK {
			t.Errorf("exit code %d after the signal", code)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the agent did not stop")
	}
	if last := messages[len(messages)-1]; last != "Stopped" {
		t.Errorf("the last line is %q of %q", last, messages)
	}
	if stdout.String() != "" {
		t.Errorf("stdout says %q", stdout.String())
	}
}

func post(t *testing.T, address string) int {
	response, err := http.Post("http://"+address+"/openyurt.io/v1/namespaces/a/pods/b/upgrade", "", nil)
	if err != nil {
		t.Errorf("POST: %v", err)
		return 0
	}
	_ = response.Body.Close()
	return response.StatusCode
}
