package ota

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/ota/endpoint"
	"github.com/topsops/gcu-operator/pkg/ota/request"
	"github.com/topsops/gcu-operator/pkg/ota/response"
	"github.com/topsops/gcu-operator/test/fixture"
)

const newestHash, runningHash = "abc123", "old777"

// addComponent adds a DaemonSet under OTA, its newest revision, and its pod on node-a to
// the cluster.
func (c *fakeCluster) addComponent(name string, outdated bool) *corev1.Pod {
	c.mu.Lock()
	defer c.mu.Unlock()
	yes := true
	uid := types.UID("ds-" + name)
	c.daemonSets["kube-system/enflame-"+name] = &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "kube-system", Name: "enflame-" + name, UID: uid,
			OwnerReferences: fixture.ControlledBy(topsv1.GroupVersion.String(), topsv1.GcuResourceKind, "fleet", "uid-fleet"),
			Labels:          map[string]string{topsv1.LabelComponent: name}, Annotations: map[string]string{topsv1.AnnotationUpdateStrategy: "OTA"},
		},
		Spec: appsv1.DaemonSetSpec{UpdateStrategy: appsv1.DaemonSetUpdateStrategy{Type: appsv1.OnDeleteDaemonSetStrategyType}},
	}
	owner := []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "enflame-" + name, UID: uid, Controller: &yes}}
	c.revisions["kube-system/enflame-"+name+"-"+newestHash] = &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "enflame-" + name + "-" + newestHash, OwnerReferences: owner},
		Data: runtime.RawExtension{Raw: []byte(`{"spec":{"template":{"$patch":"replace","spec":{"imagePullSecrets":[{"name":"pull"}],` +
			`"initContainers":[{"name":"i","image":"r/init:1"}],"containers":[{"name":"c","image":"r/` + strings.ToLower(name) + `:2.0"}]}}}}`)},
	}
	pod := fixture.OutdatedPod()
	pod.Name, pod.UID, pod.OwnerReferences, pod.ResourceVersion = "enflame-"+name+"-x", types.UID("pod-"+name), owner, "1"
	pod.Labels = map[string]string{appsv1.ControllerRevisionHashLabelKey: runningHash}
	pod.Spec.Containers = []corev1.Container{{Name: "c", Image: "r/" + strings.ToLower(name) + ":1.0"}}
	if !outdated {
		pod.Status.Conditions[0].Status = corev1.ConditionFalse
	}
	c.pods["kube-system/"+pod.Name] = pod
	return pod
}

// newFleet is a node with an outdated driver and toolkit, an up-to-date exporter, and a
// foreign pod.
func newFleet() *fakeCluster {
	c := newFakeCluster()
	c.addComponent("driver", true)
	c.addComponent("toolkit", true)
	c.addComponent("exporter", false)
	foreign := fixture.OutdatedPod()
	foreign.Name, foreign.OwnerReferences = "somebody", nil
	c.pods["kube-system/somebody"] = foreign
	return c
}

// described returns openapi.yaml, parsed once.
var described = sync.OnceValues(func() (routers.Router, error) {
	doc, err := openapi3.NewLoader().LoadFromData(endpoint.OpenAPI)
	if err != nil {
		return nil, err
	}
	return gorillamux.NewRouter(doc)
})

// reply is the response to a call.
type reply struct {
	t      *testing.T
	status int
	header http.Header
	body   []byte
}

// wants fails the test unless the status matches.
func (a reply) wants(status int) reply {
	a.t.Helper()
	if a.status != status {
		a.t.Fatalf("answered with %d %s, want %d", a.status, a.body, status)
	}
	return a
}

func (a reply) operation() (o response.Operation) { return decoded[response.Operation](a) }
func (a reply) problem() (p response.Problem)     { return decoded[response.Problem](a) }

func decoded[T any](a reply) (v T) {
	a.t.Helper()
	if err := json.Unmarshal(a.body, &v); err != nil {
		a.t.Fatalf("%s: %v", a.body, err)
	}
	return v
}

// call sends a request to a handler and validates the response against openapi.yaml.
// Headers are key, value, ….
func call(t *testing.T, handler http.Handler, method, path, body string, headers ...string) reply {
	t.Helper()
	r := httptest.NewRequest(method, "http://localhost:10267"+path, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	a := reply{t: t, status: w.Code, header: w.Header(), body: w.Body.Bytes()}
	a.isAsDescribed(r)
	return a
}

func (a reply) isAsDescribed(r *http.Request) {
	a.t.Helper()
	if !strings.HasPrefix(r.URL.Path, "/v1/") {
		return
	}
	router, err := described()
	if err != nil {
		a.t.Fatal(err)
	}
	route, parameters, err := router.FindRoute(r)
	if err != nil { // no such path or method: one description covers these
		if p := a.problem(); a.status < 400 || p.Status != a.status || p.Detail == "" || a.header.Get("Content-Type") != "application/problem+json" {
			a.t.Errorf("%s %s is answered with %d %s, which is no problem", r.Method, r.URL, a.status, a.body)
		}
		return
	}
	err = openapi3filter.ValidateResponse(a.t.Context(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{Request: r, PathParams: parameters, Route: route},
		Status:                 a.status, Header: a.header, Body: io.NopCloser(bytes.NewReader(a.body)),
		Options: &openapi3filter.Options{IncludeResponseStatus: true, MultiError: true},
	})
	if err != nil {
		a.t.Errorf("%s %s is answered with %d %s: %v", r.Method, r.URL, a.status, a.body, err)
	}
}

// handler returns the routes over a bench, on its clock.
func (b *bench) handler() http.Handler {
	return endpoint.NewHandler(endpoint.Options{Backend: b.Inbox, Stopping: make(chan struct{}), Clock: b.clock, Log: logr.Discard()})
}

// requested returns the submitted requests by the name of their DaemonSet.
func (c *fakeCluster) requested() map[string]topsv1.UpgradeRequest {
	c.mu.Lock()
	defer c.mu.Unlock()
	submitted := map[string]topsv1.UpgradeRequest{}
	if c.nodeUpgrade != nil {
		for _, r := range c.nodeUpgrade.Status.Requests {
			submitted[r.DaemonSet.Name] = r
		}
	}
	return submitted
}

// answerAll answers all requests with a state.
func (c *fakeCluster) answerAll(state topsv1.TaskState, message string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nodeUpgrade.Status.Tasks = nil
	for _, r := range c.nodeUpgrade.Status.Requests {
		c.nodeUpgrade.Status.Tasks = append(c.nodeUpgrade.Status.Tasks,
			topsv1.UpgradeTask{RequestID: r.ID, Name: "node-a_" + r.DaemonSet.Name + "_replace", State: state, Reason: "Because", Message: message})
	}
}

// lookAtCluster delivers the current NodeUpgrade like a watch.
func (b *bench) lookAtCluster() {
	b.cluster.mu.Lock()
	now := b.cluster.nodeUpgrade.DeepCopy()
	b.cluster.mu.Unlock()
	b.Seen(now)
}

func TestPodsAnswers503WhenDisconnected(t *testing.T) {
	cluster := newFakeCluster()
	cluster.unreachable = errUnreachable
	w := httptest.NewRecorder()
	newBench(t, cluster, t.TempDir()).handler().ServeHTTP(w, httptest.NewRequest("GET", "/pods", nil))
	if w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "connection refused") {
		t.Errorf("GET /pods: %d %q, want 503 with the cause", w.Code, w.Body)
	}
}

func TestPodsIsAPodListEvenWithoutPods(t *testing.T) {
	w := httptest.NewRecorder()
	newBench(t, newFakeCluster(), t.TempDir()).handler().ServeHTTP(w, httptest.NewRequest("GET", "/pods", nil))
	want := `{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[]}`
	if diff := cmp.Diff(want, w.Body.String()); diff != "" {
		t.Errorf("body (-want +got):\n%s", diff)
	}
}

func TestEveryAnswerIsAsDescribed(t *testing.T) {
	b := newBench(t, newFleet(), t.TempDir())
	h := b.handler()
	for _, step := range []struct {
		method, path, body string
		headers            []string
		status             int
		says               string
	}{
		{"GET", "/v1/openapi.yaml", "", nil, 200, "openapi: 3"},
		{"GET", "/v1/status", "", nil, 200, `"component":"driver"`},
		{"GET", "/v1/operations", "", nil, 200, `"operations":[]`},
		{"GET", "/v1/operations/op-0123456789abcdef", "", nil, 404, "OperationMissing"},
		{"GET", "/v1/nothing", "", nil, 404, "NotFound"},
		{"GET", "/v1/upgrade", "", nil, 405, "use POST"},
		{"DELETE", "/v1/operations", "", nil, 405, "use GET"},
		{"POST", "/v1/components/nobody/upgrade", "", nil, 404, "ComponentMissing"},
		{"POST", "/v1/components/a%2Fb/upgrade", "", nil, 400, "Malformed"},
		{"POST", "/v1/components/exporter/upgrade", "", nil, 409, "NotNeeded"},
		{"POST", "/v1/upgrade", `{"revision":"old"}`, nil, 400, "newest revision"},
		{"POST", "/v1/upgrade", `{"revison":"latest"}`, nil, 400, "unknown field"},
		{"POST", "/v1/upgrade", `[]`, nil, 400, "JSON object"},
		{"POST", "/v1/upgrade", `{} {}`, nil, 400, "after"},
		{"POST", "/v1/upgrade", `{}`, []string{"Content-Type", "text/plain"}, 415, "application/json"},
		{"POST", "/v1/upgrade", "", []string{"Content-Type", "application/x-www-form-urlencoded"}, 415, "application/json"},
		{"POST", "/v1/upgrade", `{"revision":"` + strings.Repeat("x", 64<<10) + `"}`, nil, 413, "TooLarge"},
		{"POST", "/v1/upgrade", "", []string{"Idempotency-Key", strings.Repeat("k", 256)}, 400, "Idempotency-Key"},
		{"POST", "/v1/rollback", "", nil, 409, "POST /v1/components/COMPONENT/rollback"},
		{"POST", "/v1/components/nothing/rollback", "", nil, 404, "ComponentMissing"},
		{"POST", "/v1/rollback", `{"revision":"x"}`, nil, 400, "revision"},
		{"POST", "/v1/hold", `{"message":"` + strings.Repeat("x", 257) + `"}`, nil, 400, "longer"},
		{"POST", "/v1/hold", `{"message":"not now"}`, nil, 200, "not now"},
		{"POST", "/v1/upgrade", "", nil, 409, "NodeHeld"},
		{"POST", "/v1/release", "", nil, 200, `"held":false`},
		{"POST", "/v1/components/driver/upgrade", `{"revision":"latest"}`, []string{"Idempotency-Key", "k"}, 202, `"Waiting"`},
		{"POST", "/v1/components/driver/upgrade", `{}`, []string{"Idempotency-Key", "k"}, 422, "KeyReused"},
		{"POST", "/v1/upgrade", "", nil, 409, "OperationRunning"},
		{"GET", "/v1/operations", "", nil, 200, `"Waiting"`},
		{"GET", "/v1/status", "", nil, 200, `"lastOperation"`},
		{"GET", "/v1/operations/" + request.OperationID("node-a", "k", 0, time.Time{}) + "?wait=soon", "", nil, 400, "30s"},
		{"GET", "/v1/operations/" + request.OperationID("node-a", "k", 0, time.Time{}) + "?wait=61s", "", nil, 400, "30s"},
		{"GET", "/v1/operations/" + request.OperationID("node-a", "k", 0, time.Time{}), "", nil, 200, "driver"},
	} {
		a := call(t, h, step.method, step.path, step.body, step.headers...)
		if a.status != step.status || !strings.Contains(string(a.body), step.says) {
			t.Errorf("%s %.80s: %d %s, want %d with %q", step.method, step.path, a.status, a.body, step.status, step.says)
		}
	}
}

func TestStatusShowsVersions(t *testing.T) {
	b := newBench(t, newFleet(), t.TempDir())
	status := decoded[response.Status](call(t, b.handler(), "GET", "/v1/status", "").wants(200))
	yes, no := true, false
	component := func(name string, need *bool) response.Component {
		return response.Component{
			Component: name, Namespace: "kube-system", DaemonSet: "enflame-" + name, Pod: "enflame-" + name + "-x", Strategy: "OTA", NeedUpgrade: need,
			Running:   response.Version{Revision: runningHash, Version: "1.0", Images: []string{"r/" + name + ":1.0"}},
			Available: &response.Version{Revision: newestHash, Version: "2.0", Images: []string{"r/init:1", "r/" + name + ":2.0"}},
		}
	}
	want := response.Status{Node: "node-a", Connected: true, Components: []response.Component{component("driver", &yes), component("exporter", &no), component("toolkit", &yes)}}
	if diff := cmp.Diff(want, status); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
	before := b.cluster.calls
	call(t, b.handler(), "GET", "/pods", "")
	if got := b.cluster.calls - before; got != 1 {
		t.Errorf("GET /pods costs %d calls when nothing has changed, want 1", got)
	}
}

func TestAnOperationIsFollowedToItsEnd(t *testing.T) {
	b := newBench(t, newFleet(), t.TempDir())
	h := b.handler()
	a := call(t, h, "POST", "/v1/upgrade", "").wants(202)
	o := a.operation()
	if a.header.Get("Location") != "/v1/operations/"+o.ID || o.State != request.Waiting || len(o.Requests) != 2 || o.Offline != "" {
		t.Fatalf("accepted as %+v at %q", o, a.header.Get("Location"))
	}
	requested := b.cluster.requested()
	for _, name := range []string{"enflame-driver", "enflame-toolkit"} {
		if r := requested[name]; r.Operation != o.ID || r.Revision != newestHash {
			t.Errorf("request for %s is %+v", name, r)
		}
	}
	if len(requested) != 2 {
		t.Errorf("%d requests are submitted", len(requested))
	}

	b.cluster.answerAll(topsv1.TaskWaiting, "2 of at most 2 nodes are unavailable")
	b.lookAtCluster()
	if o = call(t, h, "GET", "/v1/operations/"+o.ID, "").operation(); o.State != request.Waiting || !strings.Contains(o.Message, "2 of at most 2") {
		t.Errorf("waiting: %+v", o)
	}
	b.cluster.answerAll(topsv1.TaskRunning, "operation r-1 is being created")
	end := metav1.NewTime(time.Unix(1700000000, 0))
	b.cluster.set(func() {
		b.cluster.nodeUpgrade.Spec.Operation = &topsv1.NodeOperation{ID: "r-1", Targets: []topsv1.OperationTarget{{Component: "driver", DaemonSet: topsv1.NamespacedRef{UID: "ds-driver"}}}}
		b.cluster.nodeUpgrade.Status.Operation = &topsv1.OperationStatus{ID: "r-1", Phase: topsv1.OperationRunning, Task: "node-a_node_evict", Message: "2 pods to go",
			Tasks: []topsv1.OperationTask{{Name: "a", State: topsv1.OperationTaskDone, EndTime: &end}, {Name: "b", State: topsv1.OperationTaskRunning}, {Name: "c", State: topsv1.OperationTaskPending}}}
	})
	b.lookAtCluster()
	o = call(t, h, "GET", "/v1/operations/"+o.ID, "").operation()
	if o.State != request.Running || o.Task != "node-a_node_evict" || o.Progress != (response.Progress{Done: 1, Total: 3}) || o.Message != "2 pods to go" {
		t.Errorf("running: %+v", o)
	}

	b.cluster.answerAll(topsv1.TaskDone, "replaced")
	b.cluster.set(func() { b.cluster.nodeUpgrade.Status.Operation.Phase = topsv1.OperationDone })
	if err := b.syncOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	o = call(t, h, "GET", "/v1/operations/"+o.ID, "").operation()
	if o.State != request.Done || o.EndTime == nil || o.Progress != (response.Progress{Done: 2, Total: 2}) || o.Message != "2 components at the newest revision" {
		t.Errorf("at its end: %+v", o)
	}
	// The outcome outlives the requests, the agent and the NodeUpgrade.
	b.cluster.set(func() { b.cluster.nodeUpgrade = nil })
	again := newBench(t, b.cluster, b.directory)
	if err := again.syncOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(o, call(t, again.handler(), "GET", "/v1/operations/"+o.ID, "").operation()); diff != "" {
		t.Errorf("after a restart (-want +got):\n%s", diff)
	}
}

func TestOneOperationAtATime(t *testing.T) {
	b := newBench(t, newFleet(), t.TempDir())
	h := b.handler()
	first := call(t, h, "POST", "/v1/components/driver/upgrade", "").wants(202).operation()
	if p := call(t, h, "POST", "/v1/components/toolkit/upgrade", "").wants(409).problem(); p.Operation != first.ID || p.Title != "OperationRunning" {
		t.Errorf("a second operation is refused with %+v, want the name of %s", p, first.ID)
	}
	b.cluster.answerAll(topsv1.TaskFailed, "never ready")
	second := call(t, h, "POST", "/v1/components/toolkit/upgrade", "").wants(202).operation()
	if o := call(t, h, "GET", "/v1/operations/"+first.ID, "").operation(); o.State != request.Failed || o.Message != "driver: never ready" {
		t.Errorf("the first one: %+v", o)
	}
	list := decoded[response.Operations](call(t, h, "GET", "/v1/operations", ""))
	if len(list.Operations) != 2 || list.Operations[0].ID != second.ID {
		t.Errorf("operations %+v, want the newest first", list)
	}
}

func TestARepeatedKeyIsTheSameOperation(t *testing.T) {
	b := newBench(t, newFleet(), t.TempDir())
	h := b.handler()
	ids := make([]string, 50)
	var posts sync.WaitGroup
	for i := range ids {
		posts.Go(func() {
			ids[i] = call(t, h, "POST", "/v1/upgrade", "", "Idempotency-Key", "once").wants(202).operation().ID
		})
	}
	posts.Wait()
	if slices.Sort(ids); ids[0] != ids[49] || ids[0] == "" || len(b.cluster.requested()) != 2 {
		t.Fatalf("50 POSTs made operations %v and %d requests", slices.Compact(ids), len(b.cluster.requested()))
	}
}

func TestARepeatedKeyIsTheSameOperationWithoutTheJournal(t *testing.T) {
	for path, body := range map[string]string{"/v1/upgrade": "", "/v1/components/driver/upgrade": "", "/v1/components/toolkit/upgrade": `{"revision":"latest"}`} {
		t.Run(path, func(t *testing.T) {
			b := newBench(t, newFleet(), t.TempDir())
			o := call(t, b.handler(), "POST", path, body, "Idempotency-Key", "once").wants(202).operation()
			before := b.cluster.requested()
			reinstalled := newBench(t, b.cluster, t.TempDir())
			reinstalled.sync(t)
			if again := call(t, reinstalled.handler(), "POST", path, body, "Idempotency-Key", "once").wants(202).operation(); again.ID != o.ID {
				t.Errorf("the agent returned operation %s, want %s", again.ID, o.ID)
			}
			call(t, reinstalled.handler(), "POST", "/v1/components/driver/rollback", "", "Idempotency-Key", "once").wants(422)
			if diff := cmp.Diff(before, b.cluster.requested()); diff != "" {
				t.Errorf("requests (-before +after):\n%s", diff)
			}
		})
	}
}

func TestFiftyOrdersAreOneOperation(t *testing.T) {
	b := newBench(t, newFleet(), t.TempDir())
	h := b.handler()
	var mu sync.Mutex
	statuses := map[int]int{}
	var posts sync.WaitGroup
	for range 50 {
		posts.Go(func() {
			status := call(t, h, "POST", "/v1/components/driver/upgrade", "").status
			mu.Lock()
			defer mu.Unlock()
			statuses[status]++
		})
	}
	posts.Wait()
	if diff := cmp.Diff(map[int]int{202: 1, 409: 49}, statuses); diff != "" {
		t.Errorf("statuses (-want +got):\n%s", diff)
	}
}

func TestOldOperationsAreForgotten(t *testing.T) {
	b := newBench(t, newFleet(), t.TempDir())
	h := b.handler()
	var first string
	for i := range request.KeptOperations + 3 {
		id := call(t, h, "POST", "/v1/components/driver/upgrade", "").wants(202).operation().ID
		if i == 0 {
			first = id
		}
		b.cluster.answerAll(topsv1.TaskFailed, "no")
	}
	if list := decoded[response.Operations](call(t, h, "GET", "/v1/operations", "")); len(list.Operations) != request.KeptOperations {
		t.Errorf("%d operations are kept", len(list.Operations))
	}
	call(t, h, "GET", "/v1/operations/"+first, "").wants(404)
}

func TestAFullDiskRefusesNewRequests(t *testing.T) {
	for _, journal := range []string{"operations", "hold"} {
		b := newBench(t, newFleet(), t.TempDir())
		if err := b.syncOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.breakDisk(t, journal)
		path := map[string]string{"operations": "/v1/upgrade", "hold": "/v1/hold"}[journal]
		if p := call(t, b.handler(), "POST", path, "").wants(500).problem(); p.Title != "NotRecorded" || !strings.Contains(p.Detail, "make room") {
			t.Errorf("%s: %+v", path, p)
		}
		if len(b.cluster.requested()) != 0 || b.cluster.nodeUpgrade.Status.Agent.Hold != nil {
			t.Error("what is not recorded is submitted")
		}
	}
}
