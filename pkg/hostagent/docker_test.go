package hostagent

import (
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/topsops/gcu-operator/pkg/hostagent/task"
)

// dockerOf serves the API of a docker that has containers, on the socket of a host.
func dockerOf(t *testing.T, containers ...map[string]any) (hostRoot string) {
	t.Helper()
	hostRoot, err := os.MkdirTemp("", "docker") // the path of a socket has at most 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(hostRoot, "run"), 0o700); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("unix", filepath.Join(hostRoot, "run/docker.sock"))
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var answer any = map[string]any{"ServerVersion": "28.0.0", "DefaultRuntime": "runc"}
		switch path := r.URL.Path; {
		case path == "/_ping":
			w.Header().Set("Api-Version", "1.48")
		case strings.HasSuffix(path, "/containers/json"):
			answer = labeled(t, containers, r.URL.Query().Get("filters"))
		case !strings.HasSuffix(path, "/info"):
			t.Errorf("docker is asked for %s", path)
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Error(err)
		}
	})}
	ended := make(chan error)
	go func() { ended <- server.Serve(listener) }()
	t.Cleanup(func() {
		if err := errors.Join(server.Close(), os.RemoveAll(hostRoot)); err != nil {
			t.Error(err)
		}
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return hostRoot
}

// labeled returns the containers that have the only label of filters, as docker does.
func labeled(t *testing.T, containers []map[string]any, filters string) []map[string]any {
	var asked struct{ Label map[string]bool }
	if err := json.Unmarshal([]byte(filters), &asked); err != nil || len(asked.Label) != 1 {
		t.Errorf("docker is asked for containers with %q: %v", filters, err)
	}
	found := []map[string]any{}
	for _, c := range containers {
		for key, value := range c["Labels"].(map[string]string) {
			if asked.Label[key+"="+value] {
				found = append(found, c)
			}
		}
	}
	return found
}

// Nothing else is on the host, so docker may be beside a containerd that restarts.
func TestDockerIsTheEngineIfItRunsTheAgent(t *testing.T) {
	const uid, another = "0b0e1d2c-3f4a-4b5c-8d6e-7f8091a2b3c4", "1b0e1d2c-3f4a-4b5c-8d6e-7f8091a2b3c4"
	container := func(state, of, kind string) map[string]any {
		return map[string]any{"Id": "1", "State": state, "Labels": map[string]string{podUIDLabel: of, "io.kubernetes.docker.type": kind}}
	}
	for name, tc := range map[string]struct {
		containers []map[string]any
		podUID     string
		want       task.Engine
	}{
		"it runs the agent":                      {[]map[string]any{container("running", uid, "podsandbox"), container("running", uid, "container")}, uid, task.Docker},
		"it runs another pod":                    {[]map[string]any{container("running", another, "container")}, uid, ""},
		"it runs no pod":                         {nil, uid, ""},
		"the container of the agent has ended":   {[]map[string]any{container("exited", uid, "container")}, uid, ""},
		"it has the sandbox of the agent's pod":  {[]map[string]any{container("running", uid, "podsandbox")}, uid, ""},
		"the agent is in no pod, as on a laptop": {nil, "", task.Docker},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			h, _ := servicesOf(Options{HostRoot: dockerOf(t, tc.containers...), PodUID: tc.podUID}.withDefaults())
			got, err := h.detect(t.Context(), task.Auto)
			if diff := cmp.Diff(tc.want, got); diff != "" || (err == nil) != (tc.want != "") {
				t.Errorf("%v, engine (-want +got):\n%s", err, diff)
			}
		})
	}
}
