package upgradeapi

import (
	"cmp"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// +kubebuilder:rbac:groups=topsops.enflame.com,resources=gcuresources,verbs=get;list;create;patch;delete
// +kubebuilder:rbac:groups=topsops.enflame.com,resources=daemonrollouts,verbs=get;patch
// +kubebuilder:rbac:groups=apps,resources=daemonsets;controllerrevisions,verbs=list
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get;create;delete

const (
	// defaultDeadline bounds the wait of a foreground deletion (decision D8).
	defaultDeadline = 10 * time.Minute
	// defaultPoll is how often a foreground deletion looks whether the gr is gone.
	defaultPoll = time.Second
)

// Options are what an API needs around it.
type Options struct {
	// Client writes, and reads from the API server itself, not from a cache: what
	// was written before is what is read.
	Client client.Client
	// Cache shows grs and DaemonSets for GET, without asking the API server each time;
	// nil: Client does. What it lacks is looked for past it, and so is for a while what
	// was written here.
	Cache client.Reader
	// Access says who may call; nil lets everybody, for everything.
	Access Access
	// Namespace holds recreations, revisions and the DaemonRollouts of grs: the
	// operator's own.
	Namespace string
	// Blueprints is the directory of the blueprints. It need not exist yet.
	Blueprints string
	// Log gets a line per request (contract statement 78).
	Log logr.Logger
	// Clock tells the time.
	Clock clock.Clock
	// Poll is how often a foreground deletion looks; 0 means every second.
	Poll time.Duration
	// Deadline bounds the wait of a foreground deletion; 0 means 10 minutes.
	Deadline time.Duration
	// Rates bound each caller; the zero value means DefaultRates.
	Rates Rates
	// Planner tells what upgrades are going to do; nil: nobody can, and what an upgrade
	// is limited to is not checked before it begins.
	Planner Planner
}

// API answers the requests. Use New.
type API struct {
	Options
	cluster    *cluster
	cache      *objectCache
	deletions  *deletions
	middleware *middleware
}

// New returns an API.
func New(o Options) *API {
	o.Poll, o.Deadline = cmp.Or(o.Poll, defaultPoll), cmp.Or(o.Deadline, defaultDeadline)
	if o.Rates == (Rates{}) {
		o.Rates = DefaultRates
	}
	a := &API{Options: o, cluster: &cluster{o.Client, o.Namespace}, cache: newObjectCache(o.Cache, o.Clock)}
	a.deletions = &deletions{cluster: a.cluster, clock: o.Clock, poll: o.Poll, deadline: o.Deadline,
		waits: make(chan struct{}, maxWaits), stopping: make(chan struct{})}
	a.middleware = &middleware{access: o.Access, limits: newLimits(o.Rates, o.Clock), cache: a.cache, log: o.Log, clock: o.Clock}
	return a
}

// Stop ends the waits of foreground deletions: their callers are told that the
// deletion goes on. It may be called more than once.
func (a *API) Stop() { a.deletions.stop() }
