package upgradeapi

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcuresource/revision"
	"github.com/topsops/gcu-operator/pkg/upgradeapi/request"
)

func TestPauseResumeRollback(t *testing.T) {
	d := newTestServer(t)
	gr := d.create("steered")
	path := "/gum/v1/gr/steered"
	annotation := func(key string) string { return d.gr("steered").Annotations[key] }

	d.succeeds(http.MethodPost, path+"/pause?dryRun=true", "")
	if annotation(topsv1.AnnotationPaused) != "" {
		t.Error("a dry run paused it")
	}
	if got := d.succeeds(http.MethodPost, path+"/pause", ""); got.body != plainSuccess(OperationPause) || annotation(topsv1.AnnotationPaused) != "true" {
		t.Errorf("got %s, annotations %v", got.body, d.gr("steered").Annotations)
	}
	d.succeeds(http.MethodPost, path+"/resume/", "")
	if _, paused := d.gr("steered").Annotations[topsv1.AnnotationPaused]; paused {
		t.Error("still paused")
	}
	rollout := &topsv1.DaemonRollout{}
	rollout.Namespace, rollout.Name = namespace, "steered"
	rollout.Spec.TargetRef = topsv1.TargetRef{Kind: "GcuResource", Name: "steered"}
	d.make(rollout)
	resumed := func() string {
		t.Helper()
		d.must(d.admin.Get(context.Background(), client.ObjectKeyFromObject(rollout), rollout))
		return rollout.Annotations[topsv1.AnnotationResume]
	}
	d.succeeds(http.MethodPost, path+"/resume", "")
	if got := resumed(); got != "" {
		t.Errorf("failures of a rollout that is not halted are cleared: %s", got)
	}
	clears := func(what string) {
		t.Helper()
		rollout.Annotations = map[string]string{topsv1.AnnotationApprovedWaves: "r1/main,r2/main"}
		d.must(d.admin.Update(context.Background(), rollout))
		d.succeeds(http.MethodPost, path+"/resume", "")
		if _, err := time.Parse(time.RFC3339, resumed()); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	rollout.Status.FailedNodes = 1
	d.must(d.admin.Status().Update(context.Background(), rollout))
	clears("a failed node that uses up the budget")
	rollout.Status.FailedNodes = 0
	d.reject(rollout)
	clears("a rejected revision")
	if got := rollout.Annotations[topsv1.AnnotationApprovedWaves]; got != "r1/main" {
		t.Errorf("approved are %q: what was rejected needs other approvals", got)
	}
	rollout.Status.Rollback = nil
	d.halt(rollout)
	clears("a halt")
	first := resumed()
	if d.succeeds(http.MethodPost, path+"/resume", ""); resumed() == first {
		t.Errorf("another call within a second is lost: %s", first)
	}

	d.fails(http.MethodPost, path+"/rollback", "", http.StatusConflict, "no earlier spec of steered is kept")
	d.revision(gr, "steered-a", 1)
	d.revision(gr, "steered-b", 2)
	d.fails(http.MethodPost, path+"/rollback", `{"to": "steered-c"}`, http.StatusNotFound, `revision "steered-c" of steered not found`)
	d.fails(http.MethodPost, path+"/rollback", `{"to": ""}`, http.StatusBadRequest, "to is empty")
	d.fails(http.MethodPost, path+"/rollback", `{"revision": "steered-a"}`, http.StatusBadRequest, "unknown field")
	if got := annotation(topsv1.AnnotationRollbackTo); got != "" {
		t.Errorf("what failed asks for a rollback to %q", got)
	}
	asks := func(body, want string) {
		t.Helper()
		if got := d.succeeds(http.MethodPost, path+"/rollback", body); got.body != plainSuccess(OperationRollback) || annotation(topsv1.AnnotationRollbackTo) != want {
			t.Errorf("%s: got %s, asked for %q", body, got.body, annotation(topsv1.AnnotationRollbackTo))
		}
	}
	for _, body := range []string{"", `{"to": "previous"}`, `{"to": "steered-b"}`} { // the second and the third are asked for already
		asks(body, "steered-b")
	}
	d.fails(http.MethodPost, path+"/rollback", `{"to": "steered-a"}`, http.StatusConflict, `a rollback of steered to "steered-b" has already been requested`)
	pending := func(to string) {
		t.Helper()
		now := d.gr("steered")
		if delete(now.Annotations, topsv1.AnnotationRollbackTo); to != "" {
			metav1.SetMetaDataAnnotation(&now.ObjectMeta, topsv1.AnnotationRollbackTo, to)
		}
		d.must(d.admin.Update(context.Background(), now))
	}
	pending("")
	asks(`{"to": "steered-a"}`, "steered-a")
	pending("steered-lost")
	asks(`{"to": "steered-a"}`, "steered-a") // what cannot be restored blocks no other rollback
	pending("steered-b")
	denied := d.gr("steered")
	denied.Status.Conditions = []topsv1.ActionCondition{{Action: topsv1.ActionRollback, Status: topsv1.PhaseFailed, Reason: revision.ReasonRefusedRevision, Message: "denied", LastUpdateTime: metav1.Now()}}
	d.must(d.admin.Status().Update(context.Background(), denied))
	asks(`{"to": "steered-a"}`, "steered-a")
	for _, verb := range []string{"pause", "resume", "rollback"} {
		d.fails(http.MethodPost, "/gum/v1/gr/absent/"+verb, "", http.StatusNotFound, `gcuresources.topsops.enflame.com "absent" not found`)
		d.fails(http.MethodGet, path+"/"+verb, "", http.StatusMethodNotAllowed, "use POST")
		d.fails(http.MethodPost, path+"/"+verb, `{"x": 1}`, http.StatusBadRequest, "")
	}
}

// except allows everyone everything but one right.
type except struct {
	only
	verb, resource string
}

func (e except) Authorize(_ context.Context, _ authenticationv1.UserInfo, right authorizationv1.ResourceAttributes) error {
	if right.Resource == e.resource && right.Verb == e.verb && right.Namespace == namespace && right.Name == "stopped" {
		return request.Refuse(http.StatusForbidden, "cannot %s %s", e.verb, e.resource)
	}
	return nil
}

// Below Kubernetes 1.36 the manager writes with its own rights: the caller needs those of kubectl gcu resume.
func TestWhoMayNotWriteTheRolloutDoesNotClearItsFailures(t *testing.T) {
	refused := &except{resource: "daemonrollouts"}
	d := newTestServer(t, func(o *Options) { o.Access = refused })
	d.create("stopped")
	d.succeeds(http.MethodPost, "/gum/v1/gr/stopped/pause", "")
	rollout := &topsv1.DaemonRollout{}
	rollout.Namespace, rollout.Name = namespace, "stopped"
	rollout.Spec.TargetRef = topsv1.TargetRef{Kind: "GcuResource", Name: "stopped"}
	d.make(rollout)
	for what, stop := range map[string]func(*topsv1.DaemonRollout){"halted": d.halt, "at a rejected revision": d.reject} {
		d.succeeds(http.MethodPost, "/gum/v1/gr/stopped/pause", "")
		rollout.Status = topsv1.DaemonRolloutStatus{}
		stop(rollout)
		want := "true"
		if rollout.Status.Rollback != nil { // the resume of a paused gr leaves it rejected
			d.succeeds(http.MethodPost, "/gum/v1/gr/stopped/resume", "")
			want = ""
		}
		for _, refused.verb = range []string{"update", "patch"} {
			d.fails(http.MethodPost, "/gum/v1/gr/stopped/resume", "", http.StatusForbidden, "cannot "+refused.verb+" daemonrollouts")
		}
		d.must(d.admin.Get(context.Background(), client.ObjectKeyFromObject(rollout), rollout))
		if got, paused := rollout.Annotations[topsv1.AnnotationResume], d.gr("stopped").Annotations[topsv1.AnnotationPaused]; got != "" || paused != want {
			t.Errorf("%s: refused, and resumed at %q, paused: %q", what, got, paused)
		}
	}
	d.succeeds(http.MethodPost, "/gum/v1/gr/stopped/pause", "")
	rollout.Status = topsv1.DaemonRolloutStatus{}
	d.must(d.admin.Status().Update(context.Background(), rollout))
	d.succeeds(http.MethodPost, "/gum/v1/gr/stopped/resume", "") // a pause is the gr's
}

// An approval of the revision that is deployed stays, also if it is given while a resume takes back those of the rejected one.
func TestAResumeKeepsAnApprovalOfThatMoment(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := topsv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	rollout := &topsv1.DaemonRollout{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "gr", UID: "uid-2", Annotations: map[string]string{topsv1.AnnotationApprovedWaves: "bad/one,good/one"}},
		Spec: topsv1.DaemonRolloutSpec{TargetRef: topsv1.TargetRef{Kind: topsv1.GcuResourceKind, Name: "gr"}}}
	rollout.Status.Rollback = &topsv1.RolloutRollback{From: "bad", To: "good"}
	approved := false
	stored := fake.NewClientBuilder().WithScheme(scheme).WithObjects(rollout, &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: "gr", UID: "uid-1"}}).Build()
	c := interceptor.NewClient(stored, interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
		if _, is := object.(*topsv1.DaemonRollout); is && !approved {
			approved = true
			now := rollout.DeepCopy()
			if err := c.Get(ctx, client.ObjectKeyFromObject(now), now); err != nil {
				return err
			}
			now.Annotations[topsv1.AnnotationApprovedWaves] += ",good/two"
			if err := c.Update(ctx, now); err != nil {
				return err
			}
		}
		return c.Patch(ctx, object, patch, options...)
	}})
	api, w := New(Options{Client: c, Namespace: namespace, Clock: clock.RealClock{}, Log: logr.Discard(), Planner: judging{}}), httptest.NewRecorder()
	api.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/gum/v1/gr/gr/resume", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	if err := stored.Get(t.Context(), client.ObjectKeyFromObject(rollout), rollout); err != nil {
		t.Fatal(err)
	}
	if got := rollout.Annotations[topsv1.AnnotationApprovedWaves]; !approved || got != "good/one,good/two" || rollout.Annotations[topsv1.AnnotationResume] == "" {
		t.Errorf("approved are %q", got)
	}
}

// paused: "false" is no pause. What is neither true nor false stops the rollout as a pause does, and is removed as one.
func TestAResumeOfAGrThatIsNotPausedClearsFailures(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := topsv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	for value, clears := range map[string]bool{"false": true, "False": true, "true": false, "maybe": false} {
		rollout := &topsv1.DaemonRollout{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "gr"},
			Spec: topsv1.DaemonRolloutSpec{TargetRef: topsv1.TargetRef{Kind: topsv1.GcuResourceKind, Name: "gr"}}}
		rollout.Status.FailedNodes = 1
		gr := &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: "gr", Annotations: map[string]string{topsv1.AnnotationPaused: value}}}
		c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(rollout, gr).Build()
		api, w := New(Options{Client: c, Namespace: namespace, Clock: clock.RealClock{}, Log: logr.Discard()}), httptest.NewRecorder()
		api.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/gum/v1/gr/gr/resume", nil))
		if err := errors.Join(c.Get(t.Context(), client.ObjectKeyFromObject(rollout), rollout), c.Get(t.Context(), client.ObjectKeyFromObject(gr), gr)); err != nil {
			t.Fatal(err)
		}
		_, left := gr.Annotations[topsv1.AnnotationPaused]
		if cleared := rollout.Annotations[topsv1.AnnotationResume] != ""; w.Code != http.StatusOK || cleared != clears || left {
			t.Errorf("paused %q: %d, failures cleared: %t, want %t; the annotation is left: %t", value, w.Code, cleared, clears, left)
		}
	}
}

// A rollback is one of the spec that the gr had when it was asked for: if that changes before the request is stored, what is the
// previous spec is another one, which may be the bad one.
func TestARollbackIsOfTheSpecThatWasRead(t *testing.T) {
	gr := &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: "gr", UID: "uid-1", Generation: 2}}
	var kept []client.Object
	named := map[string]string{}
	for i, version := range []string{"good", "bad"} {
		gr.Spec.Driver = &topsv1.BaseFields{Version: version}
		h, err := revision.NewHistory(gr, nil)
		if err != nil {
			t.Fatal(err)
		}
		r := h.New(gr, namespace)
		r.Revision = int64(i + 1)
		kept, named[version] = append(kept, r), r.Name
	}
	upgraded := func(version string) func(*topsv1.GcuResource) {
		return func(now *topsv1.GcuResource) {
			now.Spec.Driver.Version = version
			now.Generation++
		}
	}
	annotated := func(key, value string) func(*topsv1.GcuResource) {
		return func(now *topsv1.GcuResource) { metav1.SetMetaDataAnnotation(&now.ObjectMeta, key, value) }
	}
	for name, tt := range map[string]struct {
		body      string
		meanwhile func(*topsv1.GcuResource)
		fails     error
		status    int
		want      string
	}{
		"another rollback was carried out":     {meanwhile: upgraded("good"), status: http.StatusConflict},
		"so it was, for one by name":           {body: `{"to": "` + named["good"] + `"}`, meanwhile: upgraded("good"), status: http.StatusConflict},
		"another upgrade was accepted":         {meanwhile: upgraded("newer"), status: http.StatusConflict},
		"a limit was set":                      {meanwhile: annotated(topsv1.AnnotationUpgradeOnly, "nodes=a"), status: http.StatusConflict},
		"it was paused":                        {meanwhile: annotated(topsv1.AnnotationPaused, "true"), status: http.StatusOK, want: named["good"]},
		"the same was asked for":               {meanwhile: annotated(topsv1.AnnotationRollbackTo, named["good"]), status: http.StatusOK, want: named["good"]},
		"another one was asked for":            {meanwhile: annotated(topsv1.AnnotationRollbackTo, named["bad"]), status: http.StatusConflict, want: named["bad"]},
		"the API server did not answer":        {fails: context.DeadlineExceeded, status: http.StatusGatewayTimeout},
		"it did not answer a request by name":  {body: `{"to": "` + named["good"] + `"}`, fails: context.DeadlineExceeded, status: http.StatusGatewayTimeout},
		"etcd did not answer":                  {fails: apierrors.NewInternalError(errors.New("etcdserver: request timed out")), status: http.StatusInternalServerError},
		"nothing happened, and the body is {}": {body: "{}", status: http.StatusOK, want: named["good"]},
	} {
		scheme := runtime.NewScheme()
		if err := errors.Join(topsv1.AddToScheme(scheme), appsv1.AddToScheme(scheme)); err != nil {
			t.Fatal(err)
		}
		stored := fake.NewClientBuilder().WithScheme(scheme).WithObjects(append(kept, gr)...).Build()
		overtaken := false
		c := interceptor.NewClient(stored, interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			if now := (&topsv1.GcuResource{}); tt.meanwhile != nil && !overtaken {
				overtaken = true
				if err := c.Get(ctx, client.ObjectKeyFromObject(gr), now); err != nil {
					return err
				}
				tt.meanwhile(now)
				if err := c.Update(ctx, now); err != nil {
					return err
				}
			}
			if tt.fails != nil {
				return tt.fails
			}
			return c.Patch(ctx, object, patch, options...)
		}})
		w, _ := answerOf(nil, httptest.NewRequest(http.MethodPost, "/gum/v1/gr/gr/rollback", strings.NewReader(tt.body)), func(o *Options) { o.Client = c })
		now := &topsv1.GcuResource{}
		if err := stored.Get(t.Context(), client.ObjectKeyFromObject(gr), now); err != nil {
			t.Fatal(err)
		}
		if got := now.Annotations[topsv1.AnnotationRollbackTo]; w.Code != tt.status || got != tt.want {
			t.Errorf("%s: %d, asked for %q, want %d and %q: %s", name, w.Code, got, tt.status, tt.want, w.Body)
		}
		if tt.fails != nil && !strings.Contains(w.Body.String(), named["good"]) {
			t.Errorf("%s: what can be repeated is not said: %s", name, w.Body)
		}
	}
}
