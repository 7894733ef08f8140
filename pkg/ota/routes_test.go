package ota

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

// fakeDesk answers every question with its fields and remembers what was asked.
type fakeDesk struct {
	refusal *Refusal
	asked   []string
}

func (d *fakeDesk) answer() error {
	if d.refusal == nil {
		return nil
	}
	return d.refusal
}

func (d *fakeDesk) Pods(context.Context) (*corev1.PodList, error) {
	return &corev1.PodList{}, d.answer()
}

func (d *fakeDesk) Ask(_ context.Context, namespace, pod string) error {
	if refusal := validateNames(namespace, pod); refusal != nil {
		return refusal
	}
	d.asked = append(d.asked, namespace+"/"+pod)
	return d.answer()
}

const upgradePath = "/openyurt.io/v1/namespaces/kube-system/pods/driver-x/upgrade"

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
			NewHandler(&fakeDesk{}, logr.Discard()).ServeHTTP(w, httptest.NewRequest(test.method, test.path, test.body))
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
	for reason, want := range map[Reason]int{
		ReasonMalformed: 400, ReasonNotDaemonSet: 400,
		ReasonOtherNode: 403, ReasonTerminating: 403, ReasonNotNeeded: 403,
		ReasonPodMissing: 404, ReasonTooMany: 429, ReasonNotRecorded: 500, ReasonDisconnected: 503,
	} {
		w := httptest.NewRecorder()
		desk := &fakeDesk{refusal: refuse(reason, "two\nlines")}
		NewHandler(desk, logr.Discard()).ServeHTTP(w, httptest.NewRequest("POST", upgradePath, nil))
		if w.Code != want || w.Body.String() != "two lines\n" {
			t.Errorf("%s is answered with %d %q, want %d and one line", reason, w.Code, w.Body, want)
		}
	}
	if len(statuses) != 9 {
		t.Errorf("%d reasons have a status; add the new ones to this test", len(statuses))
	}
}

func TestPodsAnswers503WhenDisconnected(t *testing.T) {
	cluster := newFakeCluster()
	cluster.away = errAway
	w := httptest.NewRecorder()
	NewHandler(newBench(t, cluster, t.TempDir()), logr.Discard()).ServeHTTP(w, httptest.NewRequest("GET", "/pods", nil))
	if w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "connection refused") {
		t.Errorf("GET /pods: %d %q, want 503 with the cause", w.Code, w.Body)
	}
}

func TestPodsIsAPodListEvenWithoutPods(t *testing.T) {
	w := httptest.NewRecorder()
	NewHandler(newBench(t, newFakeCluster(), t.TempDir()), logr.Discard()).ServeHTTP(w, httptest.NewRequest("GET", "/pods", nil))
	want := `{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[]}`
	if diff := cmp.Diff(want, w.Body.String()); diff != "" {
		t.Errorf("body (-want +got):\n%s", diff)
	}
}

func FuzzRoutes(f *testing.F) {
	for _, path := range []string{"/", "/pods", "/healthz", upgradePath, "//pods", "/%zz", "*",
		"/openyurt.io/v1/namespaces/%2e%2e/pods/%2e%2e/upgrade", "/openyurt.io/v1/namespaces/a/pods/b%2fc/upgrade",
		"/openyurt.io/v1/namespaces/a/pods/\x00/upgrade", "/openyurt.io/v1/namespaces/../pods/b/upgrade"} {
		for _, method := range []string{"GET", "POST", "OPTIONS", ""} {
			f.Add(method, path)
		}
	}
	f.Fuzz(func(t *testing.T, method, path string) {
		target, err := url.ParseRequestURI(path)
		if err != nil {
			return
		}
		desk := &fakeDesk{}
		w := httptest.NewRecorder()
		r := &http.Request{Method: method, URL: target, Header: http.Header{}, Body: http.NoBody}
		NewHandler(desk, logr.Discard()).ServeHTTP(w, r)
		switch w.Code {
		case 200, 400, 404, 405:
		default:
			t.Errorf("%q %q is answered with %d", method, path, w.Code)
		}
		for _, asked := range desk.asked {
			if method != http.MethodPost || w.Body.String() != "Start updating pod "+asked {
				t.Errorf("%q %q asked for %q and answered %q", method, path, asked, w.Body)
			}
			if strings.Count(asked, "/") != 1 {
				t.Errorf("%q %q asked for %q", method, path, asked)
			}
		}
	})
}
