package upgradeapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

func TestLoggable(t *testing.T) {
	long := strings.Repeat("x", 300)
	for body, want := range map[string]string{
		"":                                      "",
		`{"file": "gr.json"}`:                   `{"file": "gr.json"}`,
		`{"policy":"foreground"}`:               `{"policy":"foreground"}`,
		`{"spec":{"a":"secret"},"mode":"x"}`:    `{"mode":"x","spec":"…"}`,
		`{"to":"` + long + `"}`:                 `{"to":"…"}`,
		`{"spec": "secret"`:                     "…",
		`secret`:                                "…",
		`["secret"]`:                            "…",
		`{"a":1,"b":1,"c":1,"d":1,"e":1,"f":1}`: "…",
		`{"` + strings.Repeat("k", 2000) + `":1}`: "…",
	} {
		if got := loggable([]byte(body)); got != want {
			t.Errorf("loggable(%s) = %s, want %s", body, got, want)
		}
	}
}

func TestFailureHasAStatusThatFits(t *testing.T) {
	api := func(code int32) error {
		return fmt.Errorf("doing: %w", &apierrors.StatusError{ErrStatus: metav1.Status{Code: code, Message: "plain"}})
	}
	tests := []struct {
		err    error
		status int
		says   string
	}{
		{conflict("busy"), http.StatusConflict, "busy"},
		{fmt.Errorf("doing: %w", badRequest("bad")), http.StatusBadRequest, "bad"},
		{api(404), 404, "plain"}, {api(409), 409, "plain"}, {api(422), 422, "plain"}, {api(429), 429, "plain"},
		{api(403), 500, "plain"}, {api(401), 500, "plain"}, {api(500), 500, "plain"}, {api(0), 500, "plain"},
		{fmt.Errorf("doing: %w", context.DeadlineExceeded), 504, "in time"},
		{&url.Error{Op: "Get", URL: "x", Err: errors.New("connection refused")}, 502, "cannot be reached"},
		{&url.Error{Op: "Get", URL: "x", Err: context.DeadlineExceeded}, 504, "in time"},
		{errors.New("odd"), 500, "odd"},
	}
	for _, tt := range tests {
		if status, message := failure(tt.err); status != tt.status || !strings.Contains(message, tt.says) {
			t.Errorf("failure(%v) = %d %q, want %d with %q", tt.err, status, message, tt.status, tt.says)
		}
	}
}

func TestNextStepOfARecreation(t *testing.T) {
	now := time.Date(2022, 10, 20, 3, 33, 48, 0, time.UTC)
	gr := func(change ...func(*topsv1.GcuResource)) *topsv1.GcuResource {
		o := &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: "x", UID: "old", Generation: 1}}
		for _, alter := range change {
			alter(o)
		}
		return o
	}
	uid := func(o *topsv1.GcuResource) { o.UID = "new" }
	ours := func(o *topsv1.GcuResource) {
		o.UID, o.Annotations = "new", map[string]string{topsv1.AnnotationRecreation: "this"}
	}
	going := func(o *topsv1.GcuResource) { o.DeletionTimestamp = &metav1.Time{Time: now} }
	running := func(o *topsv1.GcuResource) { o.Status.Phase, o.Status.ObservedGeneration = topsv1.PhaseRunning, 1 }
	changed := func(o *topsv1.GcuResource) { o.Generation = 2 }
	tests := []struct {
		name    string
		created bool
		present *topsv1.GcuResource
		after   time.Duration
		want    step
	}{
		{"the old gr is there", false, gr(), 0, stepDelete},
		{"the old gr is going", false, gr(going), 0, stepAwaitGone},
		{"the old gr is going for days", false, gr(going), 100 * time.Hour, stepAwaitGone},
		{"the old gr is gone", false, nil, 0, stepCreate},
		{"the old gr is gone after days", false, nil, 100 * time.Hour, stepCreate},
		{"the new gr is there, and not stored", false, gr(ours), 0, stepStoreCreated},
		{"another gr is there", false, gr(uid), 0, stepOvertaken},
		{"a gr of another recreation is there", false, gr(ours, func(o *topsv1.GcuResource) { o.Annotations[topsv1.AnnotationRecreation] = "earlier" }), 0, stepOvertaken},
		{"the new gr is deployed", true, gr(ours), 0, stepAwaitRunning},
		{"the new gr is deployed for too long", true, gr(ours), upgradeDeadline + 1, stepExpired},
		{"the new gr runs", true, gr(ours, running), 0, stepDone},
		{"the new gr runs at last", true, gr(ours, running), upgradeDeadline + 1, stepDone},
		{"the new gr ran before it was changed", true, gr(ours, running, changed), 0, stepAwaitRunning},
		{"the new gr was deleted", true, nil, 0, stepOvertaken},
		{"the new gr is being deleted", true, gr(ours, running, going), 0, stepOvertaken},
		{"the new gr was replaced", true, gr(ours, func(o *topsv1.GcuResource) { o.UID = "newer" }), 0, stepOvertaken},
	}
	for _, tt := range tests {
		r := &recreation{gr: gr(), replaces: "old", uid: "this", accepted: now}
		if tt.created {
			r.created = "new"
		}
		if got := r.next(tt.present, now.Add(tt.after)); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestARecreationIsReadAsItWasStored(t *testing.T) {
	r := &recreation{gr: &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Spec: topsv1.GcuResourceSpec{Driver: &topsv1.BaseFields{Version: "2"}}},
		replaces: "old", request: "id", user: "who", accepted: time.Date(2022, 10, 20, 3, 33, 48, 0, time.UTC)}
	stored, err := r.configMap("kube-system")
	if err != nil {
		t.Fatal(err)
	}
	got, err := recreationIn(stored)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(r, got, cmp.AllowUnexported(recreation{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for name, spoil := range map[string]func(*corev1.ConfigMap){
		"no gr":            func(c *corev1.ConfigMap) { delete(c.Data, keyResource) },
		"no gr to replace": func(c *corev1.ConfigMap) { delete(c.Data, keyReplaces) },
		"no time":          func(c *corev1.ConfigMap) { c.Data[keyAccepted] = "soon" },
		"another gr":       func(c *corev1.ConfigMap) { c.Name = recreationName("y") },
	} {
		bad := stored.DeepCopy()
		spoil(bad)
		if _, err := recreationIn(bad); err == nil {
			t.Errorf("%s: it is taken for one", name)
		}
	}
}
