package upgradeapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
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
	// revoked makes no token valid.
	revoked bool
	// unaware answers as an API server that does not look at audiences.
	unaware bool
}

func (r *reviewer) Create(_ context.Context, o client.Object, _ ...client.CreateOption) error {
	switch review := o.(type) {
	case *authenticationv1.TokenReview:
		r.tokens++
		review.Status.Authenticated = review.Spec.Token == "t" && !r.revoked
		review.Status.User.Username = "u"
		if !r.unaware && review.Status.Authenticated {
			review.Status.Audiences = review.Spec.Audiences
		}
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
		"another method":                     {"POST", "/metrics", "t", http.StatusMethodNotAllowed},
		"an invented method":                 {"STEAL", "/metrics", "t", http.StatusMethodNotAllowed},
		"HEAD is a verb of its own":          {"HEAD", "/metrics", "t", http.StatusForbidden},
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
	for i := range 1000 {
		if status("STEAL"+fmt.Sprint(i), "/metrics", "t"); asked.rights != before.rights {
			t.Fatal("the API server was asked about an invented method")
		}
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

// guardedBy returns a function that sends a GET of the metrics from an address, guarded by a reviewer.
func guardedBy(asked *reviewer, audiences ...string) func(address, path, token string) *httptest.ResponseRecorder {
	access := NewTokenAccess(asked, testingclock.NewFakePassiveClock(time.Now()), audiences...)
	guarded := access.Guard(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	return func(address, path, token string) *httptest.ResponseRecorder {
		r, w := httptest.NewRequest(http.MethodGet, path, nil), httptest.NewRecorder()
		r.RemoteAddr = address
		r.Header.Set("Authorization", "Bearer "+token)
		guarded.ServeHTTP(w, r)
		return w
	}
}

func TestAGuardedPathIsNotAskedForWithoutBound(t *testing.T) {
	asked := &reviewer{}
	get := guardedBy(asked)
	for i := range 1000 {
		get(fmt.Sprintf("[2001:db8::%x]:1", i), "/metrics", fmt.Sprint("guess-", i))
	}
	if most := int(2 * unauthenticatedFactor * DefaultRates.Writes); asked.tokens > most {
		t.Errorf("1000 addresses cost %d reviews of tokens, want at most %d", asked.tokens, most)
	}
	known := &reviewer{}
	get = guardedBy(known)
	for i := range 5000 {
		get("192.0.2.1:1", fmt.Sprint("/", i), "t")
	}
	if most := int(2 * DefaultRates.Reads); known.rights > most {
		t.Errorf("one user costs %d reviews of rights, want at most %d", known.rights, most)
	}
}

func TestWhatAGuardedPathSaysIsPlain(t *testing.T) {
	asked := &reviewer{err: errors.New("\x1b[2J\u202e")}
	if text := guardedBy(asked)("192.0.2.1:1", "/metrics", "t").Body.String(); strings.ContainsAny(text, "\x1b\u202e") || !strings.Contains(text, "the API server: ") {
		t.Errorf("got %q", text)
	}
}

func TestAnAPIServerThatIgnoresAudiencesIsNotBelieved(t *testing.T) {
	for _, tt := range []struct {
		audiences []string
		unaware   bool
		want      int
	}{
		{nil, false, http.StatusOK},
		{nil, true, http.StatusOK},
		{[]string{"a", "gcu"}, false, http.StatusOK},
		{[]string{"a", "gcu"}, true, http.StatusUnauthorized},
	} {
		if got := guardedBy(&reviewer{unaware: tt.unaware}, tt.audiences...)("192.0.2.1:1", "/metrics", "t").Code; got != tt.want {
			t.Errorf("audiences %v, ignored: %t: %d, want %d", tt.audiences, tt.unaware, got, tt.want)
		}
	}
}
