package upgradeapi

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// reviewer answers reviews: token "t" is user u, who may get /metrics.
type reviewer struct {
	client.Client
	tokens, rights int
	err            error
}

func (r *reviewer) Create(_ context.Context, o client.Object, _ ...client.CreateOption) error {
	switch review := o.(type) {
	case *authenticationv1.TokenReview:
		r.tokens++
		review.Status.Authenticated = review.Spec.Token == "t"
		review.Status.User.Username = "u"
	case *authorizationv1.SubjectAccessReview:
		r.rights++
		path := review.Spec.NonResourceAttributes
		review.Status.Allowed = review.Spec.ResourceAttributes == nil && review.Spec.User == "u" && *path == authorizationv1.NonResourceAttributes{Path: "/metrics", Verb: "get"}
	}
	return r.err
}

func TestAGuardedPath(t *testing.T) {
	asked := &reviewer{}
	guarded := NewTokenAccess(asked, testingclock.NewFakePassiveClock(time.Now())).Guard(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	status := func(method, path, token string) int {
		r, w := httptest.NewRequest(method, path, nil), httptest.NewRecorder()
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		guarded.ServeHTTP(w, r)
		return w.Code
	}
	for name, tt := range map[string]struct {
		method, path, token string
		status              int
	}{
		"who may get the path, gets it":      {"GET", "/metrics", "t", http.StatusOK},
		"another path":                       {"GET", "/secrets", "t", http.StatusForbidden},
		"another method":                     {"POST", "/metrics", "t", http.StatusForbidden},
		"no token":                           {"GET", "/metrics", "", http.StatusUnauthorized},
		"a token that the API server denies": {"GET", "/metrics", "x", http.StatusUnauthorized},
	} {
		if got := status(tt.method, tt.path, tt.token); got != tt.status {
			t.Errorf("%s: %d, want %d", name, got, tt.status)
		}
	}
	before := *asked
	if status("GET", "/metrics", "t"); asked.tokens != before.tokens || asked.rights != before.rights {
		t.Errorf("the API server was asked again")
	}
	for range 1000 {
		status("GET", "/metrics", "x")
	}
	if got := status("GET", "/metrics", "x"); got != http.StatusTooManyRequests || asked.tokens > 200 {
		t.Errorf("%d after %d reviews of a wrong token", got, asked.tokens)
	}
	if got := status("GET", "/metrics", "t"); got != http.StatusOK {
		t.Errorf("who has a token is answered %d meanwhile", got)
	}
	asked.err = errors.New("no answer")
	if got := status("GET", "/other", "t"); got != http.StatusInternalServerError {
		t.Errorf("%d without an answer of the API server", got)
	}
}
