package hostile

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"

	"github.com/topsops/gcu-operator/pkg/preview/inquiry"
	"github.com/topsops/gcu-operator/test/apiserver"
	"github.com/topsops/gcu-operator/test/freeport"
)

// TestMetricsAndProfilesRequireARight: any pod reaches the manager's port, and metrics name the
// workloads of a cluster; profiles hold memory of the manager, with Secrets in it.
func TestMetricsAndProfilesRequireARight(t *testing.T) {
	s := cluster(t)
	program := program(t, "manager")
	for _, address := range []string{":6060", "0.0.0.0:6060", "[::]:6060", "10.0.0.1:6060", "example.com:6060"} {
		output, err := exec.Command(program, "--kubeconfig=/does/not/exist", "--log-dir=", "--pprof-bind-address", address).CombinedOutput()
		if err == nil || !strings.Contains(string(output), "is not a loopback address") {
			t.Errorf("profiles on %s: %v: %s", address, err, output)
		}
	}
	tokenOf(t, s, "scraping", "gcu-metrics-reader")
	tokenOf(t, s, "scraping-nothing", "gcu-view")
	reader, nobody := tokenFor(t, s, "scraping", "gcu-api"), tokenFor(t, s, "scraping-nothing", "gcu-api")
	metrics, api := startIdleManager(t, s, program)
	path := "https://" + metrics + "/metrics"
	await(t, "the metrics are served", func() string { return answersWith(http.StatusOK, path, reader, publishedCA(t, s)) })
	ca := publishedCA(t, s)
	grs := "https://" + api + "/gum/v1/gr"
	await(t, "the REST API is served, with the same CA", func() string { return answersWith(http.StatusOK, grs, nobody, ca) })
	for what, attempt := range map[string]func() string{
		"a token without the right": func() string { return answersWith(http.StatusForbidden, path, nobody, ca) },
		"no token":                  func() string { return answersWith(http.StatusUnauthorized, path, "", ca) },
		"a token that is none":      func() string { return answersWith(http.StatusUnauthorized, path, "abc", ca) },
		"a token for another service": func() string {
			return answersWith(http.StatusUnauthorized, path, tokenFor(t, s, "scraping", "vault"), ca)
		},
		"a token for the API server": func() string { return answersWith(http.StatusUnauthorized, path, tokenFor(t, s, "scraping"), ca) },
		"the REST API, a token for another service": func() string {
			return answersWith(http.StatusUnauthorized, grs, tokenFor(t, s, "scraping-nothing", "vault"), ca)
		},
		"the REST API, a token for the API server": func() string {
			return answersWith(http.StatusUnauthorized, grs, tokenFor(t, s, "scraping-nothing"), ca)
		},
		"a connection that others can read": func() string { return answersWith(http.StatusBadRequest, "http://"+metrics+"/metrics", "", ca) },
		"profiles, next to the metrics": func() string {
			return answersWith(http.StatusNotFound, "https://"+metrics+"/debug/pprof/heap", reader, ca)
		},
		"another path, with the right to /metrics/": func() string { return answersWith(http.StatusNotFound, "https://"+metrics+"/", reader, ca) },
		"a server that cannot show a certificate":   func() string { return whoseCA(answersWith(http.StatusOK, path, reader, anotherCA(t))) },
		"a name that is not the manager's": func() string {
			return whoseCA(answersWith(http.StatusOK, strings.Replace(path, "127.0.0.1", "127.0.0.2", 1), reader, ca))
		},
	} {
		if wrong := attempt(); wrong != "" {
			t.Errorf("%s: %s", what, wrong)
		}
	}
}

// whoseCA returns what is wrong, "" if a client did not accept the certificate.
func whoseCA(answer string) string {
	if strings.Contains(answer, "x509: ") {
		return ""
	}
	return "the certificate is accepted: " + answer
}

// startIdleManager starts a manager with the rights of its ServiceAccount that waits for the lease, so
// that it changes nothing, and returns the addresses of its metrics and its REST API.
func startIdleManager(t *testing.T, s *apiserver.Server, program string) (metrics, api string) {
	t.Helper()
	check(t, s.Client(t, apiserver.Admin).Create(t.Context(), &coordinationv1.Lease{ObjectMeta: inOperators(inquiry.LeaseName), Spec: coordinationv1.LeaseSpec{
		HolderIdentity: ptr.To("another"), LeaseDurationSeconds: ptr.To(int32(3600)), AcquireTime: ptr.To(metav1.NowMicro()), RenewTime: ptr.To(metav1.NowMicro())}}))
	config, err := clientcmd.LoadFromFile(s.KubeconfigFile(t))
	check(t, err)
	for _, user := range config.AuthInfos {
		user.Impersonate = apiserver.Operator
	}
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	check(t, clientcmd.WriteToFile(*config, kubeconfig))
	metrics, err = freeport.Address()
	check(t, err)
	api, err = freeport.Address()
	check(t, err)
	manager := exec.Command(program, "--kubeconfig", kubeconfig, "--leader-elect", "--metrics-bind-address", wildcard(metrics), "--health-probe-bind-address=0",
		"--upgrade-api-bind-address", api, "--upgrade-api-log-dir=", "--log-dir=", "--api-audiences=gcu-api")
	var log strings.Builder
	manager.Stderr = &log
	check(t, manager.Start())
	t.Cleanup(func() {
		_ = manager.Process.Signal(os.Interrupt)
		if err := manager.Wait(); err != nil || t.Failed() || strings.Contains(log.String(), "No admission policy") {
			t.Errorf("the manager: %v: %s", err, log.String())
		}
	})
	return metrics, api
}

// wildcard returns the same port on all addresses.
func wildcard(address string) string { return strings.TrimPrefix(address, "127.0.0.1") }

// answersWith returns what is wrong, "" if a GET has a status; the server must have a certificate of a CA.
func answersWith(status int, url, token, ca string) string {
	request, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return err.Error()
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(ca))
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return err.Error()
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != status || (status == http.StatusOK) != (strings.Contains(string(body), "gcu_") || strings.Contains(string(body), `"Success"`)) {
		return fmt.Sprintf("%v: %d %.300s, want %d", err, response.StatusCode, body, status)
	}
	return ""
}

// await waits until wrong returns "".
func await(t *testing.T, what string, wrong func() string) {
	t.Helper()
	last := ""
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, patience, true, func(context.Context) (bool, error) {
		last = wrong()
		return last == "", nil
	})
	if err != nil {
		t.Fatalf("%s: %s", what, last)
	}
}
