package hostile

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/yaml"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/logging"
	"github.com/topsops/gcu-operator/pkg/upgradeapi"
	"github.com/topsops/gcu-operator/test/apiserver"
)

// nasty clears a terminal, names its window, overwrites a line, changes color and direction of
// writing, and forges a row; words are what can be read of it.
const nasty = "first\x1b[2J\x1b]0;owned\x07\x7f\r\u009b31m\x1b[31m\u202etxt\nFORGED\t9/9   last"

var words = []string{"first", "owned", "last"}

// TestControlCharactersReachNoTerminal: what an agent or a user wrote, as people see it.
func TestControlCharactersReachNoTerminal(t *testing.T) {
	s := cluster(t)
	storeNasty(t, s)
	t.Run("kubectl gcu", func(t *testing.T) { pluginIsPlain(t, s) })
	t.Run("kubectl gcu dashboard", func(t *testing.T) { pageIsPlain(t, s) })
	t.Run("REST API", func(t *testing.T) {
		api := upgradeapi.New(upgradeapi.Options{Client: s.Client(t, apiserver.Operator), Namespace: apiserver.Namespace, Log: logr.Discard(), Clock: clock.RealClock{}})
		for _, path := range []string{"/gum/v1/gr", "/gum/v1/gr/nasty"} {
			w := httptest.NewRecorder()
			api.Handler().ServeHTTP(w, httptest.NewRequest("GET", path, nil))
			isPlain(t, w.Body.String())
			holdsNasty(t, w.Body.Bytes(), json.Unmarshal)
		}
	})
	for _, format := range []string{logging.JSON, logging.Console} {
		t.Run("log in "+format, func(t *testing.T) {
			var out bytes.Buffer
			logging.New(&out, logging.Options{Format: format}).WithName(nasty).Info(nasty, "value", nasty, nasty, 1)
			isPlain(t, out.String())
			if strings.Count(out.String(), "\n") != 1 {
				t.Errorf("one entry is several lines: %q", out.String())
			}
		})
	}
}

func pluginIsPlain(t *testing.T, s *apiserver.Server) {
	program := program(t, "kubectl-gcu")
	kubeconfig, cache := s.KubeconfigFile(t), t.TempDir()
	for _, line := range []string{"status nasty", "status nasty -o wide", "status nasty -o json", "status nasty -o yaml", "version", "version -o json", "version -o yaml",
		"status nasty --watch", "release nasty"} {
		t.Run(line, func(t *testing.T) {
			args := append(strings.Fields(line), "--kubeconfig", kubeconfig, "--cache-dir", cache, "--namespace", apiserver.Namespace)
			var stdout, stderr bytes.Buffer
			command := exec.Command(program, args...)
			command.Stdout, command.Stderr = &stdout, &stderr
			err := command.Run() // some fail: what they print is what counts
			shown := stdout.String() + stderr.String()
			t.Logf("%v: %s", err, shown)
			isPlain(t, shown)
			switch {
			case strings.HasSuffix(line, "json"):
				holdsNasty(t, stdout.Bytes(), json.Unmarshal)
			case strings.HasSuffix(line, "yaml"):
				holdsNasty(t, stdout.Bytes(), func(data []byte, v any) error { return yaml.Unmarshal(data, v) })
			default:
				forgesNothing(t, shown)
			}
		})
	}
}

// sentPage returns the first page among the events that a page is sent.
func sentPage(t *testing.T, lines *bufio.Reader) (page string) {
	t.Helper()
	for name := ""; name != "page"; {
		line, err := lines.ReadString('\n')
		check(t, err)
		if name = strings.TrimSpace(strings.TrimPrefix(line, "event: ")); name == "page" {
			data, err := lines.ReadString('\n')
			check(t, err)
			check(t, json.Unmarshal([]byte(strings.TrimPrefix(data, "data: ")), &page))
		}
	}
	return page
}

// pageIsPlain reads the page of the dashboard, and what it is sent when something changes.
func pageIsPlain(t *testing.T, s *apiserver.Server) {
	command := exec.CommandContext(t.Context(), program(t, "kubectl-gcu"), "dashboard", "--kubeconfig", s.KubeconfigFile(t), "--cache-dir", t.TempDir(), "--namespace", apiserver.Namespace)
	out, err := command.StdoutPipe()
	check(t, err)
	check(t, command.Start())
	t.Cleanup(func() {
		check(t, command.Process.Kill())
		_ = command.Wait() // it was killed
	})
	address, err := bufio.NewReader(out).ReadString('\n')
	check(t, err)
	jar, err := cookiejar.New(nil)
	check(t, err)
	browser := &http.Client{Jar: jar}
	get := func(url string) string {
		response, err := browser.Get(url)
		check(t, err)
		defer func() { _ = response.Body.Close() }()
		if strings.HasSuffix(url, "/events") {
			return sentPage(t, bufio.NewReader(response.Body))
		}
		page, err := io.ReadAll(response.Body)
		check(t, err)
		return string(page)
	}
	site, _, _ := strings.Cut(address, "/?token=")
	for _, url := range []string{strings.TrimSpace(address), site + "/events"} {
		page := get(url)
		for end := time.Now().Add(patience); !strings.Contains(page, words[0]) && time.Now().Before(end); page = get(url) {
			time.Sleep(50 * time.Millisecond) // the cluster is not read yet
		}
		isPlain(t, page)
		for _, word := range words {
			if !strings.Contains(page, word) {
				t.Errorf("%s cannot be read: %q", word, page)
			}
		}
	}
}

// storeNasty stores the text wherever an agent, a user or the manager, which repeats what an agent
// reports, may write it.
func storeNasty(t *testing.T, s *apiserver.Server) {
	t.Helper()
	admin := s.Client(t, apiserver.Admin)
	ctx, name := t.Context(), metav1.ObjectMeta{Name: "nasty"}
	addNode(t, s, "nasty")
	check(t, write(t, agentOf(t, s, "nasty"), "nasty", object{"agent": object{"version": nasty, "hold": object{"since": someTime, "message": nasty}}}))
	gr := &topsv1.GcuResource{ObjectMeta: name}
	gr.Annotations = map[string]string{topsv1.AnnotationUpdateStrategy: "AdvancedRollingUpdate", topsv1.AnnotationUpgradePolicy: nasty}
	check(t, admin.Create(ctx, gr))
	gr.Status = topsv1.GcuResourceStatus{ObservedGeneration: 1, Phase: topsv1.PhaseFailed, ReadyResource: "0/1",
		ResourceStatuses: []topsv1.ResourceStatus{{Name: "driver", Namespace: "kube-system", Status: topsv1.PhaseFailed, Message: nasty}}}
	check(t, admin.Status().Update(ctx, gr))
	dro := &topsv1.DaemonRollout{ObjectMeta: metav1.ObjectMeta{Namespace: apiserver.Namespace, Name: "nasty"},
		Spec: topsv1.DaemonRolloutSpec{TargetRef: topsv1.TargetRef{Kind: topsv1.GcuResourceKind, Name: "nasty"}}}
	check(t, admin.Create(ctx, dro))
	now := metav1.Now()
	dro.Status = topsv1.DaemonRolloutStatus{Strategy: "AdvancedRollingUpdate", Total: 2, FailedNodes: 1, Pending: 1, Revision: "r",
		Failed:   []topsv1.NodeNote{{Node: "nasty", Reason: "VerifyFailed", Message: nasty, Since: now}},
		Waiting:  []topsv1.WaitingNote{{Nodes: 1, Reason: "NodeHeld", Message: nasty}},
		Rollback: &topsv1.RolloutRollback{From: "a", To: "b", Message: nasty, Time: now},
		Conditions: []metav1.Condition{{Type: topsv1.RolloutHalted, Status: metav1.ConditionTrue, Reason: "Halted", Message: nasty,
			LastTransitionTime: now}}}
	check(t, admin.Status().Update(ctx, dro))
}

// isPlain fails the test if a text has control characters other than those of lines of text.
func isPlain(t *testing.T, text string) {
	t.Helper()
	for _, r := range text {
		if unicode.In(r, unicode.Cc, unicode.Bidi_Control) && r != '\n' && r != '\t' {
			t.Errorf("it has %U: %q", r, text)
			return
		}
	}
}

// forgesNothing fails the test if the text begins a line or a cell of its own, or cannot be read.
func forgesNothing(t *testing.T, text string) {
	t.Helper()
	for _, word := range words {
		if !strings.Contains(text, word) {
			t.Errorf("%s cannot be read: %q", word, text)
		}
	}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimSpace(line), "FORGED") || strings.Contains(line, "\t") {
			t.Errorf("the line is forged: %q", line)
		}
	}
}

// holdsNasty fails the test unless a document has the text as it is stored.
func holdsNasty(t *testing.T, data []byte, decode func([]byte, any) error) {
	t.Helper()
	var document any
	if err := decode(data, &document); err != nil {
		t.Fatalf("%v: %q", err, data)
	}
	if !holds(document) {
		t.Errorf("the document does not hold the text: %s", data)
	}
}

func holds(v any) bool {
	switch v := v.(type) {
	case string:
		return v == nasty
	case object:
		for key, value := range v {
			if key == nasty || holds(value) {
				return true
			}
		}
	case []any:
		for _, value := range v {
			if holds(value) {
				return true
			}
		}
	}
	return false
}
