package admission

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/semaphore"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/preview"
)

// foretold is a Predictor with one answer.
type foretold struct {
	unlimited bool
	answer    preview.Preview
	err       error
	panics    bool
	asked     *preview.Question
}

func (f *foretold) HasVersions(context.Context, *topsv1.GcuResource) (bool, error) {
	return !f.unlimited, nil
}

func (f *foretold) AskVersions(_ context.Context, q preview.Question) (*preview.Preview, error) {
	f.asked = &q
	if f.panics {
		var nothing *preview.Preview
		nothing.Blocked = "panics"
	}
	return &f.answer, f.err
}

func gr(uid types.UID, version string) *topsv1.GcuResource {
	return &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: "gr", UID: uid}, Spec: topsv1.GcuResourceSpec{Driver: &topsv1.BaseFields{Version: version}}}
}

// about is an AdmissionReview of a change, as the API server sends it; edit changes the request.
func about(t *testing.T, before, after *topsv1.GcuResource, edit func(*admissionv1.AdmissionRequest)) string {
	t.Helper()
	review := admissionv1.AdmissionReview{TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{UID: "request", Operation: admissionv1.Update, Name: "gr"}}
	for o, into := range map[*topsv1.GcuResource]*runtime.RawExtension{before: &review.Request.OldObject, after: &review.Request.Object} {
		raw, err := json.Marshal(o)
		check(t, err)
		into.Raw = raw
	}
	if edit != nil {
		edit(review.Request)
	}
	body, err := json.Marshal(review)
	check(t, err)
	return string(body)
}

// post sends a body to the webhook.
func post(t *testing.T, handler http.Handler, body string) *httptest.ResponseRecorder {
	t.Helper()
	request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, Path, strings.NewReader(body))
	request.Header.Set("Content-Type", "application/json")
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, request)
	return recorder
}

// served answers a review.
func served(t *testing.T, v *Versions, body string) *admissionv1.AdmissionResponse {
	t.Helper()
	recorder := post(t, v.Handler(), body)
	var answered admissionv1.AdmissionReview
	check(t, json.Unmarshal(recorder.Body.Bytes(), &answered))
	if answered.Response == nil || answered.Response.UID != "request" || answered.Kind != "AdmissionReview" || answered.APIVersion != "admission.k8s.io/v1" {
		t.Fatalf("no answer to the request: %s", recorder.Body)
	}
	return answered.Response
}

// versionsFor returns what looks at changes of the gr that is stored.
func versionsFor(t *testing.T, predictor Predictor, reads interceptor.Funcs) *Versions {
	t.Helper()
	scheme := runtime.NewScheme()
	check(t, topsv1.AddToScheme(scheme))
	stored := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(reads).WithObjects(gr("uid", "1.4.0")).Build()
	return &Versions{Predictor: predictor, Reader: stored, Semaphore: semaphore.NewWeighted(1), Account: "system:serviceaccount:ns:operator", Now: time.Now, ResponseTimeout: time.Minute}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestWhichChangesAreRefused(t *testing.T) {
	left := []preview.LeftNode{{Name: "n", Reason: "VersionNotAllowed", Message: "driver 1.4.0 > 1.6.0: the allowed path is …"}}
	const why = "on 1 node, as on n: driver 1.4.0 > 1.6.0: the allowed path is …"
	notAllowed := preview.Preview{Rollout: preview.Rollout{Left: left}}
	broken := interceptor.Funcs{Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
		return errors.New("no cache")
	}}
	for _, test := range []struct {
		name      string
		predictor foretold
		edit      func(before, after *topsv1.GcuResource)
		request   func(*admissionv1.AdmissionRequest)
		taken     bool
		reads     interceptor.Funcs
		refused   string
		warns     string
		asks      bool
	}{
		{name: "contract 97: no node may go there", predictor: foretold{answer: notAllowed}, asks: true, refused: "the UpgradePolicy does not allow these versions: " + why},
		{name: "contract 97: some may not", predictor: foretold{answer: preview.Preview{Rollout: preview.Rollout{Left: left, Allowed: 1}}}, asks: true,
			warns: "not allowed by the UpgradePolicy " + why},
		{name: "contract 97: all may", asks: true},
		{name: "the policy says nothing about versions", predictor: foretold{unlimited: true, answer: notAllowed}, taken: true},
		{name: "who does not know the UID asks", predictor: foretold{answer: notAllowed}, edit: func(before, _ *topsv1.GcuResource) { before.UID = "guessed" }, taken: true},
		{name: "who knows the UID asks for another gr", predictor: foretold{answer: notAllowed}, edit: func(_, after *topsv1.GcuResource) { after.Name = "another" }, taken: true},
		{name: "who knows the UID names another gr", predictor: foretold{answer: notAllowed}, request: func(r *admissionv1.AdmissionRequest) { r.Name = "another" }, taken: true},
		{name: "who knows the UID invents what is stored", edit: func(before, _ *topsv1.GcuResource) { before.Spec.Driver.Version = "9" }, asks: true},
		{name: "the operator goes back", predictor: foretold{answer: notAllowed}, taken: true,
			request: func(r *admissionv1.AdmissionRequest) { r.UserInfo.Username = "system:serviceaccount:ns:operator" }},
		{name: "a tool tries all before it applies the policy", predictor: foretold{answer: notAllowed}, request: func(r *admissionv1.AdmissionRequest) { r.DryRun = ptr.To(true) }, asks: true,
			warns: "without --dry-run this is refused: the UpgradePolicy does not allow these versions: " + why},
		{name: "the versions cannot be read", predictor: foretold{err: errors.New("no answer")}, asks: true, warns: preview.NotChecked + ": no answer"},
		{name: "the cache is not there yet", reads: broken, warns: preview.NotChecked + ": no cache"},
		{name: "other plans take all the time", predictor: foretold{answer: notAllowed}, taken: true, warns: preview.NotChecked + ": Timeout: too many changes at the same time"},
		{name: "a fault of the program", predictor: foretold{panics: true}, asks: true, warns: preview.NotChecked + ": internal error"},
	} {
		t.Run(test.name, func(t *testing.T) {
			v := versionsFor(t, &test.predictor, test.reads)
			if test.taken {
				v.ResponseTimeout = 10 * time.Millisecond
				check(t, v.Semaphore.Acquire(t.Context(), 1))
			}
			before, after := gr("uid", "1.4.0"), gr("uid", "1.6.0")
			if test.edit != nil {
				test.edit(before, after)
			}
			got := served(t, v, about(t, before, after, test.request))
			if got.Allowed != (test.refused == "") || !got.Allowed && (got.Result.Message != test.refused || got.Result.Code != http.StatusForbidden) {
				t.Errorf("allowed is %t: %+v, want %q", got.Allowed, got.Result, test.refused)
			}
			if said := strings.Join(got.Warnings, "; "); !strings.HasPrefix(said, test.warns) || (said == "") != (test.warns == "") {
				t.Errorf("the warning is %q, want %q", said, test.warns)
			}
			if q := test.predictor.asked; (q != nil) != test.asks || test.asks && (!q.Approved || q.Present.Spec.Driver.Version != "1.4.0" || q.Wanted.Spec.Driver.Version != "1.6.0") {
				t.Errorf("asked %+v", q)
			}
			if !test.taken {
				check(t, v.Semaphore.Acquire(t.Context(), 1))
			}
		})
	}
}

// Reading a change that is no gr is the fault of the API server, not of the administrator.
func TestWhatCannotBeReadIsAllowed(t *testing.T) {
	v := versionsFor(t, &foretold{}, interceptor.Funcs{})
	for body, warning := range map[string]string{
		`{"request":{"uid":"request","name":"gr","object":{"metadata":{"name":"gr"},"spec":1},"oldObject":{"metadata":{"uid":"uid"}}}}`: preview.NotChecked + ": reading the GcuResource: ",
		`{"request":{"uid":"request","name":"gr","object":{"spec":1},"oldObject":{"spec":1}}}`:                                          "",
	} {
		if got := served(t, v, body); !got.Allowed || !strings.HasPrefix(strings.Join(got.Warnings, ";"), warning) {
			t.Errorf("%s: answered %+v", body, got)
		}
	}
	for _, body := range []string{"", "{", "{}", "[]", `{"request":null}`} {
		if got := post(t, v.Handler(), body); got.Code != http.StatusBadRequest {
			t.Errorf("%q: answered %d %s", body, got.Code, got.Body)
		}
	}
}
