package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/topsops/gcu-operator/test/apiserver"
)

// freeAddress returns a loopback address that nobody listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// get returns the status of an answer and its body, 0 when there is none.
func get(t *testing.T, url string) (int, string) {
	t.Helper()
	response, err := http.Get(url)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

func TestTheManagerServesTheRESTAPI(t *testing.T) {
	server := apiserver.StartBare(t)
	occupied := filepath.Join(t.TempDir(), "op-log") // a file is in the place of the directory
	if err := os.WriteFile(occupied, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	probes, api := freeAddress(t), freeAddress(t)
	flags := []string{"--kubeconfig", server.KubeconfigFile(t), "--metrics-bind-address=0", "--health-probe-bind-address", probes, "--log-dir=",
		"--upgrade-api-bind-address", api, "--upgrade-api-auth=none", "--upgrade-api-log-dir", occupied}
	readiness := func(want int) func() string {
		return func() string {
			if status, body := get(t, "http://"+probes+"/readyz?verbose"); status != want {
				return fmt.Sprintf("/readyz is answered with %d, want %d: %s", status, want, body)
			}
			return ""
		}
	}
	crds := []string{apiserver.CRDs}

	t.Run("contract 77: without the CRDs the manager does not get ready, and says what to do", func(t *testing.T) {
		manager := startManager(t, flags...)
		for ended := false; !ended; {
			select {
			case err := <-manager.ended:
				ended = true
				if err == nil || !strings.Contains(manager.stderr.String(), "install the CRDs first") {
					t.Errorf("it ended with %v: %s", err, manager.stderr)
				}
			default:
				if readiness(http.StatusOK)() == "" {
					t.Fatal("it is ready")
				}
			}
		}
	})
	if _, err := envtest.InstallCRDs(server.Config, envtest.CRDInstallOptions{Paths: crds}); err != nil {
		t.Fatal(err)
	}
	manager := startManager(t, flags...)
	t.Run("contract 61 and 78: it serves, though its log cannot be written", func(t *testing.T) {
		eventually(t, readiness(http.StatusOK))
		if status, body := get(t, "http://"+api+"/gum/v1/gr"); status != http.StatusOK || !strings.Contains(body, `"result": "Success"`) {
			t.Errorf("%d %s", status, body)
		}
	})
	t.Run("contract 77: it is not ready any more when the CRDs are gone", func(t *testing.T) {
		if err := envtest.UninstallCRDs(server.Config, envtest.CRDInstallOptions{Paths: crds}); err != nil {
			t.Fatal(err)
		}
		eventually(t, readiness(http.StatusInternalServerError))
	})
	if err := manager.terminate(t); err != nil {
		t.Errorf("the manager ended with %v", err)
	}
	for text, want := range map[string]int{`"msg":"Cannot write the log file, going on without it"`: 1, `"msg":"The REST API asks nobody who they are`: 1, `"msg":"Answering request"`: 1} {
		if n := strings.Count(manager.stderr.String(), text); n != want {
			t.Errorf("standard error has %d lines with %s, want %d: %s", n, text, want, manager.stderr)
		}
	}
}
