package gcuresource

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/denial"
	"github.com/topsops/gcu-operator/pkg/gcuresource/plan"
	"github.com/topsops/gcu-operator/pkg/gcuresource/state"
	"github.com/topsops/gcu-operator/pkg/gcuresource/status"
	"github.com/topsops/gcu-operator/pkg/podreplace/retry"
)

// +kubebuilder:rbac:groups=topsops.enflame.com,resources=gcuresources,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=topsops.enflame.com,resources=gcuresources/status,verbs=patch
// +kubebuilder:rbac:groups=topsops.enflame.com,resources=nodeupgrades,verbs=get;list;watch
// +kubebuilder:rbac:groups=apps,resources=daemonsets;deployments,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=configmaps;persistentvolumeclaims;persistentvolumes;serviceaccounts;services,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
//
// Roles and bindings of components are installed, not written (docs/adr/0015-rights-of-the-manager.md), and
// webhooks are created only where config/components/volcano is installed too:
//
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterroles;clusterrolebindings,verbs=get;list;watch
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=mutatingwebhookconfigurations;validatingwebhookconfigurations,verbs=get;list;watch
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=mutatingwebhookconfigurations,resourceNames=volcano-admission-service-jobs-mutate;volcano-admission-service-podgroups-mutate;volcano-admission-service-pods-mutate;volcano-admission-service-queues-mutate,verbs=delete
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingwebhookconfigurations,resourceNames=volcano-admission-service-jobs-validate;volcano-admission-service-pods-validate;volcano-admission-service-queues-validate,verbs=delete
//
// Kept objects are never deleted. Of Secrets only that of nightingale is read. What may be created
// under which names is bounded by config/admission/manager.yaml:
//
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=get;list;watch;create
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,resourceNames=nodefeaturerules.nfd.k8s-sigs.io;jobs.batch.volcano.sh;commands.bus.volcano.sh;numatopologies.nodeinfo.volcano.sh;podgroups.scheduling.volcano.sh;queues.scheduling.volcano.sh,verbs=patch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch;create
// +kubebuilder:rbac:groups="",resources=secrets,verbs=create
// +kubebuilder:rbac:groups="",resources=secrets,resourceNames=nightingale-mysql,verbs=get

// Reconciler deploys what a GcuResource requests, and reports its status.
type Reconciler struct {
	// Client reads from the manager's cache and writes. SetupWithManager sets it if nil.
	client.Client
	// APIReader reads from the API server, past the cache. SetupWithManager sets it if nil.
	APIReader client.Reader
	// Recorder sends events. SetupWithManager sets it if nil.
	Recorder events.EventRecorder
	// Namespace of the revisions of specs: the operator's own. SetupWithManager sets it to
	// kube-system if empty.
	Namespace string
	// Clock returns the time; nil means time.Now.
	Clock func() time.Time
	// StateTimes knows since when pods terminate, by Clock; nil trusts the clock of the API server.
	StateTimes *daemonset.StateTimes

	passes lastPasses
	cache  indexedCache
}

// Reconcile brings the cluster one step closer to a gr and writes its status once. Waiting is not
// an error: the watches and RequeueAfter trigger the next pass.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	gr := &topsv1.GcuResource{}
	if err := r.Get(ctx, request.NamespacedName, gr); err != nil {
		if apierrors.IsNotFound(err) {
			r.passes.forget(request.Name)
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, fmt.Errorf("reading GcuResource %s: %w", request.Name, err)
	}
	last := r.passes.of(gr.Name)
	if last.aheadOf(gr) {
		gr = &topsv1.GcuResource{} // the answer is decoded into what is there
		if err := r.APIReader.Get(ctx, request.NamespacedName, gr); err != nil {
			return ctrl.Result{}, denial.IgnoreNotFound(fmt.Errorf("reading GcuResource %s from the API server: %w", request.Name, err))
		}
		last.version = gr.ResourceVersion // an older one, if etcd was restored
	}
	result, err := r.pass(ctx, gr, last)
	if err == nil {
		last.succeeded()
		return result, nil
	}
	now := r.now()
	last.failed(now)
	if last.failsLong(now) {
		err = errors.Join(err, r.reporter(last).reportFailure(ctx, gr.Name, err, now))
	}
	if stale(err) {
		log.FromContext(ctx).V(4).Info("Stale cache, requeueing", "cause", err.Error())
		return ctrl.Result{RequeueAfter: staleRetry}, nil
	}
	return result, err
}

func (r *Reconciler) pass(ctx context.Context, gr *topsv1.GcuResource, last *lastPass) (ctrl.Result, error) {
	if gr.DeletionTimestamp != nil {
		return r.tearDown(ctx, gr, last)
	}
	if err := addFinalizer(ctx, r.Client, gr); err != nil {
		return ctrl.Result{}, err
	}
	keeper := r.revisionKeeper()
	restored, rollback, err := keeper.follow(ctx, gr)
	if err != nil || restored {
		return ctrl.Result{}, err
	}
	as, rejected, err := keeper.inForce(ctx, r.Client, gr)
	if err == nil && rejected != nil {
		err = keeper.maySpecify(ctx, gr, as)
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	obs, err := r.stateReader().observe(ctx, as, last)
	if err != nil {
		return ctrl.Result{}, err
	}
	obs.Rollback, obs.Rejected = rollback, rejected
	if obs.Changed, err = keeper.changed(ctx, gr); err != nil {
		return ctrl.Result{}, err
	}
	return r.deploy(ctx, gr, obs, last)
}

// deploy decides about a gr that is not being deleted, carries out the plan, and reports. obs.Resource has the spec
// that is in force for it.
func (r *Reconciler) deploy(ctx context.Context, gr *topsv1.GcuResource, obs *state.Observation, last *lastPass) (ctrl.Result, error) {
	now := r.now()
	decided := plan.Decide(obs, now)
	if decided.Changes() {
		if err := r.revisionKeeper().confirmInForce(ctx, gr, obs.Resource); err != nil {
			return ctrl.Result{}, err
		}
	}
	apply := applier{r.Client, r.APIReader}
	fails, refused := apply.tryReplacements(ctx, obs, decided)
	if fails {
		decided = plan.Decide(obs, now)
	}
	r.reporter(last).send(obs.Resource, status.RemovalsAtOnce(decided.Delete))
	leaving, failed := apply.carryOut(ctx, obs, decided, func() bool { return last.failsLong(r.now()) })
	failed = errors.Join(refused, failed)
	last.begun = decided.Begun()
	obs.Begun = last.begun
	r.reporter(last).send(obs.Resource, status.RemovalsNodeByNode(leaving))
	var again time.Duration
	if decided.Applies() {
		before := len(decided.Delete)
		if decided = plan.Decide(obs, now); len(decided.Delete) > before {
			again = staleRetry // what was applied has changed nothing, so no event comes
		}
	}
	next := status.Describe(obs, decided, now)
	if status.EndsUpgrade(obs.Resource, &next) {
		// The cache of DaemonSets may be newer than that of revisions.
		if err := readRevisions(ctx, r.APIReader, obs); err != nil {
			return ctrl.Result{}, err
		}
		decided = plan.Decide(obs, now)
		next = status.Describe(obs, decided, now)
	}
	if err := r.reporter(last).report(ctx, obs.Resource, next); err != nil {
		return ctrl.Result{}, err
	}
	if failed != nil {
		return ctrl.Result{}, &reportedError{failed}
	}
	return ctrl.Result{RequeueAfter: retry.Sooner(decided.Recheck(failureRetry), again)}, nil
}

// operationsPoll is the time between two looks at the operations that the deletion of a gr waits for.
const operationsPoll = 5 * time.Second

// tearDown waits for the operations of a gr that is being deleted, then removes one component or, if none is left, releases
// the gr. Before that it reads the operations past the cache: afterwards there may be no manager to release their nodes.
func (r *Reconciler) tearDown(ctx context.Context, gr *topsv1.GcuResource, last *lastPass) (next ctrl.Result, err error) {
	if !controllerutil.ContainsFinalizer(gr, topsv1.Finalizer) {
		return next, nil
	}
	obs, err := r.stateReader().observe(ctx, gr, last)
	if err != nil {
		return next, err
	}
	if err := r.stateReader().readOperating(ctx, r.Client, obs); err != nil {
		return next, err
	}
	last.begun = nil // another gr may get the name
	down := plan.DecideTeardown(obs)
	failed := deleteObjects(ctx, r.Client, down.Delete)
	if down.Done() {
		if err := r.stateReader().readOperating(ctx, r.APIReader, obs); err != nil {
			return next, err
		}
		down = plan.DecideTeardown(obs)
	}
	if down.Done() {
		if failed, err = r.release(ctx, gr, obs); err != nil || failed == nil {
			return next, err // no status is left to report
		}
	}
	now := r.now()
	if failed != nil && last.failsLong(now) {
		obs.ReconcileFailure = status.ReconcileFailure(failed)
	}
	if err := r.reporter(last).report(ctx, gr, status.DescribeTeardown(obs, down, now)); err != nil {
		return next, err
	}
	if failed != nil {
		return next, &reportedError{failed}
	}
	if len(obs.Operating) > 0 {
		next.RequeueAfter = operationsPoll
	}
	return next, nil
}

// release removes the labels that no other gr needs, then the finalizer. failed is to be reported by the gr, err is not.
func (r *Reconciler) release(ctx context.Context, gr *topsv1.GcuResource, obs *state.Observation) (failed, err error) {
	if err := confirmAll(ctx, r.APIReader, append([]topsv1.GcuResource{*gr}, obs.Others...)); err != nil {
		return nil, err
	}
	others, unknownSpecs, err := r.revisionKeeper().allInForce(ctx, r.Client, obs.Others)
	if err != nil {
		return nil, err
	}
	if unknownSpecs != nil {
		log.FromContext(ctx).Error(unknownSpecs, "Leaving nodes the labels that another gr may need")
	}
	others.CountsCards = state.NodesWithCards(obs.Hosts)
	if failed := removeLabels(ctx, r.Client, obs.Nodes, others); failed != nil {
		return failed, nil
	}
	return removeFinalizer(ctx, r.Client, gr), nil
}

func (r *Reconciler) stateReader() stateReader {
	return stateReader{r.Client, r.APIReader, r.Namespace, &r.cache, r.StateTimes, r.now}
}

func (r *Reconciler) revisionKeeper() revisionKeeper {
	return revisionKeeper{r.Client, r.APIReader, r.Namespace}
}

func (r *Reconciler) reporter(last *lastPass) reporter { return reporter{r.Client, r.Recorder, last} }

func (r *Reconciler) now() time.Time {
	if r.Clock == nil {
		return time.Now() //nolint:forbidigo // the one place where the real clock comes in
	}
	return r.Clock()
}
