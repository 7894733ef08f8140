package upgradeapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/logging"
	"github.com/topsops/gcu-operator/pkg/upgradeapi/recreation"
	"github.com/topsops/gcu-operator/pkg/upgradeapi/request"
)

// sketch plays an API server that has one gr, named gr, and tells what it is asked
// to write.
type sketch struct {
	client.Client
	// asked are the writes, stored how many of them were no dry runs.
	asked  []string
	stored int
	// annotations of the gr, recreation its ConfigMap.
	annotations map[string]string
	recreation  *corev1.ConfigMap
	// refuses is the answer to a gr that is to be created; onDelete is called before one is deleted.
	refuses  error
	onDelete func()
	// authenticated is what is said of every token.
	authenticated bool
}

func (s *sketch) Get(_ context.Context, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	if stored, ok := o.(*corev1.ConfigMap); ok && s.recreation != nil {
		s.recreation.DeepCopyInto(stored)
		return nil
	}
	_, typed := o.(*topsv1.GcuResource)
	if !typed && o.GetObjectKind().GroupVersionKind() != grKind || key.Name != "gr" {
		return apierrors.NewNotFound(grResource, key.Name)
	}
	o.SetName(key.Name)
	o.SetUID("uid-1")
	o.SetResourceVersion("7")
	o.SetAnnotations(s.annotations)
	return nil
}

func (s *sketch) List(context.Context, client.ObjectList, ...client.ListOption) error { return nil }

func (s *sketch) Create(_ context.Context, o client.Object, options ...client.CreateOption) error {
	switch o := o.(type) {
	case *authenticationv1.TokenReview:
		o.Status.Authenticated = s.authenticated
		return nil
	case *authorizationv1.SubjectAccessReview:
		o.Status.Allowed = true
		return nil
	case *topsv1.GcuResource:
		s.write((&client.CreateOptions{}).ApplyOptions(options).DryRun, "create gr "+o.Name+o.GenerateName)
		return s.refuses
	}
	s.write((&client.CreateOptions{}).ApplyOptions(options).DryRun, "create "+o.GetName())
	return nil
}

func (s *sketch) Delete(_ context.Context, o client.Object, options ...client.DeleteOption) error {
	applied := (&client.DeleteOptions{}).ApplyOptions(options)
	text := "delete " + o.GetName()
	if applied.Preconditions != nil && applied.Preconditions.UID != nil {
		text += " with UID " + string(*applied.Preconditions.UID)
	}
	s.write(applied.DryRun, text)
	if s.onDelete != nil {
		s.onDelete()
	}
	return nil
}

func (s *sketch) Patch(_ context.Context, o client.Object, patch client.Patch, options ...client.PatchOption) error {
	data, err := patch.Data(o)
	s.write((&client.PatchOptions{}).ApplyOptions(options).DryRun, "patch "+o.GetName()+" "+string(data))
	return err
}

func (s *sketch) write(dryRun []string, what string) {
	if isStored(dryRun) {
		s.stored++
	} else {
		what = "try to " + what
	}
	s.asked = append(s.asked, what)
}

// sketched answers one request with a sketch behind it.
func sketched(s *sketch, r *http.Request, change ...func(*Options)) (*httptest.ResponseRecorder, *API) {
	o := Options{Client: s, Namespace: namespace, Blueprints: "/nowhere", Clock: clock.RealClock{}, Log: logr.Discard()}
	for _, alter := range change {
		alter(&o)
	}
	api, w := New(o), httptest.NewRecorder()
	api.Handler().ServeHTTP(w, r)
	return w, api
}

// only lets everybody do one verb.
type only string

func (only) Known(string) (authenticationv1.UserInfo, bool) { return authenticationv1.UserInfo{}, true }

func (only) Authenticate(context.Context, string) (authenticationv1.UserInfo, error) {
	return authenticationv1.UserInfo{}, nil
}

func (o only) Authorize(_ context.Context, _ authenticationv1.UserInfo, verb, _ string) error {
	if verb != string(o) {
		return request.Refuse(http.StatusForbidden, "cannot %s", verb)
	}
	return nil
}

func TestWhatIsWrittenForARequest(t *testing.T) {
	rec := &recreation.Recreation{GcuResource: &topsv1.GcuResource{}, Replaces: "uid-1", Accepted: time.Now()}
	rec.GcuResource.Name = "gr"
	stored, err := rec.ConfigMap(namespace)
	if err != nil {
		t.Fatal(err)
	}
	const recreate, tried, kept = `{"spec": {}, "mode": "recreate"}`, "try to create gr check-", "create gcu-upgrade-manager-gr"
	const inPlace = `patch gr {"metadata":{"annotations":{"topsops.enflame.com/update-strategy":"AdvancedRollingUpdate"},"resourceVersion":"7"},"spec":{"driver":{"notDeploy":false,"version":"2"}}}`
	raced := &sketch{}
	raced.onDelete = func() { raced.recreation = stored }
	tests := []struct {
		name               string
		s                  *sketch
		method, path, body string
		change             func(*Options)
		headers            http.Header
		status             int
		want               []string
	}{
		{name: "an upgrade in place is one write, of what was read", method: http.MethodPut, body: `{"spec": {"driver": {"version": "2"}}}`, status: 200, want: []string{inPlace}},
		{name: "a dry run of it stores nothing", method: http.MethodPut, path: "?dryRun=true", body: `{"spec": {"driver": {"version": "2"}}}`, status: 200, want: []string{"try to " + inPlace}},
		{name: "one that a rollback would take back waits", s: &sketch{annotations: map[string]string{topsv1.AnnotationRollbackTo: "previous"}}, method: http.MethodPut, body: `{"spec": {}}`, status: 409},
		{name: "a recreation is tried, then stored, then the old gr is deleted", method: http.MethodPut, body: recreate, status: 200, want: []string{tried, kept, "delete gr with UID uid-1"}},
		{name: "what the API server refuses is not stored, and nothing is deleted", s: &sketch{refuses: apierrors.NewInvalid(grKind.GroupKind(), "gr", nil)}, method: http.MethodPut, body: recreate, status: 422, want: []string{tried}},
		{name: "a recreation needs more rights than an upgrade", change: func(o *Options) { o.Access = only("update") }, method: http.MethodPut, body: recreate, status: 403},
		{name: "a second recreation waits", s: &sketch{recreation: stored}, method: http.MethodPut, body: recreate, status: 409, want: []string{}},
		{name: "a deletion is of the gr that was read", method: http.MethodDelete, status: 200, want: []string{"delete gr with UID uid-1"}},
		{name: "a deletion is none when the gr is going to be created again", s: raced, method: http.MethodDelete, status: 409, want: []string{"delete gr with UID uid-1"}},
		{name: "who may update does not delete", change: func(o *Options) { o.Access = only("update") }, method: http.MethodDelete, status: 403},
		{name: "a large spec is not read to its end", method: http.MethodPut, body: `{"spec": {"driver": {"version": "` + strings.Repeat("x", request.MaxBytes) + `"}}}`, status: 413},
		{name: "nor is a large body of a deletion", method: http.MethodDelete, body: strings.Repeat(" ", request.MaxBytes) + "{}", status: 413},
		{name: "a pause is of the gr that was read", method: http.MethodPost, path: "/pause", status: 200, want: []string{`patch gr {"metadata":{"annotations":{"topsops.enflame.com/paused":"true"},"uid":"uid-1"}}`}},
		{name: "a page of another site pauses nothing", method: http.MethodPost, path: "/pause", headers: http.Header{"Sec-Fetch-Site": {"cross-site"}}, status: 403},
		{name: "a token nobody knows does nothing", change: func(o *Options) { o.Access = NewTokenAccess(o.Client, clock.RealClock{}) }, headers: http.Header{"Authorization": {"Bearer x"}},
			method: http.MethodDelete, status: 401},
		{name: "one that is known does", s: &sketch{authenticated: true}, change: func(o *Options) { o.Access = NewTokenAccess(o.Client, clock.RealClock{}) }, headers: http.Header{"Authorization": {"Bearer x"}},
			method: http.MethodDelete, status: 200, want: []string{"delete gr with UID uid-1"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, change := tt.s, tt.change
			if s == nil {
				s = &sketch{}
			}
			if change == nil {
				change = func(*Options) {}
			}
			r := httptest.NewRequest(tt.method, "/gum/v1/gr/gr"+tt.path, strings.NewReader(tt.body))
			r.Header = tt.headers
			if r.Header == nil {
				r.Header = http.Header{}
			}
			w, _ := sketched(s, r, change)
			if w.Code != tt.status {
				t.Errorf("answered with %d, want %d: %s", w.Code, tt.status, w.Body)
			}
			if diff := cmp.Diff(fmt.Sprintf("%q", tt.want), fmt.Sprintf("%q", s.asked)); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEveryRouteOfTheDocumentIsServed(t *testing.T) {
	document, err := openapi3.NewLoader().LoadFromData(Document)
	if err != nil {
		t.Fatal(err)
	}
	for path, item := range document.Paths.Map() {
		path = "/gum/v1" + strings.NewReplacer("{name}", "gr", "{kind}", "driver").Replace(path)
		for method := range item.Operations() {
			w, _ := sketched(&sketch{}, httptest.NewRequest(method, path, http.NoBody))
			if w.Code == http.StatusMethodNotAllowed || strings.Contains(w.Body.String(), "no such path") {
				t.Errorf("%s %s is answered with %d: %s", method, path, w.Code, w.Body)
			}
		}
	}
}

func TestWhatIsRememberedOfARequest(t *testing.T) {
	for path, want := range map[string]int{"/gr": 1, "/GR": 0, "/%2e%2e": 0, "/" + strings.Repeat("a", 254): 0} {
		_, api := sketched(&sketch{}, httptest.NewRequest(http.MethodDelete, "/gum/v1/gr"+path, http.NoBody))
		if n := len(api.cache.written.Keys()); n != want {
			t.Errorf("%.20s: %d names are remembered, want %d", path, n, want)
		}
		if api.cache.current("gr") {
			t.Errorf("%.20s: the cache may be shown, and there is none", path)
		}
	}
	_, api := sketched(&sketch{}, httptest.NewRequest(http.MethodDelete, "/gum/v1/gr/gr", http.NoBody), func(o *Options) { o.Cache = o.Client })
	if api.cache.current("gr") || !api.cache.current("another") {
		t.Error("who wrote reads the cache, or who did not does not")
	}
}

func TestAPanicIsAnsweredAndTold(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log")
	r := httptest.NewRequest(http.MethodPut, "/gum/v1/gr/gr", strings.NewReader(`{"spec": {}}`))
	r.Header.Set("X-Request-Id", "ticket-1")
	w, _ := sketched(nil, r, func(o *Options) {
		o.Client, o.Log = nil, logging.New(io.Discard, logging.Options{Format: logging.JSON, File: file})
	})
	if e := envelopeIn(t, w); w.Code != http.StatusInternalServerError || e.Operation != OperationUpgrade || e.Error != "the manager failed, its log says where: request ticket-1" {
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

// failing is an API server that answers every list with an error.
type failing struct {
	client.Reader
	err error
}

func (f failing) List(context.Context, client.ObjectList, ...client.ListOption) error { return f.err }

func TestReadyTellsWhyNot(t *testing.T) {
	for err, want := range map[error]string{
		error(&meta.NoKindMatchError{GroupKind: grKind.GroupKind()}): "install the CRDs",
		error(apierrors.NewNotFound(grResource, "")):                 "install the CRDs",
		errors.New("connection refused"):                             "listing GcuResources: connection refused",
	} {
		if got := Ready(failing{err: err})(&http.Request{}); got == nil || !strings.Contains(got.Error(), want) {
			t.Errorf("%v: %v, want %s", err, got, want)
		}
	}
	if err := Ready(failing{})(&http.Request{}); err != nil {
		t.Error(err)
	}
}

// callSketch serves a sketch, sends a text and returns the connection.
func callSketch(t *testing.T, s *sketch, server *Server, log logr.Logger, text string) net.Conn {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server.API = New(Options{Client: s, Namespace: namespace, Clock: clock.RealClock{}, Log: log})
	server.Listener, server.Log = listener, log
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	connection, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	if err := connection.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(connection, text); err != nil {
		t.Fatal(err)
	}
	return connection
}

// Who sends half a header, or half a body, is hung up on, and nothing is done.
func TestASlowCallerIsNotWaitedFor(t *testing.T) {
	for text, want := range map[string]string{
		"DELETE /gum/v1/gr/gr HTTP/1.1\r\nHost: a\r\nX-Slow: ":                     "",
		"DELETE /gum/v1/gr/gr HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{": "the body could not be read",
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel() // a header has seconds
			s := &sketch{}
			connection := callSketch(t, s, &Server{ReadTimeout: 50 * time.Millisecond}, logr.Discard(), text)
			if got, err := io.ReadAll(connection); err != nil || !strings.Contains(string(got), want) || len(s.asked) > 0 {
				t.Errorf("answered with %q (%v), after %q", got, err, s.asked)
			}
		})
	}
}

// Who does not read what was asked for is hung up on.
func TestASlowReaderIsNotWaitedFor(t *testing.T) {
	left := make(chan struct{})
	once := sync.OnceFunc(func() { close(left) })
	log := funcr.New(func(_, text string) {
		if strings.Contains(text, "The caller went away") {
			once()
		}
	}, funcr.Options{Verbosity: 4})
	s := &sketch{annotations: map[string]string{"large": strings.Repeat("x", 8<<20)}}
	connection := callSketch(t, s, &Server{WriteTimeout: 500 * time.Millisecond}, log, "GET /gum/v1/gr/gr HTTP/1.1\r\nHost: a\r\n\r\n")
	select {
	case <-left:
	case <-time.After(patience):
		t.Fatal("it is waited for")
	}
	if got, err := io.ReadAll(connection); len(got) >= 8<<20 {
		t.Errorf("all %d bytes have come (%v)", len(got), err)
	}
}
