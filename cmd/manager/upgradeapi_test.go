package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/topsops/gcu-operator/test/apiserver"
	"github.com/topsops/gcu-operator/test/freeport"
)

// freeAddress returns an unused loopback address.
func freeAddress(t *testing.T) string {
	t.Helper()
	address, err := freeport.Address()
	if err != nil {
		t.Fatal(err)
	}
	return address
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// get returns status and body of a response, 0 if there is none.
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
	server := apiserver.Shared(t)
	check(t, server.RemoveCRDs(t.Context()))
	t.Cleanup(func() { check(t, server.InstallCRDs()) }) // for later tests
	occupied := filepath.Join(t.TempDir(), "op-log")     // a file at the path of the directory
	check(t, os.WriteFile(occupied, nil, 0o600))
	probes, api, profiles := freeAddress(t), freeAddress(t), freeAddress(t)
	flags := []string{"--kubeconfig", server.KubeconfigFile(t), "--metrics-bind-address=0", "--health-probe-bind-address", probes, "--log-dir=",
		"--upgrade-api-bind-address", api, "--upgrade-api-auth=none", "--upgrade-api-log-dir", occupied, "--pprof-bind-address", profiles, "--upgrade-api-hosts=node-1.example"}
	readiness := func(want int) func() string {
		return func() string {
			if status, body := get(t, "http://"+probes+"/readyz?verbose"); status != want {
				return fmt.Sprintf("/readyz is answered with %d, want %d: %s", status, want, body)
			}
			return ""
		}
	}

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
	check(t, server.InstallCRDs())
	check(t, server.InstallAnonymous())
	manager := startManager(t, flags...)
	t.Run("contract 61 and 78: it serves, though its log cannot be written", func(t *testing.T) {
		eventually(t, readiness(http.StatusOK))
		if status, body := get(t, "http://"+api+"/gum/v1/gr"); status != http.StatusOK || !strings.Contains(body, `"result": "Success"`) {
			t.Errorf("%d %s", status, body)
		}
	})
	t.Run("it is called by names of its own, and by those of the flag", func(t *testing.T) {
		for host, want := range map[string]int{"gcu-upgrade-manager.kube-system.svc:32765": http.StatusOK, "node-1.example:32765": http.StatusOK, "evil.example": http.StatusMisdirectedRequest} {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+api+"/gum/v1/gr", nil)
			check(t, err)
			request.Host = host
			response, err := http.DefaultClient.Do(request)
			check(t, err)
			if _ = response.Body.Close(); response.StatusCode != want {
				t.Errorf("with Host %s: %d, want %d", host, response.StatusCode, want)
			}
		}
	})
	t.Run("profiles are served on request", func(t *testing.T) {
		eventually(t, func() string {
			if status, body := get(t, "http://"+profiles+"/debug/pprof/heap"); status != http.StatusOK {
				return fmt.Sprintf("%d %s", status, body)
			}
			return ""
		})
	})
	t.Run("contract 77: it is not ready any more when the CRDs are gone", func(t *testing.T) {
		check(t, server.RemoveCRDs(t.Context()))
		eventually(t, readiness(http.StatusInternalServerError))
	})
	if err := manager.terminate(t); err != nil {
		t.Errorf("the manager ended with %v", err)
	}
	for text, want := range map[string]int{`"msg":"Cannot write the log file, continuing without it"`: 1, `"msg":"The REST API does not authenticate requests`: 1, `"msg":"Answering request"`: 4} {
		if n := strings.Count(manager.stderr.String(), text); n != want {
			t.Errorf("standard error has %d lines with %s, want %d: %s", n, text, want, manager.stderr)
		}
	}
}
