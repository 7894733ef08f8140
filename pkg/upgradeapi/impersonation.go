package upgradeapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/topsops/gcu-operator/pkg/upgradeapi/request"
)

// +kubebuilder:rbac:groups=authentication.k8s.io,resources=users;groups,verbs={"impersonate:user-info"}
// +kubebuilder:rbac:groups=authentication.k8s.io,resources=serviceaccounts,verbs={"impersonate:serviceaccount"}
// +kubebuilder:rbac:groups=authentication.k8s.io,resources=selfsubjectreviews,verbs={"impersonate-on:user-info:create"}
// +kubebuilder:rbac:groups=topsops.enflame.com,resources=gcuresources,verbs={"impersonate-on:serviceaccount:create","impersonate-on:serviceaccount:delete","impersonate-on:serviceaccount:patch"}
// +kubebuilder:rbac:groups=topsops.enflame.com,resources=gcuresources,verbs={"impersonate-on:user-info:create","impersonate-on:user-info:delete","impersonate-on:user-info:patch"}
// +kubebuilder:rbac:groups=topsops.enflame.com,resources=daemonrollouts,verbs={"impersonate-on:serviceaccount:patch","impersonate-on:user-info:patch"}
// +kubebuilder:rbac:groups=topsops.enflame.com,resources=upgradeplans,verbs={"impersonate-on:serviceaccount:create","impersonate-on:serviceaccount:patch","impersonate-on:user-info:create","impersonate-on:user-info:patch"}

const (
	// probe is the user that shows whether the API server impersonates; nothing is bound to it.
	probe = "gcu-operator:probe"
	// privileged is the group that no API server lets anyone impersonate in a constrained way.
	privileged = "system:masters"
	// serviceAccount is how names of ServiceAccounts begin.
	serviceAccount = "system:serviceaccount:"
)

// Impersonator writes with the rights of callers, where the API server has constrained impersonation
// (KEP-5284, on by default since Kubernetes 1.36): the manager may impersonate any user, but only to
// write grs, DaemonRollouts and UpgradePlans. Elsewhere it writes with its own rights, after Access has authorized
// the caller. It never uses the impersonation that is not constrained. Use NewImpersonator.
type Impersonator struct {
	// own has the rights of the manager, callers those of the user in the context.
	own, callers client.Client
	log          logr.Logger

	mutex    sync.Mutex
	detected bool
	usable   bool
}

// NewImpersonator returns an Impersonator; own are the manager's own client and its configuration. It
// returns an error if the configuration is invalid.
func NewImpersonator(own client.Client, config *rest.Config, log logr.Logger) (*Impersonator, error) {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return asCaller{next} })
	callers, err := client.New(config, client.Options{Scheme: own.Scheme(), Mapper: own.RESTMapper()})
	if err != nil {
		return nil, fmt.Errorf("making a client for callers: %w", err)
	}
	return &Impersonator{own: own, callers: callers, log: log}, nil
}

// Writer returns a client and a context that write grs, DaemonRollouts and UpgradePlans for a user. It returns an error
// if the API server cannot be asked what it supports.
func (i *Impersonator) Writer(ctx context.Context, user authenticationv1.UserInfo) (context.Context, client.Client, error) {
	if user.Username == "" || slices.Contains(user.Groups, privileged) {
		return ctx, i.own, nil
	}
	usable, err := i.detect(ctx)
	if err != nil || !usable {
		return ctx, i.own, err
	}
	return context.WithValue(ctx, callerKey{}, impersonated(user)), i.callers, nil
}

// detect reports whether the API server constrains impersonation, and says so in the log once.
func (i *Impersonator) detect(ctx context.Context) (bool, error) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	if i.detected {
		return i.usable, nil
	}
	wide := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Resource: "users", Verb: "impersonate", Name: probe}}}
	if err := i.own.Create(ctx, wide); err != nil {
		return false, fmt.Errorf("checking for impersonation with the API server: %w", err)
	}
	self := &authenticationv1.SelfSubjectReview{}
	err := i.callers.Create(context.WithValue(ctx, callerKey{}, transport.ImpersonationConfig{UserName: probe}), self)
	if err != nil && !apierrors.IsForbidden(err) && !apierrors.IsNotFound(err) {
		return false, fmt.Errorf("trying impersonation: %w", err)
	}
	i.detected, i.usable = true, err == nil && self.Status.UserInfo.Username == probe && !wide.Status.Allowed
	switch {
	case i.usable:
		i.log.Info("Writing with the rights of callers, by constrained impersonation")
	case wide.Status.Allowed:
		i.log.Info("Writing with the manager's own rights after SubjectAccessReviews: it may impersonate without constraints, which is not used")
	default:
		i.log.Info("Writing with the manager's own rights after SubjectAccessReviews: the API server has no constrained impersonation (Kubernetes 1.36), or the role does not allow it")
	}
	return i.usable, nil
}

// impersonated returns what a user is impersonated with. The API server derives the groups of a
// ServiceAccount. UID and extra fields are left out: RBAC cannot allow them all, and Access has
// authorized the user with them.
func impersonated(user authenticationv1.UserInfo) transport.ImpersonationConfig {
	if strings.HasPrefix(user.Username, serviceAccount) {
		return transport.ImpersonationConfig{UserName: user.Username}
	}
	return transport.ImpersonationConfig{UserName: user.Username, Groups: user.Groups}
}

// callerKey is the key of the impersonated user in a context.
type callerKey struct{}

// asCaller sends requests as the user in their context.
type asCaller struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper. A request without a user is an error.
func (a asCaller) RoundTrip(r *http.Request) (*http.Response, error) {
	user, ok := r.Context().Value(callerKey{}).(transport.ImpersonationConfig)
	if !ok || user.UserName == "" {
		return nil, errors.New("a request for a caller has no caller")
	}
	return transport.NewImpersonatingRoundTripper(user, a.next).RoundTrip(r)
}

// ofCaller returns an error of the API server as a refusal if it is about the rights of a user, not about
// those of the manager: the API server names whom it refuses.
func ofCaller(err error, user authenticationv1.UserInfo) error {
	api, ok := errors.AsType[*apierrors.StatusError](err)
	if ok && user.Username != "" && apierrors.IsForbidden(err) && strings.Contains(api.ErrStatus.Message, fmt.Sprintf("User %q cannot", user.Username)) {
		return request.Refuse(http.StatusForbidden, "%s", api.ErrStatus.Message)
	}
	return err
}
