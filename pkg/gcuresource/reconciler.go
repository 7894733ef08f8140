package gcuresource

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

const (
	// failureRetry is how often a failure is looked at again that somebody has
	// to mend: nothing tells when an object of somebody else goes.
	failureRetry = 30 * time.Second
	// staleRetry is how soon a pass is repeated whose gr or node had changed under it.
	staleRetry = 200 * time.Millisecond
)

// +kubebuilder:rbac:groups=topsops.enflame.com,resources=gcuresources,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=topsops.enflame.com,resources=gcuresources/status,verbs=patch
// +kubebuilder:rbac:groups=apps,resources=daemonsets;deployments,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=configmaps;persistentvolumeclaims;persistentvolumes;serviceaccounts;services,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterroles;clusterrolebindings,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=mutatingwebhookconfigurations;validatingwebhookconfigurations,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
//
// What is kept is never deleted. Of Secrets only that of nightingale is read:
//
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch;create
// +kubebuilder:rbac:groups="",resources=secrets,verbs=create
// +kubebuilder:rbac:groups="",resources=secrets,resourceNames=nightingale-mysql,verbs=get
//
// The ClusterRoles of components may hold what the operator does not (docs/adr/0007-escalate.md):
//
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterroles,resourceNames=nfd-clusterrole;gcushare-device-plugin;gcushare-scheduler-extender;volcano-admission;volcano-controllers;volcano-scheduler,verbs=escalate;bind

// Reconciler deploys what a GcuResource asks for, and says how it goes.
type Reconciler struct {
	// Client reads from the manager's cache and writes. SetupWithManager sets it when nil.
	client.Client
	// APIReader reads from the API server itself. SetupWithManager sets it when nil.
	APIReader client.Reader
	// Recorder sends events. SetupWithManager sets it when nil.
	Recorder events.EventRecorder
	// Namespace holds the revisions of the specs: the operator's own.
	// SetupWithManager sets it to kube-system when empty.
	Namespace string
	// Clock tells the time; nil means time.Now.
	Clock func() time.Time

	memory  memory
	changes changes
	// pods, with the index podIndex, and nodes are what the cache holds; nil when
	// they are to be listed.
	pods, nodes toolscache.Indexer
}

// Reconcile brings the cluster one step nearer to a gr and writes its status
// once. Waiting is not an error: the watches and RequeueAfter bring it back.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	gr := &topsv1.GcuResource{}
	if err := r.Get(ctx, request.NamespacedName, gr); err != nil {
		if apierrors.IsNotFound(err) {
			r.memory.forget(request.Name)
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, fmt.Errorf("reading GcuResource %s: %w", request.Name, err)
	}
	result, err := r.reconcile(ctx, gr)
	if err == nil {
		r.memory.recovered(gr.Name)
		return result, nil
	}
	if r.memory.failed(gr.Name, r.now()) {
		err = errors.Join(err, r.complain(ctx, gr.Name, err))
	}
	if stale(err) {
		log.FromContext(ctx).V(4).Info("Repeating, the object changed meanwhile", "cause", err.Error())
		return ctrl.Result{RequeueAfter: staleRetry}, nil
	}
	return result, err
}

func (r *Reconciler) reconcile(ctx context.Context, gr *topsv1.GcuResource) (ctrl.Result, error) {
	if gr.DeletionTimestamp != nil {
		return ctrl.Result{}, r.tearDown(ctx, gr)
	}
	if err := r.addFinalizer(ctx, gr); err != nil {
		return ctrl.Result{}, err
	}
	restored, rollback, err := r.followHistory(ctx, gr)
	if err != nil || restored {
		return ctrl.Result{}, err
	}
	obs, err := r.observe(ctx, gr)
	if err != nil {
		return ctrl.Result{}, err
	}
	obs.Rollback = rollback
	if obs.Changed, err = r.readChanged(ctx, gr); err != nil {
		return ctrl.Result{}, err
	}
	now := r.now()
	plan := Decide(obs, now)
	failed := r.act(ctx, obs, plan)
	if plan.applies() {
		plan = Decide(obs, now)
	}
	status := Describe(obs, plan, now)
	if finishesUpgrade(gr, &status) {
		// The cache of DaemonSets may be ahead of that of revisions.
		if err := r.readRevisions(ctx, r.APIReader, obs); err != nil {
			return ctrl.Result{}, err
		}
		plan = Decide(obs, now)
		status = Describe(obs, plan, now)
	}
	if err := r.report(ctx, gr, status); err != nil {
		return ctrl.Result{}, err
	}
	if failed != nil {
		return ctrl.Result{}, &toldError{failed}
	}
	return ctrl.Result{RequeueAfter: retryAfter(plan)}, nil
}

// retryAfter returns when to look again though nothing tells: 0 for never.
func retryAfter(plan Plan) time.Duration {
	after := plan.Wait
	for i := range plan.Steps {
		if plan.Steps[i].Failure != nil {
			after = sooner(after, failureRetry)
		}
	}
	return after
}

// tearDown removes one component of a gr that is being deleted, or, when none
// is left, lets the gr go.
func (r *Reconciler) tearDown(ctx context.Context, gr *topsv1.GcuResource) error {
	if !controllerutil.ContainsFinalizer(gr, topsv1.Finalizer) {
		return nil
	}
	obs, err := r.observe(ctx, gr)
	if err != nil {
		return err
	}
	down := DecideTeardown(obs)
	failed := r.deleteAll(ctx, down.Delete)
	if down.Current == "" {
		if failed = r.letGo(ctx, gr, obs); failed == nil {
			return nil // nobody is left to be told
		}
	}
	obs.Trouble = r.trouble(gr.Name, failed)
	if err := r.report(ctx, gr, DescribeTeardown(obs, down, r.now())); err != nil {
		return err
	}
	if failed != nil {
		return &toldError{failed}
	}
	return nil
}

// letGo cleans the nodes up and removes the finalizer of a gr of which nothing
// is left.
func (r *Reconciler) letGo(ctx context.Context, gr *topsv1.GcuResource, obs *Observation) error {
	if err := removeLabels(ctx, r.Client, obs.Nodes, obs.Others); err != nil {
		return err
	}
	after := gr.DeepCopy()
	controllerutil.RemoveFinalizer(after, topsv1.Finalizer)
	log.FromContext(ctx).Info("Removing finalizer, every component is gone", "finalizer", topsv1.Finalizer)
	err := r.Patch(ctx, after, locked(gr), client.FieldOwner(topsv1.ManagedBy))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("removing finalizer: %w", err)
	}
	return nil
}

// addFinalizer comes before everything else, so that nothing is deployed that
// nobody would tear down (contract statement 6).
func (r *Reconciler) addFinalizer(ctx context.Context, gr *topsv1.GcuResource) error {
	if controllerutil.ContainsFinalizer(gr, topsv1.Finalizer) {
		return nil
	}
	before := gr.DeepCopy()
	controllerutil.AddFinalizer(gr, topsv1.Finalizer)
	log.FromContext(ctx).Info("Adding finalizer", "finalizer", topsv1.Finalizer)
	if err := r.Patch(ctx, gr, locked(before), client.FieldOwner(topsv1.ManagedBy)); err != nil {
		return fmt.Errorf("adding finalizer: %w", err)
	}
	return nil
}

// report writes the status when it changed, and then tells in events what changed.
func (r *Reconciler) report(ctx context.Context, gr *topsv1.GcuResource, status topsv1.GcuResourceStatus) error {
	if sameStatus(gr.Status, status) {
		return nil
	}
	before := gr.DeepCopy()
	gr.Status = status
	if err := r.Status().Patch(ctx, gr, locked(before), client.FieldOwner(topsv1.ManagedBy)); err != nil {
		return fmt.Errorf("writing status: %w", err)
	}
	for _, n := range notes(&before.Status, &status) {
		r.Recorder.Eventf(gr, nil, n.kind, n.reason, "Reconcile", "%s", n.message)
	}
	return nil
}

// sameStatus compares the names of nodes by themselves: they are many, and
// reflection is slow.
func sameStatus(a, b topsv1.GcuResourceStatus) bool {
	if !slices.Equal(a.ClusterGCUNodes, b.ClusterGCUNodes) {
		return false
	}
	a.ClusterGCUNodes, b.ClusterGCUNodes = nil, nil
	return equality.Semantic.DeepEqual(a, b)
}

// locked is a patch that fails when the object changed since it was read.
func locked(before client.Object) client.Patch {
	return client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
}

func (r *Reconciler) now() time.Time {
	if r.Clock == nil {
		return time.Now() //nolint:forbidigo // the one place where the real clock comes in
	}
	return r.Clock()
}

// deleteAll asks for the deletion of each object, with its UID as precondition.
func (r *Reconciler) deleteAll(ctx context.Context, objects []Owned) error {
	var errs []error
	for _, o := range objects {
		if o.Deleting {
			continue
		}
		log.FromContext(ctx).Info("Deleting object", "object", o.Ref.String(), "component", o.Component)
		err := r.Delete(ctx, metadataOf(o.Ref), client.Preconditions{UID: &o.UID}, client.PropagationPolicy(metav1.DeletePropagationBackground))
		if client.IgnoreNotFound(err) != nil {
			errs = append(errs, fmt.Errorf("deleting %s: %w", o.Ref, err))
		}
	}
	return errors.Join(errs...)
}
