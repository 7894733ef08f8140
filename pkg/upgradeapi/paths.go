package upgradeapi

import (
	"context"
	"net/http"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/topsops/gcu-operator/pkg/plaintext"
	"github.com/topsops/gcu-operator/pkg/upgradeapi/request"
)

// Guard returns a handler that passes GETs and HEADs to next if they have the token of a user with the
// right to their path, as the API server authorizes its own paths: nonResourceURLs in a
// ClusterRole, with the method in lower case as the verb. Others get 401, 403 or 405. Requests are limited
// as those of the REST API, so that they do not load the API server.
func (t *TokenAccess) Guard(next http.Handler) http.Handler {
	admission := newAdmission(t, DefaultRates, t.clock)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), callTimeout)
		defer cancel()
		if err := t.admitPath(ctx, r, admission); err != nil {
			status, message := failure(err)
			switch status {
			case http.StatusUnauthorized:
				w.Header().Set("WWW-Authenticate", "Bearer")
			case http.StatusMethodNotAllowed:
				w.Header().Set("Allow", "GET, HEAD")
			}
			http.Error(w, plaintext.Line(message), status)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (t *TokenAccess) admitPath(ctx context.Context, r *http.Request, admission *admission) error {
	if r.Method != http.MethodGet && r.Method != http.MethodHead { // nothing else becomes a verb, and a cached answer
		return request.Refuse(http.StatusMethodNotAllowed, "only GET and HEAD are allowed here")
	}
	user, err := admission.userOf(ctx, r, true)
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
