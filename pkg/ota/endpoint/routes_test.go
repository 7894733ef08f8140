package endpoint

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/topsops/gcu-operator/pkg/ota/request"
	"github.com/topsops/gcu-operator/pkg/ota/response"
)

// fakeBackend returns its fields and records its calls.
type fakeBackend struct {
	refusal *request.Refusal
	stale   *metav1.Time
	asked   []string
}

func (d *fakeBackend) answer() error {
	if d.refusal == nil {
		return nil
	}
	return d.refusal
}

func handlerOf(backend Backend) http.Handler {
	return NewHandler(Options{Backend: backend, Stopping: make(chan struct{}), Clock: clock.RealClock{}, Log: logr.Discard()})
}

func (d *fakeBackend) Pods(context.Context) (*corev1.PodList, *metav1.Time, error) {
	return &corev1.PodList{}, d.stale, d.answer()
}

func (d *fakeBackend) PullImages(ctx context.Context, namespace, pod string) error {
	return d.UpgradePod(ctx, namespace, pod)
}

func (d *fakeBackend) Rollback(context.Context, request.Operation, string) (response.Operation, error) {
	return response.Operation{ID: "op-0123456789abcdef", State: request.Withdrawn, Requests: []response.Part{}}, d.answer()
}

func (d *fakeBackend) Status(context.Context) response.Status {
	return response.Status{Components: []response.Component{}}
}

func (d *fakeBackend) Upgrade(_ context.Context, o request.Operation, _ string) (response.Operation, error) {
	d.asked = append(d.asked, o.Wanted.Component)
	return response.Operation{ID: "op-0123456789abcdef", Requests: []response.Part{}}, d.answer()
}

func (d *fakeBackend) Operations() response.Operations {
	return response.Operations{Operations: []response.Operation{}}
}

func (d *fakeBackend) Operation(id string) (response.Operation, <-chan struct{}, error) {
	return response.Operation{ID: id}, nil, d.answer()
}

func (d *fakeBackend) Hold(context.Context, string) (response.Hold, error) {
	return response.Hold{Held: true}, d.answer()
}

func (d *fakeBackend) Release(context.Context) (response.Hold, error) {
	return response.Hold{}, d.answer()
}

func (d *fakeBackend) UpgradePod(_ context.Context, namespace, pod string) error {
	if refusal := request.ValidateNames(namespace, pod); refusal != nil {
		return refusal
	}
	d.asked = append(d.asked, namespace+"/"+pod)
	return d.answer()
}

const pullPath = "/openyurt.io/v1/namespaces/kube-system/pods/enflame-driver-x/imagepull"

const upgradePath = "/openyurt.io/v1/namespaces/kube-system/pods/driver-x/upgrade"

// Contract 100.
func TestRoutes(t *testing.T) {
	for name, test := range map[string]struct {
		method, path string
		body         io.Reader
		status       int
		says         string
		allow        string
	}{
		"says that it serves":                     {"GET", "/healthz", nil, 200, "ok", ""},
		"lists pods":                              {"GET", "/pods", nil, 200, `"items":`, ""},
		"accepts an upgrade":                      {"POST", upgradePath, nil, 200, "Start updating pod kube-system/driver-x", ""},
		"accepts an escaped name":                 {"POST", strings.Replace(upgradePath, "driver-x", "driver%2Dx", 1), nil, 200, "kube-system/driver-x", ""},
		"accepts and ignores a small body":        {"POST", upgradePath, strings.NewReader("{}"), 200, "Start", ""},
		"refuses a body of more than 64 KiB":      {"POST", upgradePath, strings.NewReader(strings.Repeat("x", maxBodyBytes+1)), 413, "larger than", ""},
		"refuses to upgrade with GET":             {"GET", upgradePath, nil, 405, "use POST", "POST"},
		"refuses to delete pods":                  {"DELETE", "/pods", nil, 405, "use GET", "GET, HEAD"},
		"refuses to post health":                  {"POST", "/healthz", nil, 405, "use GET", "GET, HEAD"},
		"does not know the root":                  {"GET", "/", nil, 404, "No such path", ""},
		"does not know a path below pods":         {"GET", "/pods/", nil, 404, "No such path", ""},
		"does not clean paths":                    {"GET", "/x/../pods", nil, 404, "No such path", ""},
		"does not know another API":               {"POST", strings.Replace(upgradePath, "v1", "v2", 1), nil, 404, "No such path", ""},
		"does not know an empty pod name":         {"POST", strings.Replace(upgradePath, "driver-x", "", 1), nil, 404, "No such path", ""},
		"refuses upper case":                      {"POST", strings.Replace(upgradePath, "driver-x", "Driver", 1), nil, 400, "Malformed pod name", ""},
		"refuses an escaped slash in a name":      {"POST", strings.Replace(upgradePath, "driver-x", "a%2F..%2Fb", 1), nil, 400, "Malformed pod name", ""},
		"refuses an escaped line break":           {"POST", strings.Replace(upgradePath, "kube-system", "a%0Ab", 1), nil, 400, "Malformed namespace", ""},
		"refuses a namespace longer than a label": {"POST", strings.Replace(upgradePath, "kube-system", strings.Repeat("a", 64), 1), nil, 400, "Malformed namespace", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := httptest.NewRecorder()
			handlerOf(&fakeBackend{}).ServeHTTP(w, httptest.NewRequest(test.method, test.path, test.body))
			if w.Code != test.status || !strings.Contains(w.Body.String(), test.says) {
				t.Errorf("%s %s: %d %q, want %d with %q", test.method, test.path, w.Code, w.Body, test.status, test.says)
			}
			if allow := w.Header().Get("Allow"); allow != test.allow {
				t.Errorf("Allow is %q, want %q", allow, test.allow)
			}
			kind := w.Header().Get("Content-Type")
			if wantJSON := test.path == "/pods" && test.status == 200; strings.HasPrefix(kind, "application/json") != wantJSON {
				t.Errorf("Content-Type is %q", kind)
			}
		})
	}
}

func TestEveryReasonHasItsStatus(t *testing.T) {
	for reason, want := range map[request.Reason]int{
		request.ReasonMalformed: 400, request.ReasonNotDaemonSet: 400,
		request.ReasonOtherNode: 403, request.ReasonTerminating: 403, request.ReasonNotNeeded: 403,
		request.ReasonPodMissing: 404, request.ReasonTooMany: 429, request.ReasonNotRecorded: 500, request.ReasonDisconnected: 503,
	} {
		w := httptest.NewRecorder()
		backend := &fakeBackend{refusal: request.Refuse(reason, "two\nlines")}
		handlerOf(backend).ServeHTTP(w, httptest.NewRequest("POST", upgradePath, nil))
		if w.Code != want || w.Body.String() != "two lines\n" {
			t.Errorf("%s is answered with %d %q, want %d and one line", reason, w.Code, w.Body, want)
		}
	}
}

func FuzzRoutes(f *testing.F) {
	for _, path := range []string{"/", "/pods", "/healthz", upgradePath, "//pods", "/%zz", "*",
		"/openyurt.io/v1/namespaces/%2e%2e/pods/%2e%2e/upgrade", "/openyurt.io/v1/namespaces/a/pods/b%2fc/upgrade",
		"/openyurt.io/v1/namespaces/a/pods/\x00/upgrade", "/openyurt.io/v1/namespaces/../pods/b/upgrade", pullPath,
		"/v1/status", "/v1/upgrade", "/v1/components/driver/upgrade", "/v1/components/%2e%2e/upgrade", "/v1/operations", "/v1/operations/x?wait=9h",
		"/v1/hold", "/v1/release", "/v1/rollback", "/v1/"} {
		for _, method := range []string{"GET", "POST", "OPTIONS", ""} {
			f.Add(method, path)
		}
	}
	f.Fuzz(func(t *testing.T, method, path string) {
		target, err := url.ParseRequestURI(path)
		if err != nil {
			return
		}
		backend := &fakeBackend{}
		w := httptest.NewRecorder()
		r := &http.Request{Method: method, URL: target, Header: http.Header{}, Body: http.NoBody}
		handlerOf(backend).ServeHTTP(w, r)
		switch w.Code {
		case 200, 202, 400, 404, 405, 409:
		default:
			t.Errorf("%q %q is answered with %d", method, path, w.Code)
		}
		if len(backend.asked) > 0 && method != http.MethodPost {
			t.Errorf("%q %q asked for %q", method, path, backend.asked)
		}
		if kind := w.Header().Get("Content-Type"); isOurs(r) && w.Code >= 400 && kind != "application/problem+json" {
			t.Errorf("%q %q is answered with %s", method, path, kind)
		}
		if isOurs(r) {
			return
		}
		for _, asked := range backend.asked {
			if body := w.Body.String(); body != "Start updating pod "+asked && body != "Image pre-pull requested for pod "+asked {
				t.Errorf("%q %q asked for %q and answered %q", method, path, asked, w.Body)
			}
			if strings.Count(asked, "/") != 1 {
				t.Errorf("%q %q asked for %q", method, path, asked)
			}
		}
	})
}

// bodyPaths read a body.
var bodyPaths = []string{"/v1/upgrade", "/v1/components/driver/upgrade", "/v1/hold", "/v1/release", "/v1/rollback"}

// FuzzBodies checks that no body leads to an order that openapi.yaml does not allow.
func FuzzBodies(f *testing.F) {
	for _, body := range []string{"", "{}", `{"revision":"latest"}`, `{"message":"x"}`, `{"revision":"latest"}{}`, "{}}", "{}]", "null", "[]", `{"revision":1}`, "\xff", `{"revision":"latest","revision":""}`} {
		for _, path := range bodyPaths {
			f.Add(path, "application/json", body)
			f.Add(path, "text/plain", body)
		}
	}
	f.Fuzz(func(t *testing.T, path, kind, body string) {
		if !slices.Contains(bodyPaths, path) {
			return
		}
		backend := &fakeBackend{}
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
		r.Header["Content-Type"] = []string{kind}
		handlerOf(backend).ServeHTTP(w, r)
		switch w.Code {
		case 200, 202:
			var object map[string]any
			if err := json.Unmarshal([]byte(body), &object); strings.TrimSpace(body) != "" && err != nil {
				t.Errorf("%s took %q: %v", path, body, err)
			}
		case 400, 413, 415:
			if len(backend.asked) > 0 {
				t.Errorf("%s refused %q, and asked for %q", path, body, backend.asked)
			}
		default:
			t.Errorf("%s is answered with %d for %q", path, w.Code, body)
		}
	})
}

func TestAnswersArePlain(t *testing.T) {
	const nasty = "a\x1b[2J\u009b\x7f\u202e"
	backend := &fakeBackend{refusal: request.Refuse(request.ReasonNotNeeded, "%s", nasty)}
	for _, path := range []string{"/v1/operations/op-1", "/pods"} {
		w := httptest.NewRecorder()
		handlerOf(backend).ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if want := `a\u001b[2J\u009b\u007f\u202e`; !strings.Contains(w.Body.String(), want) {
			t.Errorf("GET %s says %q, want %q in it", path, w.Body.String(), want)
		}
	}
	w := httptest.NewRecorder()
	responder{logr.Discard()}.writeJSON(w, httptest.NewRequest(http.MethodGet, "/pods", nil), http.StatusOK, nasty)
	if want := `"a\u001b[2J\u009b\u007f\u202e"`; w.Body.String() != want {
		t.Errorf("JSON is %q, want %q", w.Body.String(), want)
	}
}
