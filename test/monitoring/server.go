package monitoring

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"

	"github.com/topsops/gcu-operator/test/freeport"
)

// Server is a running Prometheus, which evaluates rules every second and forgets what it saw when its
// test ends.
type Server struct {
	url, targets string
}

// waits are how long conditions of alerts must hold: a test does not wait that long.
var waits = regexp.MustCompile(`(?m)^        for: .*$`)

const config = `global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [rules.yaml]
scrape_configs:
  - job_name: gcu-operator
    file_sd_configs: [{files: [targets.json], refresh_interval: 1s}]
`

// Start starts a Prometheus with a rules file. It scrapes nothing until Scrape.
func Start(t *testing.T, rules string) *Server {
	t.Helper()
	program, err := Program("prometheus")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(rules)
	if err != nil {
		t.Fatal(err)
	}
	address, err := freeport.Address()
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	s := &Server{url: "http://" + address, targets: filepath.Join(folder, "targets.json")}
	err = errors.Join(os.WriteFile(filepath.Join(folder, "rules.yaml"), waits.ReplaceAll(text, []byte("        for: 0s")), 0o600),
		os.WriteFile(filepath.Join(folder, "prometheus.yaml"), []byte(config), 0o600), s.Scrape())
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(folder, "log"))
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(program, "--config.file="+filepath.Join(folder, "prometheus.yaml"), "--storage.tsdb.path="+filepath.Join(folder, "data"),
		"--web.listen-address="+address)
	command.Stdout, command.Stderr = log, log
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill() // it has nothing to save
		_ = command.Wait()
		_ = log.Close()
		if text, err := os.ReadFile(log.Name()); err == nil && t.Failed() {
			t.Logf("Prometheus:\n%s", text)
		}
	})
	return s
}

// Scrape makes it scrape these addresses, host:port, and no others.
func (s *Server) Scrape(addresses ...string) error {
	text, err := json.Marshal([]map[string][]string{{"targets": append([]string{}, addresses...)}})
	if err != nil {
		return err
	}
	return os.WriteFile(s.targets, text, 0o600)
}

// Alert is an alert that fires.
type Alert struct {
	Labels, Annotations map[string]string
	State               string
}

// Alerts returns what fires now.
func (s *Server) Alerts() ([]Alert, error) {
	var data struct{ Alerts []Alert }
	return data.Alerts, s.get("/api/v1/alerts", &data)
}

// Query returns how many series with a value an expression has now: NaN is none.
func (s *Server) Query(expr string) (n int, err error) {
	var data struct{ Result []struct{ Value [2]any } }
	err = s.get("/api/v1/query?query="+url.QueryEscape(expr), &data)
	for _, series := range data.Result {
		if series.Value[1] != "NaN" {
			n++
		}
	}
	return n, err
}

func (s *Server) get(path string, data any) error {
	response, err := http.Get(s.url + path)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }() // read-only
	answer := struct {
		Error string
		Data  any
	}{Data: data}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return fmt.Errorf("reading %s: %w", path, err)
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s: %s", path, response.Status, answer.Error)
	}
	return nil
}
