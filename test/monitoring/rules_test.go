package monitoring

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const rulesFile = "../../config/monitoring/rules.yaml"

// annotations are the texts of an alert: its tests are about when it fires.
var annotations = regexp.MustCompile(`(?m)^        annotations:\n(          .*\n)+`)

// TestAlerts checks the rules with promtool: each alert fires on the series on which it must, and on
// no other.
func TestAlerts(t *testing.T) {
	promtool, err := Program("promtool")
	if err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) {
		t.Helper()
		if output, err := exec.CommandContext(t.Context(), promtool, args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, output)
		}
	}
	run("check", "rules", "--lint=all", "--lint-fatal", rulesFile)
	folder := t.TempDir()
	write(t, filepath.Join(folder, "rules.yaml"), annotations.ReplaceAllString(read(t, rulesFile), ""))
	for _, name := range []string{"alerts.yaml", "alerts-of-days.yaml"} {
		write(t, filepath.Join(folder, name), read(t, filepath.Join("testdata", name)))
		run("test", "rules", filepath.Join(folder, name))
	}
}

// TestEveryAlertIsTested: promtool does not miss an alert that no test names.
func TestEveryAlertIsTested(t *testing.T) {
	rules, tests := read(t, rulesFile), read(t, "testdata/alerts.yaml")+read(t, "testdata/alerts-of-days.yaml")
	alerts := 0
	for line := range strings.Lines(rules) {
		name, ok := strings.CutPrefix(strings.TrimSpace(line), "- alert: ")
		if !ok {
			continue
		}
		alerts++
		if n := strings.Count(tests, "alertname: "+name+"\n"); n < 2 {
			t.Errorf("%s is tested %d times, want once where it fires and once where it does not", name, n)
		}
		if !strings.Contains(rules, "alerts.md#"+strings.ToLower(name)+"\n") {
			t.Errorf("%s has no runbook_url of its own", name)
		}
	}
	if alerts < 15 {
		t.Errorf("found %d alerts", alerts)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
