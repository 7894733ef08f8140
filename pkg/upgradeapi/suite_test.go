package upgradeapi

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/routers"
	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/logging"
	"github.com/topsops/gcu-operator/test/apiserver"
)

const (
	namespace = apiserver.Namespace
	// patience is how long a test waits for an expected change.
	patience = 20 * time.Second
)

func TestMain(m *testing.M) {
	ctrllog.SetLogger(logr.Discard())
	os.Exit(apiserver.Run(m))
}

// testServer is a served API.
type testServer struct {
	t     *testing.T
	admin client.Client
	api   *API
	// server is the last one started.
	server *Server
	// url is that of the server, blueprints its directory.
	url, blueprints string
	// log is its log file.
	log string
	// stop ends the server and returns its error.
	stop func() error
	book routers.Router
	doc  *openapi3.T
}

// newTestServer serves an API without authentication, with options that change may alter.
func newTestServer(t *testing.T, change ...func(*Options)) *testServer {
	t.Helper()
	d := &testServer{t: t, admin: apiserver.Shared(t).Client(t, apiserver.Admin), blueprints: t.TempDir(), log: filepath.Join(t.TempDir(), "gcu-upgrade-manager.log")}
	o := Options{
		Client: apiserver.Shared(t).Client(t, apiserver.Operator), Namespace: namespace, Blueprints: d.blueprints, Clock: clock.RealClock{}, Poll: 20 * time.Millisecond,
		Log: logging.New(io.Discard, logging.Options{Format: logging.JSON, File: d.log}),
	}
	for _, alter := range change {
		alter(&o)
	}
	d.api = New(o)
	d.serve(&Server{API: d.api, Log: o.Log})
	d.openAPI()
	return d
}

// serve starts a server that ends with the test.
func (d *testServer) serve(s *Server) {
	d.t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		d.t.Fatal(err)
	}
	s.Listener, d.server = listener, s
	d.url = "http://" + listener.Addr().String()
	if s.TLS {
		d.url = "https://" + listener.Addr().String()
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Start(ctx) }()
	stop := sync.OnceValue(func() error { cancel(); return <-ended })
	d.stop = stop
	d.t.Cleanup(func() {
		if err := stop(); err != nil {
			d.t.Error(err)
		}
	})
}

// answer is a response.
type answer struct {
	status int
	header http.Header
	body   string
	envelope
}

// object returns the content of a response.
func (a answer) object(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	content, ok := a.Content.(map[string]any)
	if !ok {
		t.Fatalf("no object in the answer: %s", a.body)
	}
	return &unstructured.Unstructured{Object: content}
}

// send sends a request like curl, form content type included, and validates the response
// against the OpenAPI document.
func (d *testServer) send(method, path, body string, headers ...string) answer {
	d.t.Helper()
	request := d.request(d.t.Context(), method, path, body, headers...)
	got, err := d.do(request)
	if err != nil {
		d.t.Fatalf("%s %s: %v", method, path, err)
	}
	return got
}

func (d *testServer) request(ctx context.Context, method, path, body string, headers ...string) *http.Request {
	d.t.Helper()
	request, err := http.NewRequestWithContext(ctx, method, d.url+path, strings.NewReader(body))
	if err != nil {
		d.t.Fatal(err)
	}
	if body != "" {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	return request
}

func (d *testServer) do(request *http.Request) (answer, error) {
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return answer{}, err
	}
	got := answer{status: response.StatusCode, header: response.Header, body: string(body)}
	if err := json.Unmarshal(body, &got.envelope); err != nil && response.Header.Get("Content-Type") != contentTypeYAML {
		d.t.Errorf("the answer is no envelope: %v: %s", err, body)
	}
	d.validate(request, response, body)
	return got, nil
}

// fails sends a request and requires a status, an error that contains a text, and no
// content.
func (d *testServer) fails(method, path, body string, status int, text string) answer {
	d.t.Helper()
	got := d.send(method, path, body)
	if got.status != status || got.Result != ResultFailed || got.Content != nil || !strings.Contains(got.Error, text) {
		d.t.Errorf("%s %s %s: %d %s; want %d with an error like %q", method, path, body, got.status, got.body, status, text)
	}
	return got
}

// succeeds sends a request and requires success.
func (d *testServer) succeeds(method, path, body string) answer {
	d.t.Helper()
	got := d.send(method, path, body)
	if got.status != http.StatusOK || got.Result != ResultSuccess || got.Error != "" {
		d.t.Fatalf("%s %s %s: %d %s; want a success", method, path, body, got.status, got.body)
	}
	return got
}

// create creates a gr with a driver version and the operator's finalizer, and removes it
// when the test ends.
func (d *testServer) create(name string, change ...func(*topsv1.GcuResource)) *topsv1.GcuResource {
	d.t.Helper()
	gr := &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: []string{topsv1.Finalizer}},
		Spec: topsv1.GcuResourceSpec{Driver: &topsv1.BaseFields{Version: "1.0.0"}}}
	for _, alter := range change {
		alter(gr)
	}
	d.must(d.admin.Create(context.Background(), gr))
	d.t.Cleanup(func() { d.remove(name) })
	return gr
}

// remove removes a gr and its recreation in any state.
func (d *testServer) remove(name string) {
	d.t.Helper()
	ctx := context.Background()
	stored := &topsv1.GcuResourceRecreation{ObjectMeta: metav1.ObjectMeta{Name: name}}
	d.must(client.IgnoreNotFound(d.admin.Delete(ctx, stored)))
	d.must(client.IgnoreNotFound(d.admin.Delete(ctx, &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: name}})))
	d.letGo(name)
}

// letGo removes the finalizer, as the operator does once every component is gone.
func (d *testServer) letGo(name string) {
	d.t.Helper()
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
	d.must(client.IgnoreNotFound(d.admin.Patch(context.Background(), &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: name}}, patch)))
}

// runs writes the status of a gr whose components are all running, like the operator.
func (d *testServer) runs(name string) {
	d.t.Helper()
	gr := d.gr(name)
	before := gr.DeepCopy()
	gr.Status = topsv1.GcuResourceStatus{Phase: topsv1.PhaseRunning, ReadyResource: "1/1", ObservedGeneration: gr.Generation,
		Conditions: []topsv1.ActionCondition{{Action: topsv1.ActionDeploy, Status: "success", Reason: "success", Message: "success", Progress: 100, LastUpdateTime: metav1.Now()}}}
	d.must(d.admin.Status().Patch(context.Background(), gr, client.MergeFrom(before)))
}

// gr returns a gr, or nil.
func (d *testServer) gr(name string) *topsv1.GcuResource {
	d.t.Helper()
	gr, err := find(context.Background(), d.admin, name)
	d.must(err)
	return gr
}

// file writes a blueprint.
func (d *testServer) file(name, content string) {
	d.t.Helper()
	d.must(os.WriteFile(filepath.Join(d.blueprints, name), []byte(content), 0o644))
}

// blueprint returns a gr with a driver version, as JSON.
func blueprint(name, version string) string {
	return fmt.Sprintf(`{"apiVersion": "topsops.enflame.com/v1", "kind": "GcuResource", "metadata": {"name": %q}, "spec": {"driver": {"version": %q}}}`, name, version)
}

func (d *testServer) must(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
}

// logged returns the log.
func (d *testServer) logged() string {
	d.t.Helper()
	text, err := os.ReadFile(d.log)
	d.must(err)
	return string(text)
}

// until waits for a condition; check returns what is still missing.
func (d *testServer) until(check func() string) {
	d.t.Helper()
	missing := check()
	for deadline := time.Now().Add(patience); missing != "" && time.Now().Before(deadline); missing = check() {
		time.Sleep(10 * time.Millisecond)
	}
	if missing != "" {
		d.t.Fatal(missing)
	}
}

// halt sets the condition Halted of a DaemonRollout, like the operator.
func (d *testServer) halt(rollout *topsv1.DaemonRollout) {
	d.t.Helper()
	rollout.Status.Conditions = []metav1.Condition{{Type: topsv1.RolloutHalted, Status: metav1.ConditionTrue, Reason: "CrashLoop", LastTransitionTime: metav1.Now()}}
	d.must(d.admin.Status().Update(context.Background(), rollout))
}

// reject acts as the rollout of a gr whose revision was rolled back.
func (d *testServer) reject(rollout *topsv1.DaemonRollout) {
	d.t.Helper()
	rollout.Status.Rollback = &topsv1.RolloutRollback{From: "r2", To: "r1", RejectedRevision: "bad", GcuResourceRevision: "good", Time: metav1.Now()}
	d.must(d.admin.Status().Update(context.Background(), rollout))
}

// sent is a pending response.
type sent struct {
	answer answer
	err    error
}

// sendLater sends a request and returns a channel for the response.
func (d *testServer) sendLater(ctx context.Context, method, path, body string) <-chan sent {
	d.t.Helper()
	request, got := d.request(ctx, method, path, body), make(chan sent, 1)
	go func() {
		a, err := d.do(request)
		got <- sent{a, err}
	}()
	return got
}

// goes waits until a gr has a deletion timestamp.
func (d *testServer) goes(name string) {
	d.t.Helper()
	d.until(func() string {
		if d.gr(name).DeletionTimestamp == nil {
			return "nobody deletes " + name
		}
		return ""
	})
}

// after waits for a response.
func (d *testServer) after(later <-chan sent) answer {
	d.t.Helper()
	select {
	case got := <-later:
		d.must(got.err)
		return got.answer
	case <-time.After(patience):
		d.t.Fatal("no answer")
		return answer{}
	}
}

// ownedMeta returns the metadata of an object that a gr deployed.
func ownedMeta(gr *topsv1.GcuResource, name, component string) metav1.ObjectMeta {
	labels := map[string]string{topsv1.LabelGcuResource: gr.Name}
	if component != "" {
		labels[topsv1.LabelComponent] = component
	}
	return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels, OwnerReferences: []metav1.OwnerReference{{
		APIVersion: topsv1.GroupVersion.String(), Kind: topsv1.GcuResourceKind, Name: gr.Name, UID: gr.UID, Controller: ptr.To(true)}}}
}

// make creates an object that is removed with the test.
func (d *testServer) make(object client.Object) {
	d.t.Helper()
	d.must(d.admin.Create(context.Background(), object))
	d.t.Cleanup(func() { d.must(client.IgnoreNotFound(d.admin.Delete(context.Background(), object))) })
}

// daemonSet deploys a component of a gr, like the operator.
func (d *testServer) daemonSet(gr *topsv1.GcuResource, name, component string) {
	d.t.Helper()
	labels := map[string]string{"app.kubernetes.io/name": name}
	ds := &appsv1.DaemonSet{ObjectMeta: ownedMeta(gr, name, component)}
	ds.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	ds.Spec.Template.Labels = labels
	ds.Spec.Template.Spec.Containers = []corev1.Container{{Name: name, Image: "artifact.enflame.cn/galaxy_docker_hub/gcu/gcu-driver:latest"}}
	d.make(ds)
}

// revision keeps a spec of a gr, like the operator.
func (d *testServer) revision(gr *topsv1.GcuResource, name string, number int64) {
	d.t.Helper()
	d.make(&appsv1.ControllerRevision{ObjectMeta: ownedMeta(gr, name, ""), Revision: number, Data: runtime.RawExtension{Raw: []byte(`{"spec":{}}`)}})
}

// plainSuccess is the complete response to an upgrade or a deletion.
func plainSuccess(operation string) string {
	return fmt.Sprintf("{\n    \"operation\": %q,\n    \"result\": \"Success\"\n}\n", operation)
}

// envelopeIn decodes a response, which must be an envelope as printed.
func envelopeIn(t *testing.T, w *httptest.ResponseRecorder) envelope {
	t.Helper()
	var e envelope
	if err := json.Unmarshal(w.Body.Bytes(), &e); err != nil || !strings.HasPrefix(w.Body.String(), "{\n    \"operation\": ") {
		t.Errorf("no envelope: %v: %s", err, w.Body)
	}
	if failed := w.Code != http.StatusOK; failed != (e.Result == ResultFailed) || failed != (e.Error != "") || e.Operation == "" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	return e
}

// strategy sets the upgrade strategy of a gr.
func strategy(s string) func(*topsv1.GcuResource) {
	return func(gr *topsv1.GcuResource) { gr.Annotations = map[string]string{topsv1.AnnotationUpdateStrategy: s} }
}

// node creates a node that is removed with the test.
func (d *testServer) node(name string) {
	d.t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	d.must(d.admin.Create(d.t.Context(), node))
	d.t.Cleanup(func() { d.must(d.admin.Delete(context.Background(), node)) })
}
