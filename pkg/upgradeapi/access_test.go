package upgradeapi

import (
	"context"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/keyutil"
	"k8s.io/utils/clock"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/test/apiserver"
)

// asking counts the reviews of callers that the API server gets.
type asking struct {
	client.Client
	tokens, rights atomic.Int64
}

func (a *asking) Create(ctx context.Context, o client.Object, options ...client.CreateOption) error {
	switch o.(type) {
	case *authenticationv1.TokenReview:
		a.tokens.Add(1)
	case *authorizationv1.SubjectAccessReview:
		a.rights.Add(1)
	}
	return a.Client.Create(ctx, o, options...)
}

// tokenOf creates a ServiceAccount with verbs on gcuresources, and returns a token of it.
func (d *testServer) tokenOf(name string, verbs ...string) string {
	d.t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	d.make(account)
	if len(verbs) > 0 {
		d.make(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name},
			Rules: []rbacv1.PolicyRule{{APIGroups: []string{topsv1.GroupVersion.Group}, Resources: []string{"gcuresources"}, Verbs: verbs}}})
		d.make(&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
			Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: namespace, Name: name}}})
		apiserver.Shared(d.t).AwaitRights(d.t, "system:serviceaccount:"+namespace+":"+name)
	}
	request := &authenticationv1.TokenRequest{}
	d.must(d.admin.SubResource("token").Create(context.Background(), account, request))
	return request.Status.Token
}

// authorized sends a request with a token, "" for none.
func (d *testServer) authorized(token, method, path, body string) answer {
	d.t.Helper()
	if token == "" {
		return d.send(method, path, body)
	}
	return d.send(method, path, body, "Authorization", "Bearer "+token)
}

func TestModeToken(t *testing.T) {
	counted := &asking{Client: apiserver.Shared(t).Client(t, apiserver.Operator)}
	d := newTestServer(t, func(o *Options) {
		o.Access = NewTokenAccess(counted, clock.RealClock{})
		o.Impersonator = &Impersonator{own: o.Client, callers: below136(), log: logr.Discard()}
	})
	d.create("guarded")
	reader, writer, nobody := d.tokenOf("reader", "get", "list"), d.tokenOf("writer", "get", "update"), d.tokenOf("nobody")
	pauser := d.tokenOf("pauser", "update") // another author than that of the upgrade, which comes later
	path, recreate := "/gum/v1/gr/guarded", `{"spec": {}, "mode": "recreate"}`
	tests := []struct {
		name, token, method, path, body string
		status                          int
	}{
		{"no token", "", http.MethodGet, path, "", http.StatusUnauthorized},
		{"a token that is none", "abc", http.MethodGet, path, "", http.StatusUnauthorized},
		{"a token without rights", nobody, http.MethodGet, path, "", http.StatusForbidden},
		{"who may get, gets", reader, http.MethodGet, path, "", http.StatusOK},
		{"who may list, lists", reader, http.MethodGet, "/gum/v1/gr", "", http.StatusOK},
		{"who may not list, does not", writer, http.MethodGet, "/gum/v1/gr", "", http.StatusForbidden},
		{"who may get, does not upgrade", reader, http.MethodPut, path, `{"spec": {}}`, http.StatusForbidden},
		{"who may get, does not delete", reader, http.MethodDelete, path, "", http.StatusForbidden},
		{"who may get, does not pause", reader, http.MethodPost, path + "/pause", "", http.StatusForbidden},
		{"who may get, does not roll back", reader, http.MethodPost, path + "/rollback", "", http.StatusForbidden},
		{"who may get, sees components", reader, http.MethodGet, path + "/resource/driver", "", http.StatusNotFound},
		{"who may update, does not recreate", writer, http.MethodPut, path, recreate, http.StatusForbidden},
		{"who may update, pauses", pauser, http.MethodPost, path + "/pause", "", http.StatusOK},
		{"who may update, upgrades", writer, http.MethodPut, path, `{"spec": {"driver": {"version": "2"}}}`, http.StatusOK},
		{"who may update, does not delete", writer, http.MethodDelete, path, "", http.StatusForbidden},
		{"the document is for everybody", "", http.MethodGet, "/gum/v1/openapi.yaml", "", http.StatusOK},
	}
	for _, tt := range tests {
		got := d.authorized(tt.token, tt.method, tt.path, tt.body)
		if got.status != tt.status {
			t.Errorf("%s: %d %s, want %d", tt.name, got.status, got.body, tt.status)
		}
		if tt.status == http.StatusUnauthorized && got.header.Get("WWW-Authenticate") != "Bearer" {
			t.Errorf("%s: %v", tt.name, got.header)
		}
	}
	if now := d.gr("guarded"); now.DeletionTimestamp != nil || now.Spec.Driver.Version != "2" {
		t.Errorf("got %+v", now)
	}
	if got, want := d.gr("guarded").Annotations[topsv1.AnnotationLastAuthor], "system:serviceaccount:kube-system:writer"; got != want {
		t.Errorf("written by the manager below Kubernetes 1.36, the author is %q, want %q", got, want)
	}
	if want := "user=system:serviceaccount:kube-system:writer"; !strings.Contains(d.logged(), want) {
		t.Errorf("the log does not say %s", want)
	}
	tokens, rights := counted.tokens.Load(), counted.rights.Load()
	for range 20 {
		d.authorized(reader, http.MethodGet, path, "")
	}
	if tokens != counted.tokens.Load() || counted.rights.Load() > rights+1 {
		t.Errorf("20 requests asked %d times for the token, %d times for the right", counted.tokens.Load()-tokens, counted.rights.Load()-rights)
	}
}

// signedAgain returns a token with a changed claim, signed like the API server does.
func (d *testServer) signedAgain(token string, change func(claims map[string]any)) string {
	d.t.Helper()
	parts := strings.Split(token, ".")
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	d.must(err)
	claims := map[string]any{}
	d.must(json.Unmarshal(raw, &claims))
	change(claims)
	raw, err = json.Marshal(claims)
	d.must(err)
	signer, err := keyutil.PrivateKeyFromFile(filepath.Join(apiserver.Shared(d.t).ControlPlane.APIServer.CertDir, "sa-signer.key"))
	d.must(err)
	text := parts[0] + "." + base64.RawURLEncoding.EncodeToString(raw)
	hash := sha256.Sum256([]byte(text))
	x, y, err := ecdsa.Sign(rand.Reader, signer.(*ecdsa.PrivateKey), hash[:])
	d.must(err)
	signature := append(x.FillBytes(make([]byte, 32)), y.FillBytes(make([]byte, 32))...)
	return text + "." + base64.RawURLEncoding.EncodeToString(signature)
}

func TestTokensThatAreNotMeantForUsAreRefused(t *testing.T) {
	clk := testingclock.NewFakeClock(time.Now())
	d := newTestServer(t, func(o *Options) { o.Access = NewTokenAccess(o.Client, clk) })
	token := d.tokenOf("visitor", "list")
	status := func(token string) int { return d.authorized(token, http.MethodGet, "/gum/v1/gr", "").status }
	if got := status(d.signedAgain(token, func(map[string]any) {})); got != http.StatusOK {
		t.Fatalf("a token that was signed again: %d, so this test shows nothing", got)
	}
	expired := d.signedAgain(token, func(claims map[string]any) { claims["exp"] = time.Now().Add(-time.Minute).Unix() })
	if got := status(expired); got != http.StatusUnauthorized {
		t.Errorf("a token that has expired: %d", got)
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "visitor"}}
	foreign := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: []string{"vault"}}}
	d.must(d.admin.SubResource("token").Create(context.Background(), account, foreign))
	if got := status(foreign.Status.Token); got != http.StatusUnauthorized {
		t.Errorf("a token for another audience: %d", got)
	}
	d.must(d.admin.Delete(context.Background(), &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "visitor"}}))
	clk.Step(rightTTL + 1)
	d.until(func() string { // the API server's RBAC follows a cache; ours expires
		clk.Step(rightTTL + 1)
		if got := status(token); got != http.StatusForbidden {
			return fmt.Sprintf("a right that was taken away: %d", got)
		}
		return ""
	})
	d.must(d.admin.Delete(context.Background(), account))
	d.until(func() string {
		clk.Step(tokenTTL + 1)
		if got := status(token); got != http.StatusUnauthorized {
			return fmt.Sprintf("a token of an account that is gone: %d", got)
		}
		return ""
	})
}

func TestTokensOfConfiguredAudiences(t *testing.T) {
	d := newTestServer(t, func(o *Options) { o.Access = NewTokenAccess(o.Client, clock.RealClock{}, "gcu-api", "gcu-more") })
	ofAPIServer := d.tokenOf("audience", "list")
	for name, tt := range map[string]struct {
		audiences []string
		want      int
	}{
		"one of the configured":                  {[]string{"gcu-more"}, http.StatusOK},
		"one of the configured, next to another": {[]string{"vault", "gcu-api"}, http.StatusOK},
		"another":                                {[]string{"vault"}, http.StatusUnauthorized},
	} {
		request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: tt.audiences}}
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "audience"}}
		d.must(d.admin.SubResource("token").Create(context.Background(), account, request))
		if got := d.authorized(request.Status.Token, http.MethodGet, "/gum/v1/gr", ""); got.status != tt.want {
			t.Errorf("a token for %s: %d %s, want %d", name, got.status, got.body, tt.want)
		}
	}
	if got := d.authorized(ofAPIServer, http.MethodGet, "/gum/v1/gr", ""); got.status != http.StatusUnauthorized {
		t.Errorf("a token for the API server: %d %s", got.status, got.body)
	}
}

// One user with two logins of different scopes is authorized separately for each.
func TestARightIsThatOfTheWholeUser(t *testing.T) {
	asked := &answering{}
	access := NewTokenAccess(asked, clock.RealClock{})
	for _, user := range []authenticationv1.UserInfo{
		{Username: "a"}, {Username: "b"}, {Username: "a", UID: "1"}, {Username: "a", Groups: []string{"g"}},
		{Username: "a", Extra: map[string]authenticationv1.ExtraValue{"scopes": {"x"}}},
	} {
		before := asked.times
		for range 2 {
			if err := access.Authorize(t.Context(), user, onGr("get", "x")); err != nil {
				t.Error(err)
			}
		}
		if asked.times != before+1 {
			t.Errorf("%+v was asked about %d times", user, asked.times-before)
		}
	}
}

// answering allows everything, and counts its calls.
type answering struct {
	client.Client
	times int
}

func (a *answering) Create(_ context.Context, o client.Object, _ ...client.CreateOption) error {
	o.(*authorizationv1.SubjectAccessReview).Status.Allowed = true
	a.times++
	return nil
}

func TestTokensThatAreGuessedAreBounded(t *testing.T) {
	counted := &asking{Client: apiserver.Shared(t).Client(t, apiserver.Operator)}
	d := newTestServer(t, func(o *Options) {
		o.Access, o.Rates = NewTokenAccess(counted, clock.RealClock{}), Rates{Reads: 1000, Writes: 1e-9}
	})
	d.authorized("guess-1", http.MethodGet, "/gum/v1/gr", "")
	for _, token := range []string{"guess-2", "guess-3", ""} {
		if got := d.authorized(token, http.MethodGet, "/gum/v1/gr", ""); got.status != http.StatusTooManyRequests {
			t.Errorf("%d %s", got.status, got.body)
		}
	}
	if n := counted.tokens.Load(); n != 1 {
		t.Errorf("the API server was asked %d times", n)
	}
}

// A caller with a token that was valid before is not kept out by those who guess tokens.
func TestATokenThatReturnsIsNotAStrangers(t *testing.T) {
	clk := testingclock.NewFakeClock(time.Now())
	counted := &asking{Client: apiserver.Shared(t).Client(t, apiserver.Operator)}
	d := newTestServer(t, func(o *Options) {
		o.Access, o.Clock, o.Rates = NewTokenAccess(counted, clk), clk, Rates{Reads: 1000, Writes: 1e-9}
	})
	token := d.tokenOf("returning", "list")
	status := func(token string) int { return d.authorized(token, http.MethodGet, "/gum/v1/gr", "").status }
	if got := status(token); got != http.StatusOK {
		t.Fatalf("the first time: %d", got)
	}
	if got := status("guess"); got != http.StatusTooManyRequests {
		t.Fatalf("a guess: %d, so this test shows nothing", got)
	}
	clk.Step(tokenTTL + 1)
	before := counted.tokens.Load()
	if got := status(token); got != http.StatusOK || counted.tokens.Load() != before+1 {
		t.Errorf("a minute later: %d after %d reviews, want %d after one", got, counted.tokens.Load()-before, http.StatusOK)
	}
	clk.Step(tokenTTL + 1)
	if got := status(token); got != http.StatusTooManyRequests { // Writes is 1 for ever
		t.Errorf("reviews for one user are unbounded: %d", got)
	}
}

// A token is asked about again, and forgotten when it is not valid any more.
func TestATokenThatWasRevokedIsForgotten(t *testing.T) {
	clk := testingclock.NewFakeClock(time.Now())
	asked := &reviewer{}
	access := NewTokenAccess(asked, clk)
	if _, err := access.Authenticate(t.Context(), "t"); err != nil {
		t.Fatal(err)
	}
	if user, current := access.Known("t"); user.Username != "u" || !current {
		t.Errorf("at first: %v, current: %t", user, current)
	}
	clk.Step(tokenTTL + 1)
	asked.err = errors.New("no answer")
	if _, err := access.Authenticate(t.Context(), "t"); err == nil {
		t.Error("authenticated without an answer of the API server")
	}
	if user, current := access.Known("t"); user.Username != "u" || current {
		t.Errorf("after a minute, without an answer: %v, current: %t", user, current)
	}
	asked.err, asked.revoked = nil, true
	if _, err := access.Authenticate(t.Context(), "t"); !refusedWith(err, http.StatusUnauthorized) {
		t.Errorf("revoked: %v", err)
	}
	if user, _ := access.Known("t"); user.Username != "" {
		t.Errorf("revoked: %v", user)
	}
	asked.revoked = false
	if _, err := access.Authenticate(t.Context(), "t"); err != nil {
		t.Fatal(err)
	}
	clk.Step(userTTL + 1)
	if user, _ := access.Known("t"); user.Username != "" {
		t.Errorf("after a day: %v", user)
	}
}
