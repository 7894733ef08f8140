package upgradeapi

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/logging"
)

const (
	// goneInterval and runningInterval are how often the old and the new gr are
	// looked at (contract statement 73).
	goneInterval    = 3 * time.Second
	runningInterval = 5 * time.Second
	// firstRetry and lastRetry bound the time between passes that fail.
	firstRetry = 100 * time.Millisecond
	lastRetry  = 30 * time.Second
)

// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=topsops.enflame.com,resources=gcuresources,verbs=get;list;create;patch;delete

// Recreator finishes the upgrades of mode recreate that the API accepted: on
// the leader, whoever accepted them, also after a restart.
type Recreator struct {
	// Client writes, and reads from the API server itself, not from a cache.
	Client client.Client
	// Namespace holds the recreations: the operator's own.
	Namespace string
	// Log gets a line per look at a gr (contract statement 73).
	Log logr.Logger
	// Clock tells the time.
	Clock clock.PassiveClock

	// polls counts the looks at a gr since the last step, by recreation. Only
	// one pass runs at a time.
	polls map[types.UID]int
}

// SetupWithManager registers the controller, which runs on the leader. The
// manager's cache holds the metadata of ConfigMaps. It returns an error when the
// watch cannot be set up.
func (r *Recreator) SetupWithManager(mgr ctrl.Manager) error {
	ours := predicate.NewPredicateFuncs(func(o client.Object) bool {
		return o.GetNamespace() == r.Namespace && o.GetLabels()[topsv1.LabelRecreation] != ""
	})
	return ctrl.NewControllerManagedBy(mgr).
		Named("recreation").
		For(&corev1.ConfigMap{}, builder.OnlyMetadata, builder.WithPredicates(ours)).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: 1,
			ReconciliationTimeout:   callTimeout,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lastRetry),
		}).
		WithLogConstructor(func(*reconcile.Request) logr.Logger { return r.Log }).
		Complete(r)
}

// Reconcile takes one step of a recreation. Everything is read from the API
// server: what was seen before may be another gr's.
func (r *Recreator) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	stored := &corev1.ConfigMap{}
	if err := r.Client.Get(ctx, request.NamespacedName, stored); err != nil {
		return ctrl.Result{}, ignoreNotFound(err, "reading ConfigMap %s", request.Name)
	}
	rec, err := recreationIn(stored)
	if err != nil {
		return ctrl.Result{}, reconcile.TerminalError(err)
	}
	present, err := find(ctx, r.Client, rec.gr.Name)
	if err != nil {
		return ctrl.Result{}, err
	}
	uid := rec.replaces
	if !rec.open() {
		uid = rec.created
	}
	ctx = log.IntoContext(ctx, r.Log.WithValues(logging.GcuResource(rec.gr.Name, uid)...).WithValues("requestID", rec.request))
	return r.take(ctx, rec.next(present, r.Clock.Now()), rec, stored, present)
}

// take carries out one step.
func (r *Recreator) take(ctx context.Context, next step, rec *recreation, stored *corev1.ConfigMap, present *topsv1.GcuResource) (ctrl.Result, error) {
	logger := log.FromContext(ctx)
	switch next {
	case stepDelete:
		return ctrl.Result{RequeueAfter: goneInterval}, remove(ctx, r.Client, present)
	case stepAwaitGone:
		logger.Info("Waiting until the old GcuResource is gone", "retry", r.poll(rec), "message", lastMessage(present))
		return ctrl.Result{RequeueAfter: goneInterval}, nil
	case stepCreate:
		created, err := r.create(ctx, rec)
		if err != nil {
			return ctrl.Result{}, err
		}
		return ctrl.Result{RequeueAfter: runningInterval}, r.storeCreated(ctx, stored, created)
	case stepStoreCreated:
		return ctrl.Result{RequeueAfter: runningInterval}, r.storeCreated(ctx, stored, present)
	case stepAwaitRunning:
		logger.Info("Waiting until the new GcuResource is Running", "retry", r.poll(rec), "phase", present.Status.Phase, "message", lastMessage(present))
		return ctrl.Result{RequeueAfter: runningInterval}, nil
	case stepDone:
		logger.Info("The new GcuResource is Running", "retry", r.poll(rec))
	case stepExpired:
		logger.Error(nil, "The new GcuResource is not Running in time, it is not watched any longer", "after", upgradeDeadline, "message", lastMessage(present))
	case stepOvertaken:
		told := logger.Info
		if rec.open() {
			told = func(text string, values ...any) { logger.Error(nil, text, values...) }
		}
		told("Somebody else created or deleted the GcuResource, nothing more is done about the upgrade", "created", !rec.open())
	}
	delete(r.polls, rec.uid)
	return ctrl.Result{}, forget(ctx, r.Client, stored)
}

// create creates the new gr.
func (r *Recreator) create(ctx context.Context, rec *recreation) (*topsv1.GcuResource, error) {
	log.FromContext(ctx).Info("The old GcuResource is gone, creating the new one", "retry", r.poll(rec))
	delete(r.polls, rec.uid)
	gr := rec.successor()
	if err := r.Client.Create(ctx, gr, client.FieldOwner(topsv1.ManagedBy)); err != nil {
		return nil, fmt.Errorf("creating GcuResource %s: %w", gr.Name, err)
	}
	return gr, nil
}

// storeCreated stores which gr is the new one: from then on a gr that is absent
// was deleted, and is not created again.
func (r *Recreator) storeCreated(ctx context.Context, stored *corev1.ConfigMap, created *topsv1.GcuResource) error {
	after := stored.DeepCopy()
	after.Data[keyCreated] = string(created.UID)
	if err := r.Client.Patch(ctx, after, locked(stored), client.FieldOwner(topsv1.ManagedBy)); err != nil {
		return fmt.Errorf("storing that GcuResource %s was created: %w", created.Name, err)
	}
	return nil
}

// poll counts a look at a gr and returns how many there were before.
func (r *Recreator) poll(rec *recreation) int {
	if r.polls == nil {
		r.polls = map[types.UID]int{}
	}
	n := r.polls[rec.uid]
	r.polls[rec.uid]++
	return n
}

// remove asks for the deletion of a gr, this one and no other of its name.
func remove(ctx context.Context, c client.Client, gr *topsv1.GcuResource, options ...client.DeleteOption) error {
	log.FromContext(ctx).Info("Deleting GcuResource", "uid", gr.UID)
	options = append(options, client.Preconditions{UID: &gr.UID}, client.PropagationPolicy(metav1.DeletePropagationBackground))
	return ignoreNotFound(c.Delete(ctx, &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: gr.Name}}, options...), "deleting GcuResource %s", gr.Name)
}

// forget deletes a stored recreation, unless changed since it was read.
func forget(ctx context.Context, c client.Client, stored *corev1.ConfigMap) error {
	err := c.Delete(ctx, stored, client.Preconditions{UID: &stored.UID, ResourceVersion: &stored.ResourceVersion})
	return ignoreNotFound(err, "deleting ConfigMap %s", stored.Name)
}

// find returns the gr of a name, nil when there is none.
func find(ctx context.Context, c client.Reader, name string) (*topsv1.GcuResource, error) {
	gr := &topsv1.GcuResource{}
	err := c.Get(ctx, client.ObjectKey{Name: name}, gr)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading GcuResource %s: %w", name, err)
	}
	return gr, nil
}

// lastMessage is what the newest condition of a gr says.
func lastMessage(gr *topsv1.GcuResource) string {
	if n := len(gr.Status.Conditions); n > 0 {
		return gr.Status.Conditions[n-1].Message
	}
	return ""
}

// locked is a patch that fails when the object changed since it was read.
func locked(before client.Object) client.Patch {
	return client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
}

func ignoreNotFound(err error, format string, args ...any) error {
	if client.IgnoreNotFound(err) == nil {
		return nil
	}
	return fmt.Errorf(format+": %w", append(args, err)...)
}
