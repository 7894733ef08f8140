package upgradeapi

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// +kubebuilder:rbac:groups=topsops.enflame.com,resources=gcuresources,verbs=get;list;create;patch;delete
// +kubebuilder:rbac:groups=topsops.enflame.com,resources=daemonrollouts,verbs=get;patch
// +kubebuilder:rbac:groups=apps,resources=daemonsets;controllerrevisions,verbs=list
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get;create;delete

const (
	// callTimeout bounds what is asked of the API server for one request.
	callTimeout = 20 * time.Second
	// defaultDeadline bounds the wait of a foreground deletion (decision D8).
	defaultDeadline = 10 * time.Minute
	// maxWaits bounds the foreground deletions that wait at once.
	maxWaits = 64
	// defaultPoll is how often a foreground deletion looks whether the gr is gone.
	defaultPoll = time.Second
	// cacheLag is how long a gr is read past the cache after it was written here: many
	// times what a watch takes.
	cacheLag = 10 * time.Second
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
	limits   *limits
	written  *cache.LRUExpireCache
	prints   *lru.Cache
	waits    chan struct{}
	plans    chan struct{}
	stopping chan struct{}
	stop     sync.Once
}

// New returns an API.
func New(o Options) *API {
	o.Poll, o.Deadline = cmp.Or(o.Poll, defaultPoll), cmp.Or(o.Deadline, defaultDeadline)
	if o.Rates == (Rates{}) {
		o.Rates = DefaultRates
	}
	return &API{Options: o, limits: newLimits(o.Rates, o.Clock), written: cache.NewLRUExpireCacheWithClock(callers, o.Clock), prints: lru.New(maxPrints),
		waits: make(chan struct{}, maxWaits), plans: make(chan struct{}, 1), stopping: make(chan struct{})}
}

// Stop ends the waits of foreground deletions: their callers are told that the
// deletion goes on. It may be called more than once.
func (a *API) Stop() { a.stop.Do(func() { close(a.stopping) }) }

// call is one request, checked as far as every route needs it.
type call struct {
	// name of the gr, kind of its component; "" where the route has none.
	name, kind string
	// body is the whole body, content types do not matter (contract statement 70).
	body []byte
	// query of the URL, where it is not just dryRun.
	query url.Values
	// dryRun asks the API server to check and not to store.
	dryRun bool
	// user is who calls; empty without Access.
	user authenticationv1.UserInfo
	// request is the id of the request.
	request string
	// deadlines of the connection, for an answer that takes its time.
	deadlines *http.ResponseController
}

// endpoint is what one method of one path does.
type endpoint struct {
	operation string
	// verb on gcuresources the caller has to be allowed; "" asks for nothing.
	verb string
	// timeout of the handler; 0 means callTimeout.
	timeout time.Duration
	// reads tells that nothing is changed: no body, no dryRun, another rate.
	reads bool
	do    func(ctx context.Context, c call) (content any, err error)
}

// authorize returns an error unless the caller may do all of verbs with the gr.
func (a *API) authorize(ctx context.Context, c call, verbs ...string) error {
	if a.Access == nil {
		return nil
	}
	for _, verb := range verbs {
		if err := a.Access.Authorize(ctx, c.user, verb, c.name); err != nil {
			return err
		}
	}
	return nil
}

// dryRunIn reads the query of a request that changes something. What is
// misspelt must not change anything.
func dryRunIn(query url.Values) (bool, error) {
	for key, values := range query {
		if key != "dryRun" || len(values) != 1 {
			return false, badRequest("query %.100q is not understood: there is dryRun=true only", query.Encode())
		}
	}
	if !query.Has("dryRun") {
		return false, nil
	}
	dryRun, err := strconv.ParseBool(query.Get("dryRun"))
	if err != nil {
		return false, badRequest("dryRun %.100q is neither true nor false", query.Get("dryRun"))
	}
	return dryRun, nil
}

func (c call) deleteOptions() []client.DeleteOption {
	if c.dryRun {
		return []client.DeleteOption{client.DryRunAll}
	}
	return nil
}

func (c call) patchOptions() []client.PatchOption {
	options := []client.PatchOption{client.FieldOwner(fieldOwner), client.FieldValidation("Strict")}
	if c.dryRun {
		options = append(options, client.DryRunAll)
	}
	return options
}

// fieldOwner is the field manager of what callers asked for.
const fieldOwner = "gcu-upgrade-manager"

// validName reports whether a gr may have this name; no other is asked for.
func validName(name string) bool { return len(validation.IsDNS1123Subdomain(name)) == 0 }

// components are the kinds of statement 64 with the components they mean, and
// devicePlugin as the name that the gr has for plugin (decision D2).
var components = map[string]string{
	"driver": "driver", "toolkit": "toolkit", "plugin": "devicePlugin", "devicePlugin": "devicePlugin", "exporter": "exporter", "gfd": "gfd",
}

// kinds are the keys of components, sorted.
func kinds() []string {
	list := make([]string, 0, len(components))
	for kind := range components {
		list = append(list, kind)
	}
	slices.Sort(list)
	return list
}
