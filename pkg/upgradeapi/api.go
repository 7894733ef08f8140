package upgradeapi

import (
	"cmp"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// +kubebuilder:rbac:groups=topsops.enflame.com,resources=gcuresources,verbs=get;list;create;patch;delete
// +kubebuilder:rbac:groups=topsops.enflame.com,resources=daemonrollouts,verbs=get;patch
// +kubebuilder:rbac:groups=topsops.enflame.com,resources=upgradeplans,verbs=get;list;create;patch
// +kubebuilder:rbac:groups=apps,resources=daemonsets;controllerrevisions,verbs=list

const (
	// defaultDeadline is how long a foreground deletion waits at most (decision D8).
	defaultDeadline = 10 * time.Minute
	// defaultPoll is how often a foreground deletion checks whether the gr is gone.
	defaultPoll = time.Second
)

// Options configure an API.
type Options struct {
	// Client reads from the API server itself, not from a cache, so that reads see
	// earlier writes.
	Client client.Client
	// Cache serves GETs of grs and DaemonSets; nil means Client. Objects that it lacks, and
	// for a while those that were written here, are read with Client.
	Cache client.Reader
	// Access authenticates and authorizes callers; nil, for tests, allows everything to everyone.
	Access Access
	// Impersonator writes for callers; nil means with Client.
	Impersonator *Impersonator
	// Anonymous is the user that all requests come from, without authentication: Access authorizes
	// it, and it takes blueprints only. Empty means that requests are authenticated.
	Anonymous string
	// Namespace is that of the operator, with recreations, revisions and DaemonRollouts of grs.
	Namespace string
	// Blueprints is the directory of the blueprints. It need not exist yet.
	Blueprints string
	// Log gets a line per request (contract statement 78).
	Log   logr.Logger
	Clock clock.Clock
	// Poll is how often a foreground deletion checks; 0 means every second.
	Poll time.Duration
	// Deadline is how long a foreground deletion waits at most; 0 means 10 minutes.
	Deadline time.Duration
	// Rates limit each user, and each address of unauthenticated callers; the zero value means DefaultRates.
	Rates Rates
	// Hosts reports whether a Host header names this API (package foreign); nil accepts all.
	Hosts func(host string) bool
	// Requests counts answers (NewRequestMetric); nil counts none.
	Requests *prometheus.CounterVec
	// Planner predicts upgrades and checks their limits; nil disables both.
	Planner Planner
}

// API serves the REST API. Use New.
type API struct {
	Options
	cluster    *cluster
	cache      *objectCache
	deletions  *deletions
	middleware *middleware
	resolver   *resolver
}

// New returns an API.
func New(o Options) *API {
	o.Poll, o.Deadline = cmp.Or(o.Poll, defaultPoll), cmp.Or(o.Deadline, defaultDeadline)
	if o.Rates == (Rates{}) {
		o.Rates = DefaultRates
	}
	a := &API{Options: o, cluster: &cluster{o.Client, o.Namespace, o.Impersonator}, cache: newObjectCache(o.Cache, o.Clock)}
	a.resolver = newResolver(a.cluster, o.Blueprints, o.Anonymous != "", o.Planner)
	a.deletions = &deletions{cluster: a.cluster, clock: o.Clock, poll: o.Poll, deadline: o.Deadline,
		waits: make(chan struct{}, maxWaits), stopping: make(chan struct{})}
	a.middleware = &middleware{admission: newAdmission(o.Access, o.Rates, o.Clock), anonymous: o.Anonymous, hosts: o.Hosts, bodies: newBodies(), responses: newResponses(),
		cache: a.cache, log: o.Log, clock: o.Clock, requests: o.Requests}
	return a
}

// NewRequestMetric registers the metric of requests. Like client_golang, it panics if it is already
// registered.
func NewRequestMetric(registerer prometheus.Registerer) *prometheus.CounterVec {
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "gcu_api_requests_total",
		Help: "Requests to the REST API, by operation as in its responses, by route, empty for a request that fits none, and by HTTP status."}, []string{"operation", "route", "code"})
	registerer.MustRegister(requests)
	return requests
}

// authenticates reports whether callers are authenticated.
func (a *API) authenticates() bool { return a.Access != nil && a.Anonymous == "" }

// Stop ends the waits of foreground deletions with an error; the deletions themselves
// continue. It may be called more than once.
func (a *API) Stop() { a.deletions.stop() }
