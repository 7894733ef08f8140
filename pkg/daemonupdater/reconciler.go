package daemonupdater

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

// reportInterval is the least time between two status writes of one group that do
// not change the ledger, which is stored at once. When only few nodes moved on as
// they should, that is told after moveInterval.
const (
	reportInterval = time.Second
	moveInterval   = 7 * time.Second
)

// cacheLag is how long the cache may fail to show an object after its creation
// before it is looked for at the API server.
const cacheLag = 2 * time.Second

// retryAhead is when to decide again after the world turned out to be ahead of
// the cache.
const retryAhead = 50 * time.Millisecond

// +kubebuilder:rbac:groups=apps,resources=daemonsets;controllerrevisions,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=pods/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch
// +kubebuilder:rbac:groups=topsops.enflame.com,resources=daemonrollouts,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups=topsops.enflame.com,resources=daemonrollouts/status,verbs=update
// +kubebuilder:rbac:groups=topsops.enflame.com,resources=upgradepolicies,verbs=get;list;watch
// +kubebuilder:rbac:groups=topsops.enflame.com,resources=nodeupgrades,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=topsops.enflame.com,resources=nodeupgrades/status,verbs=patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconciler rolls one group per reconcile. It runs in one goroutine: groups
// are few, and what takes time within one is done in parallel.
type Reconciler struct {
	client.Client
	// Live reads past the cache.
	Live client.Reader
	// Recorder sends events.
	Recorder events.EventRecorder
	// Metrics of the rollouts.
	Metrics *Metrics
	// Node is the node that this program runs on, which comes last; "" when it is not
	// known.
	Node string
	// Namespace holds the DaemonRollouts of GcuResources.
	Namespace string
	// Book says which components an operation replaces, and how.
	Book upgradeplan.Book
	// Deadlines of nodes in flight.
	Deadlines rollout.Deadlines
	// Clock tells the time.
	Clock func() time.Time

	// written is, per group, the rollout as this process last wrote it, until
	// the cache shows it.
	written map[Group]writtenRollout
	// views are what is remembered of each group's nodes.
	views   map[Group]*view
	dirty   dirtyNodes
	deleted deletedPods
}

type writtenRollout struct {
	// basedOn are the resourceVersions that this write and those before it
	// replaced: the cache may still show any of them.
	basedOn []string
	rollout *topsv1.DaemonRollout
	at      time.Time
}

// Reconcile makes one pass over a group: observe, decide, store the ledger, act,
// report.
func (r *Reconciler) Reconcile(ctx context.Context, g Group) (ctrl.Result, error) {
	dirty := r.dirty.take(g) // before anything is read: what comes later is for the next pass
	o, err := r.observe(ctx, g)
	if err != nil {
		delete(r.views, g) // the nodes taken above were not read again
		return ctrl.Result{}, err
	}
	if len(o.members) == 0 {
		r.forget(g)
		_, err := r.withdraw(ctx, g.rolloutKey(r.Namespace).String())
		return resultOf(ctx, 0, errors.Join(err, r.answerOrphans(ctx, g)))
	}
	if o.foreign() {
		r.forget(g)
		return ctrl.Result{}, nil
	}
	in := inputOf(o, &r.Book, r.Deadlines, r.Clock())
	if err := r.look(ctx, o, &in, dirty); err != nil {
		delete(r.views, g)
		return ctrl.Result{}, err
	}
	r.deleted.prune(g, o.view)
	d := o.view.fleet.Plan(in)
	if in.Blocked == nil && in.Settings.Strategy == daemonset.NoStrategy {
		again, err := r.release(ctx, o, in, d)
		return resultOf(ctx, again, err)
	}
	delay, err := r.carryOut(ctx, o, in, d)
	r.Metrics.show(g, d)
	if o.unseen || o.rollout.ResourceVersion == "" {
		delay = soonest(delay, cacheLag)
	}
	return resultOf(ctx, soonest(d.Recheck, delay), err)
}

// resultOf ends a pass: a world that is ahead of the cache is no error, the
// next pass decides with what is there now.
func resultOf(ctx context.Context, again time.Duration, err error) (ctrl.Result, error) {
	switch {
	case err == nil:
		return ctrl.Result{RequeueAfter: again}, nil
	case isAhead(err):
		log.FromContext(ctx).V(4).Info("Stale cache, requeueing", "cause", err.Error())
		return ctrl.Result{RequeueAfter: retryAhead}, nil
	}
	return ctrl.Result{}, err
}

// carryOut stores the ledger, then acts, then reports. What is about to lose pods
// is read again meanwhile. It returns how long a status that was not urgent has to
// wait.
func (r *Reconciler) carryOut(ctx context.Context, o *observation, in rollout.Input, d rollout.Decision) (wait time.Duration, err error) {
	if err := r.confirmUnseen(ctx, o, d.Unseen, in.Now); err != nil {
		return 0, err
	}
	rb, err := r.decideRollback(ctx, o, in, d)
	if err != nil {
		return 0, err
	}
	due := r.undone(d.Delete)
	var unchanged map[int]bool
	var check errgroup.Group
	check.Go(func() (err error) {
		unchanged, err = r.recheck(ctx, o, due)
		return err
	})
	wait, err = r.store(ctx, o, in, d, rb)
	failed := check.Wait()
	if err != nil {
		return 0, err
	}
	if failed == nil {
		failed = r.deletePods(ctx, o, due, unchanged)
	}
	fenced := errors.Join(r.fencePods(ctx, o, in.Now, d.Fence), r.give(ctx, o, &in, d.Orders))
	soon, undone := r.rollBack(ctx, o, in, rb)
	again, reported := r.report(ctx, o, in, d)
	return soonest(soonest(wait, soon), again), errors.Join(failed, fenced, undone, reported)
}

// isAhead reports whether every error says that something changed since it was
// read: then the next pass decides with what is there now.
func isAhead(err error) bool {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			if !isAhead(e) {
				return false
			}
		}
		return true
	}
	return errors.Is(err, errMoved) || apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err)
}

// store writes the status of the group: at once when the ledger changed, else
// after an interval; then it returns how long to wait.
// Events are sent after the write.
func (r *Reconciler) store(ctx context.Context, o *observation, in rollout.Input, d rollout.Decision, rb rollback) (wait time.Duration, err error) {
	if want := (topsv1.TargetRef{Kind: o.group.Kind, Name: o.group.Name}); o.rollout.Spec.TargetRef != want {
		return 0, fmt.Errorf("DaemonRollout %s belongs to %s %s, not to %s %s: rename one of them",
			client.ObjectKeyFromObject(o.rollout), o.rollout.Spec.TargetRef.Kind, o.rollout.Spec.TargetRef.Name, want.Kind, want.Name)
	}
	before := o.rollout.Status
	d.Halted = rb.explain(d.Halted)
	status := statusOf(before, o.rollout.Generation, in, d)
	rb.remember(&status, o, in, d)
	if equality.Semantic.DeepEqual(before, status) {
		return 0, nil
	}
	interval := reportInterval
	if onlyMoved(&before, &status) {
		interval = moveInterval
	}
	if elapsed := in.Now.Sub(r.written[o.group].at); elapsed < interval && !mustPrecede(&before, &status) {
		return interval - elapsed, nil
	}
	basedOn := o.rollout.ResourceVersion
	next := o.rollout.DeepCopy()
	if basedOn == "" {
		if err := r.Create(ctx, next); err != nil {
			return 0, fmt.Errorf("creating DaemonRollout %s: %w", client.ObjectKeyFromObject(next), err)
		}
	}
	next.Status = status
	if err := r.Status().Update(ctx, next); err != nil {
		delete(r.written, o.group) // it may be gone, and then what was written says nothing
		return 0, fmt.Errorf("storing the ledger of DaemonRollout %s: %w", client.ObjectKeyFromObject(next), err)
	}
	r.written[o.group] = writtenRollout{basedOn: r.replaced(o.group, basedOn), rollout: next, at: in.Now}
	r.Metrics.count(o.group, in.Ledger, d)
	// Events about the same with the same reason are counted, and shown with what the first
	// of them said. This status as related object makes each of them one of its own.
	for _, e := range noticesOf(&before, &status) {
		r.Recorder.Eventf(targetOf(o), next, e.kind, e.reason, "Rollout", "%s", e.message)
	}
	return 0, nil
}

// replaced returns the resourceVersions that a write of a rollout replaced,
// together with those replaced by the writes that it follows.
func (r *Reconciler) replaced(g Group, version string) []string {
	if last, ok := r.written[g]; ok && last.rollout.ResourceVersion == version {
		return append(last.basedOn, version)
	}
	return []string{version}
}

// caughtUp forgets what earlier writes of a rollout replaced: the cache shows
// the last one, and does not go back.
func (r *Reconciler) caughtUp(g Group) {
	if last, ok := r.written[g]; ok {
		last.basedOn = nil
		r.written[g] = last
	}
}

// report tells pods and nodes what was decided about them, and returns when to go
// on with the rest, 0 when there is none.
func (r *Reconciler) report(ctx context.Context, o *observation, in rollout.Input, d rollout.Decision) (again time.Duration, err error) {
	patches, more, err := conditionPatches(o, &in, &d)
	if err != nil {
		return 0, err
	}
	if more {
		again = time.Millisecond
	}
	return again, errors.Join(r.patchConditions(ctx, o.view, patches), r.answerRequests(ctx, o, in, d))
}

// release ends the control over a group that has no strategy any more: first
// what was left on its pods and nodes, and deletions that may still be under way,
// then the rollout itself.
func (r *Reconciler) release(ctx context.Context, o *observation, in rollout.Input, d rollout.Decision) (again time.Duration, err error) {
	err = errors.Join(r.confirmUnseen(ctx, o, d.Unseen, in.Now), r.fencePods(ctx, o, in.Now, d.Fence), r.give(ctx, o, &in, d.Orders))
	if again, failed := r.report(ctx, o, in, d); err != nil || failed != nil || again > 0 {
		return again, errors.Join(err, failed)
	}
	if o.view.unfenced(&d) {
		return retryAhead, nil
	}
	if left, err := r.withdraw(ctx, rolloutOf(o)); err != nil || left {
		return retryAhead, err
	}
	log.FromContext(ctx).Info("Deleting DaemonRollout, its target has no update strategy any more", "rollout", o.group.String())
	if err := r.Delete(ctx, o.rollout, client.Preconditions{UID: &o.rollout.UID}); client.IgnoreNotFound(err) != nil {
		return 0, fmt.Errorf("deleting DaemonRollout %s: %w", client.ObjectKeyFromObject(o.rollout), err)
	}
	r.forget(o.group)
	return 0, nil
}

func (r *Reconciler) forget(g Group) {
	delete(r.written, g)
	delete(r.views, g)
	r.deleted.prune(g, nil)
	r.Metrics.forget(g)
}

// soonest returns the shorter of two delays, where 0 means none.
func soonest(a, b time.Duration) time.Duration {
	if a == 0 || (b != 0 && b < a) {
		return b
	}
	return a
}
