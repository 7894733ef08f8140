package upgradeapi

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/upgradeapi/request"
)

// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create

const (
	// How long answers of the API server about a token or a right are cached.
	tokenTTL = time.Minute
	rightTTL = 10 * time.Second
	// userTTL is how long the user of a token is remembered after that.
	userTTL = 24 * time.Hour
	// cachedReviews bounds both caches; the least recent is dropped.
	cachedReviews = 4096
)

// Access authenticates and authorizes callers. Errors about the caller are of type
// *request.Refusal, with status 401 or 403.
type Access interface {
	// Known returns the user of a token that was authenticated before, with an empty name if there is none. Unless
	// current, the token has to be authenticated again.
	Known(token string) (user authenticationv1.UserInfo, current bool)
	// Authenticate returns the user of a token.
	Authenticate(ctx context.Context, token string) (authenticationv1.UserInfo, error)
	// Authorize returns an error unless a user has a right.
	Authorize(ctx context.Context, user authenticationv1.UserInfo, right authorizationv1.ResourceAttributes) error
}

// TokenAccess asks the API server: a TokenReview authenticates the caller, a
// SubjectAccessReview checks their RBAC rights (contract section 2.10). Use
// NewTokenAccess.
type TokenAccess struct {
	client    client.Client
	clock     clock.PassiveClock
	audiences []string
	// tokens has an identity for the hash of each token.
	tokens *cache.LRUExpireCache
	rights *cache.LRUExpireCache
}

// identity is the user that a token had when it was authenticated.
type identity struct {
	user authenticationv1.UserInfo
	at   time.Time
}

// NewTokenAccess returns a TokenAccess that asks with a client. Tokens must be for one of the audiences; without
// any, for the API server.
func NewTokenAccess(c client.Client, clk clock.PassiveClock, audiences ...string) *TokenAccess {
	return &TokenAccess{client: c, clock: clk, audiences: audiences, tokens: cache.NewLRUExpireCacheWithClock(cachedReviews, clk), rights: cache.NewLRUExpireCacheWithClock(cachedReviews, clk)}
}

// Known implements Access.
func (t *TokenAccess) Known(token string) (user authenticationv1.UserInfo, current bool) {
	known, ok := t.tokens.Get(sha256.Sum256([]byte(token)))
	if !ok {
		return authenticationv1.UserInfo{}, false
	}
	id := known.(identity)
	return id.user, t.clock.Since(id.at) <= tokenTTL
}

// Authenticate implements Access. A token that is not valid any more is forgotten.
func (t *TokenAccess) Authenticate(ctx context.Context, token string) (authenticationv1.UserInfo, error) {
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: t.audiences}}
	if err := t.client.Create(ctx, review); err != nil {
		return authenticationv1.UserInfo{}, fmt.Errorf("authenticating with the API server: %w", err)
	}
	var refused error
	switch {
	case !review.Status.Authenticated:
		refused = request.Refuse(http.StatusUnauthorized, "the bearer token is not valid")
	case !t.meant(review.Status.Audiences):
		refused = request.Refuse(http.StatusUnauthorized, "the bearer token is not for one of the audiences %s", strings.Join(t.audiences, ", "))
	}
	hash := sha256.Sum256([]byte(token))
	if refused != nil {
		t.tokens.Remove(hash)
		return authenticationv1.UserInfo{}, refused
	}
	t.tokens.Add(hash, identity{review.Status.User, t.clock.Now()}, userTTL)
	return review.Status.User, nil
}

// meant reports whether a token that is valid for some audiences is for one of ours. An API server or webhook
// that does not know audiences names none: then it has not checked them.
func (t *TokenAccess) meant(valid []string) bool {
	return len(t.audiences) == 0 || slices.ContainsFunc(valid, func(audience string) bool { return slices.Contains(t.audiences, audience) })
}

// Authorize implements Access.
func (t *TokenAccess) Authorize(ctx context.Context, user authenticationv1.UserInfo, right authorizationv1.ResourceAttributes) error {
	allowed, err := t.allowed(ctx, user, authorizationv1.SubjectAccessReviewSpec{ResourceAttributes: &right})
	if err == nil && !allowed {
		err = request.Refuse(http.StatusForbidden, "user %q cannot %s %s.%s %q", user.Username, right.Verb, right.Resource, right.Group, right.Name)
	}
	return err
}

// onGr is the right to do verb with the gr of a name; "" means all of them.
func onGr(verb, name string) authorizationv1.ResourceAttributes {
	return authorizationv1.ResourceAttributes{Group: topsv1.GroupVersion.Group, Resource: "gcuresources", Verb: verb, Name: name}
}

// onRollout is the right to do verb with the DaemonRollout of a gr.
func onRollout(verb, namespace, name string) authorizationv1.ResourceAttributes {
	return authorizationv1.ResourceAttributes{Group: topsv1.GroupVersion.Group, Resource: "daemonrollouts", Verb: verb, Namespace: namespace, Name: name}
}

// onPlan is the right to do verb with an UpgradePlan.
func onPlan(verb, name string) authorizationv1.ResourceAttributes {
	return authorizationv1.ResourceAttributes{Group: topsv1.GroupVersion.Group, Resource: "upgradeplans", Verb: verb, Name: name}
}

// allowed reports whether a user has the right that a review asks for.
func (t *TokenAccess) allowed(ctx context.Context, user authenticationv1.UserInfo, of authorizationv1.SubjectAccessReviewSpec) (bool, error) {
	of.User, of.UID, of.Groups, of.Extra = user.Username, user.UID, user.Groups, map[string]authorizationv1.ExtraValue{}
	for key, values := range user.Extra {
		of.Extra[key] = authorizationv1.ExtraValue(values)
	}
	question, err := json.Marshal(of)
	if err != nil {
		return false, fmt.Errorf("encoding what %s is authorized for: %w", user.Username, err)
	}
	if allowed, known := t.rights.Get(string(question)); known {
		return allowed == true, nil
	}
	review := &authorizationv1.SubjectAccessReview{Spec: of}
	if err := t.client.Create(ctx, review); err != nil {
		return false, fmt.Errorf("authorizing %s with the API server: %w", user.Username, err)
	}
	t.rights.Add(string(question), review.Status.Allowed, rightTTL)
	return review.Status.Allowed, nil
}

// authorize returns an error unless the caller has all of the rights.
func authorize(ctx context.Context, access Access, c call, rights ...authorizationv1.ResourceAttributes) error {
	if access == nil {
		return nil
	}
	for _, right := range rights {
		if err := access.Authorize(ctx, c.user, right); err != nil {
			return err
		}
	}
	return nil
}

// bearerToken returns the bearer token of a request, "" if it has none.
func bearerToken(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}
