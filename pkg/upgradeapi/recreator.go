package upgradeapi

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/logging"
	"github.com/topsops/gcu-operator/pkg/upgradeapi/recreation"
)

const (
	// goneInterval and runningInterval are how often the old and the new gr are checked
	// (contract statement 73).
	goneInterval    = 3 * time.Second
	runningInterval = 5 * time.Second
	// firstRetry and lastRetry bound the backoff after a failure.
	firstRetry = 100 * time.Millisecond
	lastRetry  = 30 * time.Second
)

// +kubebuilder:rbac:groups=topsops.enflame.com,resources=gcuresourcerecreations,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=list
// +kubebuilder:rbac:groups=topsops.enflame.com,resources=gcuresources,verbs=get;list;create;patch;delete

// Recreator is the controller that completes accepted upgrades of mode recreate: on the
// leader, whichever replica accepted them, also after a restart.
type Recreator struct {
	// Client reads from the API server itself, not from a cache.
	Client client.Client
	// Namespace is that of the operator.
	Namespace string
	// Impersonator writes for authors; nil means with Client.
	Impersonator *Impersonator
	// Access says what authors may do.
	Access Access
	// Log gets a line per check of a gr (contract statement 73).
	Log   logr.Logger
	Clock clock.PassiveClock

	// polls counts the checks of a gr since the last step, by recreation. Only one
	// reconcile runs at a time.
	polls map[types.UID]int
}

// SetupWithManager registers the controller, which runs on the leader. The manager's cache holds the
// metadata of recreations. It returns an error if the watch cannot be set up.
func (r *Recreator) SetupWithManager(mgr ctrl.Manager) error {
	if err := mgr.Add(manager.RunnableFunc(r.warnOfFormer)); err != nil {
		return fmt.Errorf("registering the check for former recreations: %w", err)
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("recreation").
		For(&topsv1.GcuResourceRecreation{}, builder.OnlyMetadata).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: 1,
			ReconciliationTimeout:   callTimeout,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lastRetry),
		}).
		WithLogConstructor(func(*reconcile.Request) logr.Logger { return r.Log }).
		Complete(r)
}

// warnOfFormer names the ConfigMaps in which a version before v1 stored recreations. Anybody who may
// create ConfigMaps may have written them, so that a person has to decide.
func (r *Recreator) warnOfFormer(ctx context.Context) error {
	former := &corev1.ConfigMapList{}
	if err := r.Client.List(ctx, former, client.InNamespace(r.Namespace), client.HasLabels{topsv1.LabelRecreation}); err != nil {
		r.Log.Error(err, "Looking for recreations of earlier versions")
		return nil
	}
	for i := range former.Items {
		r.Log.Error(nil, "A ConfigMap holds a GcuResource that an earlier version was to create again. It is not created, because any user may have written it: "+
			"if the GcuResource is missing, review its key gcuresource and create it; then delete the ConfigMap", "configMap", former.Items[i].Name)
	}
	return nil
}

// Reconcile takes one step of a recreation. It reads everything from the API server: an
// earlier read may be of another gr of the same name.
func (r *Recreator) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	stored := &topsv1.GcuResourceRecreation{}
	if err := r.Client.Get(ctx, request.NamespacedName, stored); err != nil {
		return ctrl.Result{}, ignoreNotFound(err, "reading GcuResourceRecreation %s", request.Name)
	}
	rec, err := recreation.Read(stored)
	if err != nil {
		return ctrl.Result{}, reconcile.TerminalError(err)
	}
	present, err := find(ctx, r.Client, rec.GcuResource.Name)
	if err != nil {
		return ctrl.Result{}, err
	}
	ctx = log.IntoContext(ctx, r.Log.WithValues(logging.GcuResource(rec.GcuResource.Name, rec.Subject())...).WithValues("requestID", rec.Request))
	return r.take(ctx, rec.Next(present, r.Clock.Now()), rec, stored, present)
}

// take carries out one step.
func (r *Recreator) take(ctx context.Context, next recreation.Step, rec *recreation.Recreation, stored *topsv1.GcuResourceRecreation, present *topsv1.GcuResource) (ctrl.Result, error) {
	logger := log.FromContext(ctx)
	switch next {
	case recreation.Delete:
		if err := r.authorize(ctx, rec, "delete"); err != nil {
			return ctrl.Result{}, err
		}
		writing, writer, err := r.writer(ctx, rec)
		if err != nil {
			return ctrl.Result{}, err
		}
		return ctrl.Result{RequeueAfter: goneInterval}, remove(writing, writer, present)
	case recreation.AwaitGone:
		logger.Info("Waiting until the old GcuResource is gone", "retry", r.poll(rec), "message", lastMessage(present))
		return ctrl.Result{RequeueAfter: goneInterval}, nil
	case recreation.Create:
		if err := r.authorize(ctx, rec, "create"); err != nil {
			return ctrl.Result{}, err
		}
		created, err := r.create(ctx, rec)
		if err != nil {
			return ctrl.Result{}, err
		}
		return ctrl.Result{RequeueAfter: runningInterval}, r.storeCreated(ctx, stored, created)
	case recreation.StoreCreated:
		return ctrl.Result{RequeueAfter: runningInterval}, r.storeCreated(ctx, stored, present)
	case recreation.AwaitRunning:
		logger.Info("Waiting until the new GcuResource is Running", "retry", r.poll(rec), "phase", present.Status.Phase, "message", lastMessage(present))
		return ctrl.Result{RequeueAfter: runningInterval}, nil
	case recreation.Done:
		logger.Info("The new GcuResource is Running", "retry", r.poll(rec))
	case recreation.Expired:
		logger.Error(nil, "The new GcuResource is not Running in time, no longer watching it", "after", recreation.Deadline, "message", lastMessage(present))
	case recreation.Overtaken:
		log := logger.Info
		if rec.Open() {
			log = func(text string, values ...any) { logger.Error(nil, text, values...) }
		}
		log("Another client created or deleted the GcuResource, ending the upgrade", "created", !rec.Open())
	}
	delete(r.polls, rec.UID)
	return ctrl.Result{}, forget(ctx, r.Client, stored)
}

// authorize returns an error unless the author of a recreation may still take a step. It is tried
// again: what is stored is not lost. An unauthenticated request has no author.
func (r *Recreator) authorize(ctx context.Context, rec *recreation.Recreation, verb string) error {
	if rec.Author.Username == "" {
		return nil
	}
	return r.Access.Authorize(ctx, rec.Author, onGr(verb, rec.GcuResource.Name))
}

// writer returns what writes for the author of a recreation.
func (r *Recreator) writer(ctx context.Context, rec *recreation.Recreation) (context.Context, client.Client, error) {
	return (&cluster{r.Client, r.Namespace, r.Impersonator}).writer(ctx, rec.Author)
}

// create creates the new gr.
func (r *Recreator) create(ctx context.Context, rec *recreation.Recreation) (*topsv1.GcuResource, error) {
	log.FromContext(ctx).Info("The old GcuResource is gone, creating the new one", "retry", r.poll(rec))
	delete(r.polls, rec.UID)
	gr := rec.Successor()
	ctx, writer, err := r.writer(ctx, rec)
	if err == nil {
		err = writer.Create(ctx, gr, client.FieldOwner(topsv1.ManagedBy))
	}
	if err != nil {
		return nil, fmt.Errorf("creating GcuResource %s: %w", gr.Name, err)
	}
	return gr, nil
}

// storeCreated records the UID of the new gr.
func (r *Recreator) storeCreated(ctx context.Context, stored *topsv1.GcuResourceRecreation, created *topsv1.GcuResource) error {
	if err := r.Client.Patch(ctx, recreation.WithCreated(stored, created.UID), locked(stored), client.FieldOwner(topsv1.ManagedBy)); err != nil {
		return fmt.Errorf("storing that GcuResource %s was created: %w", created.Name, err)
	}
	return nil
}

// poll counts a check of a gr and returns the number of earlier ones.
func (r *Recreator) poll(rec *recreation.Recreation) int {
	if r.polls == nil {
		r.polls = map[types.UID]int{}
	}
	n := r.polls[rec.UID]
	r.polls[rec.UID]++
	return n
}
