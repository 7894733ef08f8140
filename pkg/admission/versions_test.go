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

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/preview"
	"github.com/topsops/gcu-operator/pkg/preview/inquiry"
)

// foretold is an Asker with one answer.
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

func (f *foretold) Ask(_ context.Context, q preview.Question) (*preview.Preview, error) {
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

// served answers a change as the API server asks about it.
func served(t *testing.T, v *Versions, before, after *topsv1.GcuResource) *admissionv1.AdmissionResponse {
	t.Helper()
	review := admissionv1.AdmissionReview{TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{UID: "request", Operation: admissionv1.Update}}
	for o, into := range map[*topsv1.GcuResource]*runtime.RawExtension{before: &review.Request.OldObject, after: &review.Request.Object} {
		raw, err := json.Marshal(o)
		check(t, err)
		into.Raw = raw
	}
	body, err := json.Marshal(review)
	check(t, err)
	request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, Path, strings.NewReader(string(body)))
	request.Header.Set("Content-Type", "application/json")
	recorder := httptest.NewRecorder()
	v.Handler().ServeHTTP(recorder, request)
	var answered admissionv1.AdmissionReview
	check(t, json.Unmarshal(recorder.Body.Bytes(), &answered))
	if answered.Response == nil || answered.Response.UID != "request" {
		t.Fatalf("no answer to the request: %s", recorder.Body)
	}
	return answered.Response
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
		name    string
		asker   foretold
		uid     types.UID
		taken   bool
		reads   interceptor.Funcs
		refused string
		warns   string
		asks    bool
	}{
		{name: "contract 97: no node may go there", asker: foretold{answer: notAllowed}, asks: true, refused: "the UpgradePolicy does not allow these versions: " + why},
		{name: "contract 97: some may not", asker: foretold{answer: preview.Preview{Rollout: preview.Rollout{Left: left, Allowed: 1}}}, asks: true,
			warns: "not allowed by the UpgradePolicy " + why},
		{name: "contract 97: all may", asks: true},
		{name: "the policy says nothing about versions", asker: foretold{unlimited: true, answer: notAllowed}, taken: true},
		{name: "who does not know the UID asks", asker: foretold{answer: notAllowed}, uid: "guessed", taken: true},
		{name: "the versions cannot be read", asker: foretold{err: errors.New("no answer")}, asks: true, warns: preview.NotChecked + ": no answer"},
		{name: "the cache is not there yet", reads: broken, warns: preview.NotChecked + ": no cache"},
		{name: "other plans take all the time", asker: foretold{answer: notAllowed}, taken: true, warns: preview.NotChecked + ": Timeout: too many plans at the same time"},
		{name: "a fault of the program", asker: foretold{panics: true}, asks: true, warns: preview.NotChecked + ": internal error"},
	} {
		t.Run(test.name, func(t *testing.T) {
			scheme := runtime.NewScheme()
			check(t, topsv1.AddToScheme(scheme))
			stored := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(test.reads).WithObjects(gr("uid", "1.4.0")).Build()
			v := &Versions{Asker: &test.asker, Reader: stored, Turns: inquiry.NewTurns(), Patience: time.Minute}
			if test.taken {
				v.Patience = 10 * time.Millisecond
				_, err := v.Turns.Take(t.Context())
				check(t, err)
			}
			before, after := gr("uid", "1.4.0"), gr("uid", "1.6.0")
			if test.uid != "" {
				before.UID = test.uid
			}
			got := served(t, v, before, after)
			if got.Allowed != (test.refused == "") || !got.Allowed && (got.Result.Message != test.refused || got.Result.Code != http.StatusForbidden) {
				t.Errorf("allowed is %t: %+v, want %q", got.Allowed, got.Result, test.refused)
			}
			if said := strings.Join(got.Warnings, "; "); !strings.HasPrefix(said, test.warns) || (said == "") != (test.warns == "") {
				t.Errorf("the warning is %q, want %q", said, test.warns)
			}
			if q := test.asker.asked; (q != nil) != test.asks || test.asks && (!q.Approved || q.Present.Spec.Driver.Version != "1.4.0" || q.Wanted.Spec.Driver.Version != "1.6.0") {
				t.Errorf("asked %+v", q)
			}
			if !test.taken {
				release, err := v.Turns.Take(t.Context())
				if check(t, err); err == nil {
					release()
				}
			}
		})
	}
}

// Reading a change that is no gr is the fault of the API server, not of the administrator.
func TestWhatCannotBeReadIsAllowed(t *testing.T) {
	v := &Versions{Asker: &foretold{}, Turns: inquiry.NewTurns(), Patience: time.Minute}
	review := `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"request","object":{"spec":1},"oldObject":{"spec":1}}}`
	request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, Path, strings.NewReader(review))
	request.Header.Set("Content-Type", "application/json")
	recorder := httptest.NewRecorder()
	v.Handler().ServeHTTP(recorder, request)
	if !strings.Contains(recorder.Body.String(), `"allowed":true`) {
		t.Errorf("answered %s", recorder.Body)
	}
}
