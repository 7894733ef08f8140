package upgradeapi

import (
	"context"
	"net/http"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/utils/clock"

	"github.com/topsops/gcu-operator/pkg/connections"
	"github.com/topsops/gcu-operator/pkg/upgradeapi/request"
)

// admission authenticates callers and limits their requests.
type admission struct {
	access Access
	// users limits authenticated callers, each by name; unauthenticated limits the others by address.
	users, unauthenticated *limits
}

func newAdmission(access Access, rates Rates, clk clock.PassiveClock) *admission {
	return &admission{access: access, users: newLimits(rates, clk), unauthenticated: newLimits(rates, clk).together(unauthenticatedFactor)}
}

// userOf returns the user of the bearer token of a request, also if they send too many. Before the API server is
// asked about a token, the request counts for the user that the token had, or for its address if it had none: so
// those who guess tokens do not keep out a caller who returns.
func (a *admission) userOf(ctx context.Context, r *http.Request, reads bool) (authenticationv1.UserInfo, error) {
	token := bearerToken(r)
	user, current := a.access.Known(token)
	if !current {
		limits, caller := a.users, user.Username
		if caller == "" {
			limits, caller = a.unauthenticated, connections.AddressOf(r)
		}
		if !limits.allow(caller, false) {
			return user, tooMany()
		}
		if token == "" {
			return user, request.Refuse(http.StatusUnauthorized, "a bearer token is needed: curl -H \"Authorization: Bearer $(kubectl create token ...)\"")
		}
		var err error
		if user, err = a.access.Authenticate(ctx, token); err != nil {
			return user, err
		}
	}
	if !a.users.allow(user.Username, reads) {
		return user, tooMany()
	}
	return user, nil
}

func tooMany() error {
	return request.Refuse(http.StatusTooManyRequests, "too many requests: wait a second")
}
