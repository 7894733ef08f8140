package upgradeapi

import (
	"context"
	"net/http"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/topsops/gcu-operator/pkg/upgradeapi/request"
)

// Guard returns a handler that passes requests to next if they have the token of a user with the
// right to their path, as the API server authorizes its own paths: nonResourceURLs in a
// ClusterRole, with the method in lower case as the verb. Others get 401 or 403. Requests with an
// unknown token are limited per address, so that they do not load the API server.
func (t *TokenAccess) Guard(next http.Handler) http.Handler {
	limits := newLimits(DefaultRates, t.clock)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), callTimeout)
		defer cancel()
		if err := t.admitPath(ctx, r, limits); err != nil {
			status, message := failure(err)
			if status == http.StatusUnauthorized {
				w.Header().Set("WWW-Authenticate", "Bearer")
			}
			http.Error(w, message, status)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (t *TokenAccess) admitPath(ctx context.Context, r *http.Request, limits *limits) error {
	user, err := t.userOf(ctx, r, limits)
	if err != nil {
		return err
	}
	verb := strings.ToLower(r.Method)
	allowed, err := t.allowed(ctx, user, authorizationv1.SubjectAccessReviewSpec{
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: r.URL.Path, Verb: verb},
	})
	if err == nil && !allowed {
		err = request.Refuse(http.StatusForbidden, "user %q cannot %s path %q: a ClusterRole with nonResourceURLs allows it", user.Username, verb, r.URL.Path)
	}
	return err
}

// userOf returns the user of the bearer token of a request.
func (t *TokenAccess) userOf(ctx context.Context, r *http.Request, limits *limits) (authenticationv1.UserInfo, error) {
	token := bearerToken(r)
	if token == "" {
		return authenticationv1.UserInfo{}, request.Refuse(http.StatusUnauthorized, "a bearer token is needed")
	}
	if user, known := t.Known(token); known {
		return user, nil
	}
	if !limits.allow("address "+addressOf(r), false) {
		return authenticationv1.UserInfo{}, tooMany()
	}
	return t.Authenticate(ctx, token)
}
