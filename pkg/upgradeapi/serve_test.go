package upgradeapi

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/logging"
	"github.com/topsops/gcu-operator/pkg/upgradeapi/recreation"
	"github.com/topsops/gcu-operator/pkg/upgradeapi/request"
)

func TestContractLog(t *testing.T) {
	d := newTestServer(t)
	d.create("told")
	d.file("gr.json", blueprint("told", "2"))
	t.Run("contract 78: each request is one line with its body, and has an id", func(t *testing.T) {
		got := d.send(http.MethodPut, "/gum/v1/gr/told", `{"file": "gr.json"}`, "X-Request-Id", "ticket-17", "User-Agent", "curl/7.47.0")
		if got.header.Get("X-Request-Id") != "ticket-17" {
			t.Errorf("the id is %q", got.header.Get("X-Request-Id"))
		}
		line := regexp.MustCompile(`(?m)^\d{4}/\d\d/\d\d \d\d:\d\d:\d\d INFO upgradeapi/serve\.go:\d+ Answering request requestID=ticket-17 operation=Upgrade method=PUT path=/gum/v1/gr/told ` +
			`body="\{\\"file\\": \\"gr\.json\\"\}" user="" remote=127\.0\.0\.1 userAgent=curl/7\.47\.0 status=200 duration=\S+$`)
		if n := len(line.FindAllString(d.logged(), -1)); n != 1 {
			t.Errorf("%d lines like the one wanted:\n%s", n, d.logged())
		}
	})
	t.Run("contract 78: what was done is told with the id too", func(t *testing.T) {
		if want := "Replacing the spec of GcuResource gcuResource(name:told, uuid:\"\") requestID=ticket-17"; !strings.Contains(d.logged(), want) {
			t.Errorf("no %q:\n%s", want, d.logged())
		}
	})
	t.Run("a failure is told, an id that is none is replaced, a secret is not written", func(t *testing.T) {
		got := d.send(http.MethodPut, "/gum/v1/gr/absent", `{"spec": {"driver": {"env": [{"name": "A", "value": "hunter2"}]}}}`, "X-Request-Id", "a b")
		if id := got.header.Get("X-Request-Id"); id == "a b" || !requestID.MatchString(id) || !strings.Contains(d.logged(), "requestID="+id) {
			t.Errorf("the id is %q", id)
		}
		if text := d.logged(); strings.Contains(text, "hunter2") || !strings.Contains(text, `body="{\"spec\":\"…\"}"`) || !strings.Contains(text, `failure="gcuresources.topsops.enflame.com \"absent\" not found"`) {
			t.Errorf("got %s", text)
		}
	})
}

// Callers' input stays on one line of the log, and is shortened.
func TestCallersCannotForgeLogLines(t *testing.T) {
	d := newTestServer(t)
	const forged = "2022/10/20 03:33:48 INFO upgradeapi/serve.go:1 Answering request user=admin"
	d.send(http.MethodGet, "/gum/v1/gr/a%0A"+strings.ReplaceAll(forged, " ", "%20"), "", "User-Agent", "x\t"+forged)
	d.send(http.MethodPut, "/gum/v1/gr/b", `{"file": "a`+"\n"+forged+`"}`, "X-Request-Id", "c "+forged)
	d.raw("GET /gum/v1/gr/d HTTP/1.1\r\nHost: a\r\nX-Request-Id: \xc2\x85e\r\nUser-Agent: \xe2\x80\xa8\xff\t\r\n\r\n", 1)
	d.send(http.MethodGet, "/gum/v1/gr/"+strings.Repeat("f", 10000), "", "User-Agent", strings.Repeat("g", 4000))
	var lines []string
	for line := range strings.Lines(d.logged()) {
		if strings.Contains(line, "Answering request") {
			lines = append(lines, line)
		}
		if !regexp.MustCompile(`^[\x20-\x7e…µ\x{fffd}]*\n$`).MatchString(line) || strings.HasPrefix(line, forged[:20]) {
			t.Errorf("not a line of ours: %q", line)
		}
		if len(line) > 5*request.MaxLoggedBytes {
			t.Errorf("a line of %d bytes", len(line))
		}
	}
	if len(lines) != 4 {
		t.Errorf("%d lines of 4 requests:\n%s", len(lines), d.logged())
	}
	if n := len(d.api.cache.written.Keys()); n != 1 { // b
		t.Errorf("%d names are remembered", n)
	}
}

func TestWhatIsWrittenForARequest(t *testing.T) {
	rec := &recreation.Recreation{GcuResource: &topsv1.GcuResource{}, Replaces: "uid-1", Accepted: time.Now()}
	rec.GcuResource.Name = "gr"
	stored, err := rec.Object()
	if err != nil {
		t.Fatal(err)
	}
	const recreate, tried, triedToDelete, kept = `{"spec": {}, "mode": "recreate"}`, "try to create gr check-", "try to delete gr with UID uid-1", "create gr"
	protected := apierrors.NewForbidden(grResource, "gr", errors.New("a webhook protects it"))
	denied := &apierrors.StatusError{ErrStatus: metav1.Status{Code: 400, Message: `admission webhook "w" denied the request: keep it`}}
	deniedAs409 := &apierrors.StatusError{ErrStatus: metav1.Status{Code: 409, Reason: metav1.StatusReasonAlreadyExists, Message: `admission webhook "w" denied the request: keep no recreations`}}
	const inPlace = `patch gr {"metadata":{"annotations":{"topsops.enflame.com/update-strategy":"AdvancedRollingUpdate"},"resourceVersion":"7"},"spec":{"driver":{"notDeploy":false,"version":"2"}}}`
	raced := &fakeCluster{}
	raced.onDelete = func() { raced.recreation = stored }
	overtaken := &fakeCluster{}
	overtaken.keeps = func(dryRun bool) error {
		if overtaken.leaves = !dryRun; dryRun {
			return nil
		}
		return protected
	}
	tests := []struct {
		name               string
		s                  *fakeCluster
		method, path, body string
		change             func(*Options)
		headers            http.Header
		status             int
		says               string
		want               []string
	}{
		{name: "an upgrade in place is one write, of what was read", method: http.MethodPut, body: `{"spec": {"driver": {"version": "2"}}}`, status: 200, want: []string{inPlace}},
		{name: "a dry run of it stores nothing", method: http.MethodPut, path: "?dryRun=true", body: `{"spec": {"driver": {"version": "2"}}}`, status: 200, want: []string{"try to " + inPlace}},
		{name: "one that a rollback would take back waits", s: &fakeCluster{annotations: map[string]string{topsv1.AnnotationRollbackTo: "previous"}}, method: http.MethodPut, body: `{"spec": {}}`, status: 409},
		{name: "a recreation is tried, then stored, then the old gr is deleted", method: http.MethodPut, body: recreate, status: 200, want: []string{tried, triedToDelete, kept, "delete gr with UID uid-1"}},
		{name: "a gr that may not be deleted is not recreated", s: &fakeCluster{keeps: func(bool) error { return protected }}, method: http.MethodPut, body: recreate, status: 500, want: []string{tried, triedToDelete}},
		{name: "a dry run says so", s: &fakeCluster{keeps: func(bool) error { return protected }}, method: http.MethodPut, path: "?dryRun=true", body: recreate, status: 500, want: []string{tried, triedToDelete}},
		{name: "a recreation is forgotten if the gr became protected since", s: &fakeCluster{keeps: func(dryRun bool) error {
			if dryRun {
				return nil
			}
			return protected
		}}, method: http.MethodPut, body: recreate, status: 500, want: []string{tried, triedToDelete, kept, "delete gr with UID uid-1", "delete gr with UID "}},
		{name: "also by a webhook with a code of its own", s: &fakeCluster{keeps: func(dryRun bool) error {
			if dryRun {
				return nil
			}
			return denied
		}}, method: http.MethodPut, body: recreate, status: 422, want: []string{tried, triedToDelete, kept, "delete gr with UID uid-1", "delete gr with UID "}},
		{name: "if another replica has deleted the gr, its recreation stays: nobody else creates it again", s: overtaken, method: http.MethodPut, body: recreate, status: 200,
			want: []string{tried, triedToDelete, kept, "delete gr with UID uid-1"}},
		{name: "what the API server refuses is not stored, and nothing is deleted", s: &fakeCluster{refuses: apierrors.NewInvalid(grKind.GroupKind(), "gr", nil)}, method: http.MethodPut, body: recreate, status: 422, want: []string{tried}},
		{name: "a recreation that a webhook denies to store, with the code of one that exists, deletes nothing, and what the webhook says is answered", s: &fakeCluster{storing: deniedAs409},
			method: http.MethodPut, body: recreate, status: 422, says: "keep no recreations", want: []string{tried, triedToDelete}},
		{name: "a recreation needs more rights than an upgrade", change: func(o *Options) { o.Access = only("update") }, method: http.MethodPut, body: recreate, status: 403},
		{name: "a second recreation waits", s: &fakeCluster{recreation: stored}, method: http.MethodPut, body: recreate, status: 409, want: []string{}},
		{name: "a deletion is of the gr that was read", method: http.MethodDelete, status: 200, want: []string{"delete gr with UID uid-1"}},
		{name: "a deletion is none when the gr is going to be created again", s: raced, method: http.MethodDelete, status: 409, want: []string{"delete gr with UID uid-1"}},
		{name: "who may update does not delete", change: func(o *Options) { o.Access = only("update") }, method: http.MethodDelete, status: 403},
		{name: "a large spec is not read to its end", method: http.MethodPut, body: `{"spec": {"driver": {"version": "` + strings.Repeat("x", request.MaxBytes) + `"}}}`, status: 413},
		{name: "nor is a large body of a deletion", method: http.MethodDelete, body: strings.Repeat(" ", request.MaxBytes) + "{}", status: 413},
		{name: "a pause is of the gr that was read", method: http.MethodPost, path: "/pause", status: 200, want: []string{`patch gr {"metadata":{"annotations":{"topsops.enflame.com/paused":"true"},"uid":"uid-1"}}`}},
		{name: "a page of another site pauses nothing", method: http.MethodPost, path: "/pause", headers: http.Header{"Sec-Fetch-Site": {"cross-site"}}, status: 403},
		{name: "a token nobody knows does nothing", change: func(o *Options) { o.Access = NewTokenAccess(o.Client, clock.RealClock{}) }, headers: http.Header{"Authorization": {"Bearer x"}},
			method: http.MethodDelete, status: 401},
		{name: "one that is known does", s: &fakeCluster{authenticated: true}, change: func(o *Options) { o.Access = NewTokenAccess(o.Client, clock.RealClock{}) }, headers: http.Header{"Authorization": {"Bearer x"}},
			method: http.MethodDelete, status: 200, want: []string{"delete gr with UID uid-1"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, change := tt.s, tt.change
			if s == nil {
				s = &fakeCluster{}
			}
			if change == nil {
				change = func(*Options) {}
			}
			r := httptest.NewRequest(tt.method, "/gum/v1/gr/gr"+tt.path, strings.NewReader(tt.body))
			r.Header = tt.headers
			if r.Header == nil {
				r.Header = http.Header{}
			}
			w, _ := answerOf(s, r, change)
			if w.Code != tt.status || !strings.Contains(w.Body.String(), tt.says) {
				t.Errorf("answered with %d, want %d and %q: %s", w.Code, tt.status, tt.says, w.Body)
			}
			if diff := cmp.Diff(fmt.Sprintf("%q", tt.want), fmt.Sprintf("%q", s.asked)); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatIsRememberedOfARequest(t *testing.T) {
	for path, want := range map[string]int{"/gr": 1, "/GR": 0, "/%2e%2e": 0, "/" + strings.Repeat("a", 254): 0} {
		_, api := answerOf(&fakeCluster{}, httptest.NewRequest(http.MethodDelete, "/gum/v1/gr"+path, http.NoBody))
		if n := len(api.cache.written.Keys()); n != want {
			t.Errorf("%.20s: %d names are remembered, want %d", path, n, want)
		}
		if api.cache.current("gr") {
			t.Errorf("%.20s: the cache may be shown, and there is none", path)
		}
	}
	_, api := answerOf(&fakeCluster{}, httptest.NewRequest(http.MethodDelete, "/gum/v1/gr/gr", http.NoBody), func(o *Options) { o.Cache = o.Client })
	if api.cache.current("gr") || !api.cache.current("another") {
		t.Error("who wrote reads the cache, or who did not does not")
	}
}

func TestAPanicIsAnsweredAndLogged(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log")
	r := httptest.NewRequest(http.MethodPut, "/gum/v1/gr/gr", strings.NewReader(`{"spec": {}}`))
	r.Header.Set("X-Request-Id", "ticket-1")
	w, _ := answerOf(nil, r, func(o *Options) {
		o.Client, o.Log = nil, logging.New(io.Discard, logging.Options{Format: logging.JSON, File: file})
	})
	if e := envelopeIn(t, w); w.Code != http.StatusInternalServerError || e.Operation != OperationUpgrade || e.Error != "internal error, see the log of the manager: request ticket-1" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	log, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{` ERROR upgradeapi/serve\.go:\d+ Failing a request requestID=ticket-1 stack=".*upgradeapi\.\(\*upgrades\)\.upgrade.*" error="panic: `,
		` INFO upgradeapi/serve\.go:\d+ Answering request requestID=ticket-1 operation=Upgrade .* status=500 `} {
		if !regexp.MustCompile(want).Match(log) {
			t.Errorf("no line like %s:\n%s", want, log)
		}
	}
}

func TestARequestUnderAnotherNameIsRefused(t *testing.T) {
	m := &middleware{hosts: func(host string) bool { return host == "gcu-upgrade-api:8080" }}
	for host, ok := range map[string]bool{"gcu-upgrade-api:8080": true, "page.example": false} {
		r := httptest.NewRequest(http.MethodGet, "/gum/v1/gr", nil)
		r.Host = host
		if err := m.foreign(r); (err == nil) != ok {
			t.Errorf("%s: %v, want it accepted: %t", host, err, ok)
		}
	}
}

func TestWithoutAuthenticationASpecIsRefused(t *testing.T) {
	r := &resolver{blueprintsOnly: true}
	_, _, err := r.resolve(t.Context(), "gr", request.Upgrade{Spec: &topsv1.GcuResourceSpec{}})
	var refusal *request.Refusal
	if !errors.As(err, &refusal) || refusal.Status != http.StatusForbidden {
		t.Errorf("a spec in the body is answered with %v", err)
	}
}

// A query that cannot be read is refused, whoever asks for what: url.URL.Query leaves out a parameter with a semicolon or a bad escape,
// and a dry run without its parameter is a write.
func TestAQueryThatCannotBeReadIsRefused(t *testing.T) {
	for _, tt := range []struct{ method, path, body string }{
		{http.MethodDelete, "?dryRun=true;", ""},
		{http.MethodDelete, "?dryRun=true%", ""},
		{http.MethodPut, "?dryRun=true;", `{"spec": {}}`},
		{http.MethodPut, "?dryRun=true%", `{"spec": {}, "mode": "recreate"}`},
		{http.MethodPut, "/plan?step=true;dryRun=true", "apiVersion: topsops.enflame.com/v1"},
		{http.MethodPost, "/pause?x=1;dryRun=true", ""},
		{http.MethodGet, "?%zz", ""},
		{http.MethodGet, "/plan?file=gr.json&nodes=a;components=driver", ""},
		{http.MethodGet, "/plan/file?file=gr.json;format=yaml", ""},
	} {
		s := &fakeCluster{}
		w, _ := answerOf(s, httptest.NewRequest(tt.method, "/gum/v1/gr/gr"+tt.path, strings.NewReader(tt.body)))
		if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "the query cannot be read") || len(s.asked) > 0 {
			t.Errorf("%s %s: %d, after %q: %s", tt.method, tt.path, w.Code, s.asked, w.Body)
		}
	}
}
