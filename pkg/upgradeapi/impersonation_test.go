package upgradeapi

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/transport"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// askedImpersonator answers as an API server that is asked what it impersonates.
type askedImpersonator struct {
	client.Client
	// wide: the manager may impersonate without constraints. as is who the API server takes the probe for.
	wide      bool
	as        string
	err       error
	wideErr   error
	questions int
}

func (a *askedImpersonator) Create(ctx context.Context, o client.Object, _ ...client.CreateOption) error {
	a.questions++
	switch review := o.(type) {
	case *authorizationv1.SelfSubjectAccessReview:
		review.Status.Allowed = a.wide
		return a.wideErr
	case *authenticationv1.SelfSubjectReview:
		if who := ctx.Value(callerKey{}).(transport.ImpersonationConfig); who.UserName != probe || len(who.Groups) > 0 {
			return errors.New("tried with another user than the probe")
		}
		review.Status.UserInfo.Username = a.as
		return a.err
	}
	return errors.New("created something else")
}

// below136 is the client of callers on an API server without constrained impersonation: it can do nothing.
func below136() client.Client {
	return &askedImpersonator{err: apierrors.NewForbidden(schema.GroupResource{Resource: "users"}, probe, errors.New("cannot impersonate"))}
}

func TestWhoseRightsAWriteHas(t *testing.T) {
	user := authenticationv1.UserInfo{Username: "anna", Groups: []string{"operators"}}
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "users"}, probe, errors.New("no"))
	for name, tt := range map[string]struct {
		server askedImpersonator
		user   authenticationv1.UserInfo
		// callers is set when the write has the rights of the user.
		callers bool
		err     string
		logs    string
		asked   int
	}{
		"constrained impersonation (1.36)":                   {server: askedImpersonator{as: probe}, user: user, callers: true, logs: "by constrained impersonation", asked: 2},
		"an API server that refuses it":                      {server: askedImpersonator{err: forbidden}, user: user, logs: "has no constrained impersonation", asked: 2},
		"an API server that does not know SelfSubjectReview": {server: askedImpersonator{err: apierrors.NewNotFound(schema.GroupResource{}, "")}, user: user, logs: "has no constrained impersonation", asked: 2},
		"one that ignores the header: everybody is the manager": {server: askedImpersonator{as: "system:serviceaccount:kube-system:gcu-operator"}, user: user,
			logs: "has no constrained impersonation", asked: 2},
		"a manager that may impersonate without constraints": {server: askedImpersonator{as: probe, wide: true}, user: user, logs: "which is not used", asked: 2},
		"system:masters":          {server: askedImpersonator{as: probe}, user: authenticationv1.UserInfo{Username: "root", Groups: []string{privileged}}},
		"without authentication":  {server: askedImpersonator{as: probe}},
		"no answer about rights":  {server: askedImpersonator{wideErr: errors.New("away")}, user: user, err: "checking for impersonation with the API server: away", asked: 2},
		"no answer to the probe":  {server: askedImpersonator{err: apierrors.NewServiceUnavailable("away")}, user: user, err: "trying impersonation", asked: 4},
		"the probe ends too late": {server: askedImpersonator{err: context.DeadlineExceeded}, user: user, err: "trying impersonation", asked: 4},
	} {
		t.Run(name, func(t *testing.T) {
			var logged strings.Builder
			own, callers := &struct{ client.Client }{&tt.server}, &tt.server
			i := &Impersonator{own: own, callers: callers, log: funcr.New(func(_, text string) { logged.WriteString(text) }, funcr.Options{})}
			for range 2 { // an answer is kept, an error is not
				ctx, writer, err := i.Writer(t.Context(), tt.user)
				if tt.err != "" {
					if err == nil || !strings.Contains(err.Error(), tt.err) {
						t.Errorf("got %v, want %q", err, tt.err)
					}
					continue
				}
				as, _ := ctx.Value(callerKey{}).(transport.ImpersonationConfig)
				if err != nil || (writer == client.Client(callers)) != tt.callers || (as.UserName == tt.user.Username && as.UserName != "") != tt.callers {
					t.Errorf("writes as %q, with the client of callers: %t (%v)", as.UserName, writer == client.Client(callers), err)
				}
			}
			if tt.server.questions != tt.asked || strings.Count(logged.String(), "Writing with") != min(1, len(tt.logs)) || !strings.Contains(logged.String(), tt.logs) {
				t.Errorf("asked %d times, want %d; logged %s", tt.server.questions, tt.asked, logged.String())
			}
		})
	}
}

func TestAClusterWritesWithTheRightsOfTheCaller(t *testing.T) {
	own, callers := &askedImpersonator{}, &askedImpersonator{}
	c := &cluster{Client: own, impersonator: &Impersonator{own: own, callers: callers, detected: true, usable: true}}
	ctx, writer, err := c.writer(t.Context(), authenticationv1.UserInfo{Username: "alice"})
	if err != nil || writer != client.Client(callers) || ctx.Value(callerKey{}) == nil {
		t.Errorf("it writes with another client, error %v", err)
	}
}
