package main

import (
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/ota/proof"
	"github.com/topsops/gcu-operator/pkg/ota/request"
	"github.com/topsops/gcu-operator/pkg/ota/response"
)

// agent simulates an agent: it returns the responses of a path in order, and then repeats
// the last one. A nil response closes the connection.
type agent struct {
	mu      sync.Mutex
	answers map[string][]any
	asked   []string
}

func (a *agent) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	path := r.Method + " " + r.URL.Path
	if local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
		w.Header().Set(proof.Header, proof.Of("secret", r.Header.Get(proof.ChallengeHeader), local.String()))
	}
	a.asked = append(a.asked, path+" "+r.Header.Get("Authorization")+r.Header.Get("Idempotency-Key"))
	answers := a.answers[path]
	if len(answers) == 0 {
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte("no such path\n"))
		return
	}
	if len(answers) > 1 {
		a.answers[path] = answers[1:]
	}
	switch v := answers[0].(type) {
	case nil:
		panic(http.ErrAbortHandler)
	case response.Problem:
		w.WriteHeader(v.Status)
	}
	_ = json.NewEncoder(w).Encode(answers[0])
}

// listen serves an agent on a socket.
func (a *agent) listen(t *testing.T) (socket string) {
	t.Helper()
	directory, err := os.MkdirTemp("", "gcu-ota-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(directory) })
	socket = filepath.Join(directory, "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: a}}
	server.Start()
	t.Cleanup(server.Close)
	return socket
}

func operationIn(state request.State, message string) response.Operation {
	return response.Operation{ID: "op-1", State: state, Message: message, Progress: response.Progress{Done: 1, Total: 2}, Requests: []response.Part{}}
}

// back returns an operation that brings a component back.
func back(state request.State) response.Operation {
	o := operationIn(state, "back")
	o.Rollback = true
	return o
}

func TestOTAOnTheCommandLine(t *testing.T) {
	outdated := true
	hold := &topsv1.NodeHold{Since: metav1.NewTime(time.Unix(1700000000, 0).UTC()), Message: "surgery"}
	status := response.Status{Node: "n", Connected: true, Hold: hold, Components: []response.Component{{
		Component: "driver", Strategy: "OTA", NeedUpgrade: &outdated, Running: response.Version{Revision: "r1", Version: "1.0"}, Available: &response.Version{Revision: "r2"},
		LastOperation: &response.LastOperation{ID: "op-0", State: request.Failed},
	}}}
	busy := response.Problem{Title: "OperationRunning", Status: 409, Detail: "Operation op-0 has not ended", Operation: "op-0"}
	running, done, failed := operationIn(request.Running, "evicting"), operationIn(request.Done, "2 components at the newest revision"), operationIn(request.Failed, "crash-loops")
	for name, test := range map[string]struct {
		args         []string
		answers      map[string][]any
		code         int
		stdout, says string
	}{
		"the status is a table": {[]string{"status"}, map[string][]any{"GET /v1/status": {status}}, 0,
			"COMPONENT   RUNNING   AVAILABLE   OUTDATED   STRATEGY   LAST OPERATION\ndriver      1.0       r2          yes        OTA        Failed (op-0)\n\nHeld since 2023-11-14T22:13:20Z: surgery\n", ""},
		"the status tells who else holds the node": {[]string{"status"}, map[string][]any{"GET /v1/status": {response.Status{AdministratorHold: &topsv1.NodeHold{Message: "audit"}, Connected: true}}}, 0,
			"COMPONENT   RUNNING   AVAILABLE   OUTDATED   STRATEGY   LAST OPERATION\n\nHeld by an administrator: audit\n", ""},
		"the status is JSON": {[]string{"status", "-o", "json"}, map[string][]any{"GET /v1/status": {status}}, 0, `{"node":"n","connected":true,`, ""},
		"what others wrote is plain, and forges neither line nor cell": {[]string{"status"}, map[string][]any{"GET /v1/status": {response.Status{Connected: true, Hold: &topsv1.NodeHold{Message: "a\x1b[2J\nHeld"},
			Components: []response.Component{{Component: "a\tb\nc", Running: response.Version{Version: "\u009b"}, Strategy: "OTA"}}}}}, 0,
			"COMPONENT   RUNNING   AVAILABLE   OUTDATED   STRATEGY   LAST OPERATION\na\\tb\\nc     \\u009b                           OTA        \n\nHeld: a\\u001b[2J\\nHeld\n", ""},
		"so is JSON": {[]string{"hold", "-o=json"}, map[string][]any{"POST /v1/hold": {response.Hold{Held: true, Offline: "\u009b\u202e"}}}, 0, `{"held":true,"offline":"\u009b\u202e"`, ""},
		"so are errors": {[]string{"upgrade"}, map[string][]any{"POST /v1/upgrade": {running}, "GET /v1/operations/op-1": {operationIn(request.Failed, "\x1b[2J\nFORGED")}}, exitNotDone,
			"op-1  Running  evicting\nop-1  Failed  \\u001b[2J\\nFORGED\n", `op-1: Failed: \u001b[2J\nFORGED`},
		"an upgrade is followed to its end": {[]string{"upgrade"}, map[string][]any{"POST /v1/upgrade": {operationIn(request.Waiting, "for room")}, "GET /v1/operations/op-1": {running, running, done}}, 0,
			"op-1  Waiting  for room\nop-1  Running  evicting\nop-1  Done  2 components at the newest revision\n", ""},
		"an agent that is gone for a moment is waited for": {[]string{"upgrade", "driver"}, map[string][]any{"POST /v1/components/driver/upgrade": {running}, "GET /v1/operations/op-1": {nil, nil, done}}, 0,
			"op-1  Running  evicting\nop-1  Done  2 components at the newest revision\n", "does not respond"},
		"an upgrade that fails is told by the exit code": {[]string{"upgrade"}, map[string][]any{"POST /v1/upgrade": {running}, "GET /v1/operations/op-1": {failed}}, exitNotDone,
			"op-1  Running  evicting\nop-1  Failed  crash-loops\n", "operation op-1: Failed: crash-loops"},
		"an upgrade that takes too long is told by the exit code": {[]string{"upgrade", "--timeout", "50ms"}, map[string][]any{"POST /v1/upgrade": {running}, "GET /v1/operations/op-1": {running}}, exitTimedOut, "op-1  Running  evicting\n", "has not ended"},
		"an order that is refused is one line":                    {[]string{"upgrade"}, map[string][]any{"POST /v1/upgrade": {busy}}, exitFailed, "", "node-agent: Operation op-0 has not ended (OperationRunning)\n"},
		"an order is not waited for":                              {[]string{"upgrade", "--no-wait"}, map[string][]any{"POST /v1/upgrade": {running}}, 0, "op-1  Running  evicting\n", ""},
		"the newest operation is watched":                         {[]string{"watch"}, map[string][]any{"GET /v1/operations": {response.Operations{Operations: []response.Operation{done}}}}, 0, "op-1  Done", ""},
		"an operation is watched by its id, as JSON":              {[]string{"watch", "op-1", "-o=json"}, map[string][]any{"GET /v1/operations/op-1": {running, done}}, 0, `{"id":"op-1","state":"Running"`, ""},
		"there may be nothing to watch":                           {[]string{"watch"}, map[string][]any{"GET /v1/operations": {response.Operations{}}}, exitFailed, "", "there is no operation"},
		"a hold":                                                  {[]string{"hold", "-m", "surgery"}, map[string][]any{"POST /v1/hold": {response.Hold{Held: true, Hold: hold}}}, 0, "This node is held: it is excluded from upgrades, and what is in flight continues\n", ""},
		"a hold of an administrator is told": {[]string{"release"}, map[string][]any{"POST /v1/release": {response.Hold{AdministratorHold: hold}}}, 0,
			"This node is not held; an administrator holds it since 2023-11-14T22:13:20Z: surgery\n", ""},
		"a release without a connection": {[]string{"release"}, map[string][]any{"POST /v1/release": {response.Hold{Offline: "queued"}}}, 0, "This node is not held; it is sent when", ""},
		"a rollback of what has started": {[]string{"rollback"}, map[string][]any{"POST /v1/rollback": {response.Problem{Title: "OperationRunning", Status: 409, Detail: "It has started"}}}, exitFailed, "", "It has started"},
		"one component goes back": {[]string{"rollback", "driver"}, map[string][]any{"POST /v1/components/driver/rollback": {back(request.Running)}, "GET /v1/operations/op-1": {back(request.Done)}}, 0,
			"op-1  Running  back\nop-1  Done  back\n", ""},
		"one that does not": {[]string{"rollback", "driver"}, map[string][]any{"POST /v1/components/driver/rollback": {back(request.Running)}, "GET /v1/operations/op-1": {back(request.Failed)}}, exitNotDone,
			"op-1  Running  back\nop-1  Failed", "operation op-1: Failed"},
		"a rollback in time": {[]string{"rollback"}, map[string][]any{"POST /v1/rollback": {operationIn(request.Waiting, "taken back")}, "GET /v1/operations/op-1": {operationIn(request.Withdrawn, "driver: in time")}}, 0,
			"op-1  Waiting  taken back\nop-1  Withdrawn  driver: in time\n", ""},
		"a rollback that is too late": {[]string{"rollback"}, map[string][]any{"POST /v1/rollback": {operationIn(request.Waiting, "taken back")}, "GET /v1/operations/op-1": {done}}, exitNotDone,
			"op-1  Waiting  taken back\nop-1  Done", "operation op-1: Done"},
		"an upgrade that somebody takes back": {[]string{"upgrade"}, map[string][]any{"POST /v1/upgrade": {running}, "GET /v1/operations/op-1": {operationIn(request.Withdrawn, "driver: taken back")}}, exitNotDone,
			"op-1  Running  evicting\nop-1  Withdrawn", "operation op-1: Withdrawn"},
		"an answer that is no problem":    {[]string{"status"}, nil, exitFailed, "", "no such path (404 Not Found)"},
		"an output that there is not":     {[]string{"status", "-o", "xml"}, nil, exitUsage, "", `--output "xml" is none of`},
		"a component too many":            {[]string{"upgrade", "a", "b"}, nil, exitUsage, "", "accepts at most 1 arg"},
		"a token file that is not there":  {[]string{"status", "--address=http://127.0.0.1:1", "--token-file=/none"}, nil, exitFailed, "", "reading --token-file"},
		"an agent that is not there":      {[]string{"status", "--address=http://127.0.0.1:1"}, nil, exitFailed, "", "the node agent does not respond"},
		"an authority that signs nothing": {[]string{"status", "--address=https://127.0.0.1:1", "--ca-file=/etc/hostname"}, nil, exitFailed, "", "holds no certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			a := &agent{answers: test.answers}
			var stdout, stderr buffer
			code := run(t.Context(), append([]string{"ota", "--socket=" + a.listen(t)}, test.args...), &stdout, &stderr)
			if code != test.code || !strings.HasPrefix(stdout.String(), test.stdout) || !strings.Contains(stderr.String(), test.says) {
				t.Errorf("exit code %d, stdout %q, stderr %q; want %d, %q, %q", code, stdout.String(), stderr.String(), test.code, test.stdout, test.says)
			}
		})
	}
}

func TestComponentsAndOperationsAreCompleted(t *testing.T) {
	a := &agent{answers: map[string][]any{
		"GET /v1/status":     {response.Status{Components: []response.Component{{Component: "driver", Namespace: "kube-system", DaemonSet: "enflame-driver"}}}},
		"GET /v1/operations": {response.Operations{Operations: []response.Operation{operationIn(request.Running, "")}}},
	}}
	socket := a.listen(t)
	for want, args := range map[string][]string{
		"driver\tkube-system/enflame-driver\n:4\n": {"upgrade", "--socket=" + socket, ""},
		"op-1\tRunning\n:4\n":                      {"watch", "--socket=" + socket, ""},
		":4\n":                                     {"upgrade", "--socket=" + socket, "driver", ""},
		":4":                                       {"watch", "--socket=/none", ""},
	} {
		var stdout, stderr buffer
		if code := run(t.Context(), append([]string{"__complete", "ota"}, args...), &stdout, &stderr); code != exitOK || !strings.HasPrefix(stdout.String(), want) {
			t.Errorf("%q is completed with %q, %d, want %q", args, stdout.String(), code, want)
		}
	}
}

func TestOTAShowsKeyAndToken(t *testing.T) {
	a := &agent{answers: map[string][]any{"POST /v1/upgrade": {operationIn(request.Done, "")}}}
	server := httptest.NewServer(a)
	defer server.Close()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr buffer
	if code := run(t.Context(), []string{"ota", "upgrade", "--idempotency-key=job-7", "--address", server.URL + "/", "--token-file", token}, &stdout, &stderr); code != exitOK {
		t.Fatalf("exit code %d: %s", code, stderr.String())
	}
	if len(a.asked) != 2 || a.asked[1] != "POST /v1/upgrade Bearer secretjob-7" {
		t.Errorf("asked %q", a.asked)
	}
}

func TestOnATerminalABarIsDrawnOverItself(t *testing.T) {
	var out buffer
	p := &printer{out: &out, terminal: true}
	p.news(operationIn(request.Running, "evicting"))
	p.news(operationIn(request.Done, "done"))
	p.end()
	const bar = "[███████████████···············] 1 of 2"
	if want := "op-1  Running  evicting\n" + bar + "\r\x1b[Kop-1  Done  done\n" + bar + "\r\x1b[K"; out.String() != want {
		t.Errorf("drawn is %q, want %q", out.String(), want)
	}
}
