package gcuresource

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/denial"
	"github.com/topsops/gcu-operator/pkg/gcuresource/nodelabel"
	"github.com/topsops/gcu-operator/pkg/gcuresource/revision"
	"github.com/topsops/gcu-operator/pkg/gcuresource/state"
	"github.com/topsops/gcu-operator/pkg/ownership"
)

// +kubebuilder:rbac:groups=apps,resources=controllerrevisions,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=topsops.enflame.com,resources=daemonrollouts,verbs=get;list;watch

// revisionKeeper stores the specs of grs as revisions, and restores them.
type revisionKeeper struct {
	client.Client
	APIReader client.Reader
	namespace string
}

// follow stores the current spec of a gr as a revision, then restores the one that its annotation
// requests. restored is true if the spec was replaced: the pass ends, and the next one starts
// from there. failure says why the requested spec cannot be restored, in which case nothing was
// changed.
func (r revisionKeeper) follow(ctx context.Context, gr *topsv1.GcuResource) (restored bool, failure *state.Failure, err error) {
	wanted, asked := gr.Annotations[topsv1.AnnotationRollbackTo]
	h, err := r.keepSpec(ctx, gr, asked)
	if err != nil {
		return false, nil, err
	}
	if asked {
		restored, failure, err = r.restore(ctx, gr, h, wanted)
		if restored || err != nil {
			return restored, failure, err
		}
	}
	if err := r.forgetRollback(ctx, gr); err != nil {
		return false, failure, err
	}
	return false, failure, r.trim(ctx, gr, h)
}

// keepSpec makes the revision of the current spec the newest one. It reads live before any write,
// because the cache may be stale, and always if live is true.
func (r revisionKeeper) keepSpec(ctx context.Context, gr *topsv1.GcuResource, live bool) (*revision.History, error) {
	if !live {
		h, err := r.read(ctx, r.Client, gr)
		if err != nil || h.HasCurrent() {
			return h, err
		}
	}
	h, err := r.read(ctx, r.APIReader, gr)
	if err != nil || h.HasCurrent() {
		return h, err
	}
	if err := confirm(ctx, r.APIReader, gr); err != nil {
		return nil, err
	}
	if h, err = r.deployedBefore(ctx, gr, h); err != nil {
		return nil, err
	}
	if known := h.Find(h.Current); known != nil {
		err = r.renumber(ctx, known, h.Next())
	} else {
		err = r.create(ctx, gr, h)
	}
	if err != nil {
		return nil, err
	}
	return r.read(ctx, r.APIReader, gr)
}

// deployedBefore makes the revision that is deployed in place of a rejected one the newest, before another
// spec is kept: so it is the previous one, which a rollback to previous restores.
func (r revisionKeeper) deployedBefore(ctx context.Context, gr *topsv1.GcuResource, h *revision.History) (*revision.History, error) {
	rollout, err := readRollout(ctx, r.Client, r.namespace, gr.Name)
	if err != nil || rollout.Status.Rollback == nil || !daemonset.IsOf(rollout, gr) {
		return h, err
	}
	good := h.Find(rollout.Status.InPlaceOf(h.Newest()))
	if good == nil || good.Name == h.Current {
		return h, nil
	}
	if err := r.renumber(ctx, good, h.Next()); err != nil {
		return nil, err
	}
	return r.read(ctx, r.APIReader, gr)
}

// changed returns the components that the current spec changed, as long as no status describes
// that spec.
func (r revisionKeeper) changed(ctx context.Context, gr *topsv1.GcuResource) ([]string, error) {
	if seen := gr.Status.ObservedGeneration; seen == 0 || seen == gr.Generation {
		return nil, nil
	}
	h, err := r.read(ctx, r.APIReader, gr)
	if err != nil {
		return nil, err
	}
	return h.Changed(gr)
}

// inForce returns a gr as it is to be deployed: with an earlier spec if its own was rejected; rejected then
// says why. A rejection is part of the ledger of the rollout, so it survives restarts; the
// spec of the gr is not modified.
func (r revisionKeeper) inForce(ctx context.Context, from client.Reader, gr *topsv1.GcuResource) (as *topsv1.GcuResource, rejected *state.Failure, err error) {
	rollout, err := readRollout(ctx, from, r.namespace, gr.Name)
	if err != nil || rollout.Status.Rollback == nil {
		return revision.Own(gr), nil, err
	}
	h, err := r.read(ctx, from, gr)
	if err != nil {
		return nil, nil, err
	}
	as, inPlace, err := h.InForce(gr, rollout)
	if err != nil || inPlace == "" {
		return as, nil, err
	}
	return as, revision.Rejected(h.Current, rollout.Status.Rollback), nil
}

// allInForce returns a list of grs, each as inForce returns it. A gr of which a Failure keeps that from being known is
// returned as it is, as unknown; unknownSpecs has the Failures.
func (r revisionKeeper) allInForce(ctx context.Context, from client.Reader, grs []topsv1.GcuResource) (all nodelabel.Inputs, unknownSpecs, err error) {
	all.Unknown = map[types.UID]bool{}
	for i := range grs {
		as, _, err := r.inForce(ctx, from, &grs[i])
		if err != nil {
			err = fmt.Errorf("finding the spec that is in force for GcuResource %s: %w", grs[i].Name, err)
			if _, isFailure := errors.AsType[*state.Failure](err); !isFailure {
				return all, nil, err
			}
			unknownSpecs, as = errors.Join(unknownSpecs, err), &grs[i]
			all.Unknown[grs[i].UID] = true
		}
		all.Resources = append(all.Resources, *as)
	}
	return all, unknownSpecs, nil
}

// confirmInForce is confirm for the spec that is to be deployed, which a rollback that the cache does not show yet
// may have rejected.
func (r revisionKeeper) confirmInForce(ctx context.Context, gr, as *topsv1.GcuResource) error {
	if err := confirm(ctx, r.APIReader, gr); err != nil {
		return err
	}
	now, _, err := r.inForce(ctx, r.APIReader, gr)
	if err != nil || equality.Semantic.DeepEqual(now.Spec, as.Spec) {
		return err
	}
	return oldCache(gr.Name)
}

// maySpecify returns an error unless the API server would accept the spec that is to be deployed in place
// of a rejected one: admission policies also apply to specs that are older than the policies.
func (r revisionKeeper) maySpecify(ctx context.Context, gr, as *topsv1.GcuResource) error {
	next := gr.DeepCopy()
	next.Spec = as.Spec
	err := r.Patch(ctx, next, client.MergeFrom(gr), client.DryRunAll, client.FieldOwner(topsv1.ManagedBy))
	if isRefusal(err) {
		return fmt.Errorf("the revision to be deployed in place of the rejected one is not accepted any more: apply another spec, or resume the rollout: %w", err)
	}
	if err != nil {
		return fmt.Errorf("asking whether an earlier spec is accepted: %w", err)
	}
	return nil
}

// isRefusal reports whether the API server or its admission does not accept a spec: the same request is refused again.
func isRefusal(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || denial.ByAdmission(err)
}

func (r revisionKeeper) read(ctx context.Context, from client.Reader, gr *topsv1.GcuResource) (*revision.History, error) {
	return ownership.KeptSpecs(ctx, from, r.namespace, gr)
}

// renumber makes an earlier revision the newest, as the DaemonSet controller does for equal
// templates.
func (r revisionKeeper) renumber(ctx context.Context, stored *appsv1.ControllerRevision, number int64) error {
	after := stored.DeepCopy()
	after.Revision = number
	log.FromContext(ctx).Info("Renumbering the revision of a spec that is back", "revision", stored.Name, "number", number)
	if err := r.Patch(ctx, after, locked(stored), client.FieldOwner(topsv1.ManagedBy)); err != nil {
		return fmt.Errorf("renumbering revision %s: %w", stored.Name, err)
	}
	return nil
}

// create stores the current spec. It deletes a revision with that name if a former gr left it
// behind and the garbage collector has not deleted it yet.
func (r revisionKeeper) create(ctx context.Context, gr *topsv1.GcuResource, h *revision.History) error {
	log.FromContext(ctx).Info("Keeping the spec as a revision", "revision", h.Current)
	err := r.Create(ctx, h.New(gr, r.namespace), client.FieldOwner(topsv1.ManagedBy))
	if denial.IsAlreadyExists(err) {
		if err := r.removeLeftover(ctx, gr, h.Current); err != nil {
			return err
		}
		err = r.Create(ctx, h.New(gr, r.namespace), client.FieldOwner(topsv1.ManagedBy))
	}
	if err != nil {
		return fmt.Errorf("keeping the spec as revision %s: %w", h.Current, err)
	}
	return nil
}

func (r revisionKeeper) removeLeftover(ctx context.Context, gr *topsv1.GcuResource, name string) error {
	var live appsv1.ControllerRevision
	err := r.APIReader.Get(ctx, client.ObjectKey{Namespace: r.namespace, Name: name}, &live)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading revision %s: %w", name, err)
	}
	if !revision.Leftover(gr, &live) {
		return fmt.Errorf("ControllerRevision %s/%s exists and is not a spec of GcuResource %s: delete it", r.namespace, name, gr.Name)
	}
	return r.remove(ctx, &live)
}

func (r revisionKeeper) remove(ctx context.Context, stored *appsv1.ControllerRevision) error {
	log.FromContext(ctx).Info("Deleting revision of a spec", "revision", stored.Name, "number", stored.Revision)
	err := r.Delete(ctx, stored, client.Preconditions{UID: &stored.UID})
	if denial.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting revision %s: %w", stored.Name, err)
	}
	return nil
}

// restore writes the spec of a revision into the gr. The same write removes the annotation that
// requested it and records what was restored, so there is nothing to resume: a restore is either done or
// not started.
func (r revisionKeeper) restore(ctx context.Context, gr *topsv1.GcuResource, h *revision.History, wanted string) (restored bool, failure *state.Failure, err error) {
	stored, failure := h.Target(wanted)
	if failure != nil {
		return false, failure, nil
	}
	spec, failure := revision.Spec(stored)
	if failure != nil {
		return false, failure, nil
	}
	before := gr.DeepCopy()
	delete(gr.Annotations, topsv1.AnnotationRollbackTo)
	if stored.Name != h.Current {
		gr.Spec = spec
		gr.Annotations[topsv1.AnnotationRolledBackTo] = stored.Name
		delete(gr.Annotations, topsv1.AnnotationUpgradePlan) // it is for the spec that is replaced
	}
	log.FromContext(ctx).Info("Restoring an earlier spec", "revision", stored.Name, "current", h.Current)
	err = r.Patch(ctx, gr, locked(before), client.FieldOwner(topsv1.ManagedBy))
	if isRefusal(err) {
		before.DeepCopyInto(gr)
		return false, revision.Refused(stored.Name, err), nil
	}
	if err != nil {
		return false, nil, fmt.Errorf("restoring revision %s: %w", stored.Name, err)
	}
	return true, nil, nil
}

// forgetRollback removes the record of a restored spec once the spec has changed again.
func (r revisionKeeper) forgetRollback(ctx context.Context, gr *topsv1.GcuResource) error {
	if _, ok := gr.Annotations[topsv1.AnnotationRolledBackTo]; !ok || revision.RolledBack(gr) {
		return nil
	}
	before := gr.DeepCopy()
	delete(gr.Annotations, topsv1.AnnotationRolledBackTo)
	if err := r.Patch(ctx, gr, locked(before), client.FieldOwner(topsv1.ManagedBy)); err != nil {
		return fmt.Errorf("removing annotation %s: %w", topsv1.AnnotationRolledBackTo, err)
	}
	return nil
}

// trim deletes the oldest revisions beyond the limit, except those that a rollback may need.
func (r revisionKeeper) trim(ctx context.Context, gr *topsv1.GcuResource, h *revision.History) error {
	if !h.IsFull() {
		return nil
	}
	rollout, err := readRollout(ctx, r.Client, r.namespace, gr.Name)
	if err != nil {
		return err
	}
	protected := []string{gr.Annotations[topsv1.AnnotationRollbackTo]}
	if good := rollout.Status.LastKnownGood; good != nil {
		protected = append(protected, good.GcuResourceRevision)
	}
	sets, err := controlledDaemonSets(ctx, r.Client, gr)
	if err != nil {
		return err
	}
	surplus, err := h.Surplus(sets, protected...)
	if err != nil {
		return err
	}
	var errs []error
	for _, stored := range surplus {
		errs = append(errs, r.remove(ctx, stored))
	}
	return errors.Join(errs...)
}

// controlledDaemonSets lists the DaemonSets that carry the label of the gr and are controlled by it.
func controlledDaemonSets(ctx context.Context, from client.Reader, gr *topsv1.GcuResource) (sets []*appsv1.DaemonSet, err error) {
	var list appsv1.DaemonSetList
	if err := from.List(ctx, &list, client.MatchingLabels{topsv1.LabelGcuResource: gr.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the DaemonSets of GcuResource %s: %w", gr.Name, err)
	}
	for i := range list.Items {
		if daemonset.IsOf(&list.Items[i], gr) {
			sets = append(sets, &list.Items[i])
		}
	}
	return sets, nil
}
