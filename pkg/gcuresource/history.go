package gcuresource

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// +kubebuilder:rbac:groups=apps,resources=controllerrevisions,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=topsops.enflame.com,resources=daemonrollouts,verbs=get;list;watch

// followHistory keeps the present spec of a gr as a revision, then restores the
// one its annotation asks for. restored is true when the spec was replaced: the
// pass ends, the next one starts from there. failure says why what the
// annotation asks for cannot be restored; then nothing was changed.
func (r *Reconciler) followHistory(ctx context.Context, gr *topsv1.GcuResource) (restored bool, failure *Failure, err error) {
	wish, asked := gr.Annotations[topsv1.AnnotationRollbackTo]
	h, err := r.keepSpec(ctx, gr, asked)
	if err != nil {
		return false, nil, err
	}
	if asked {
		restored, failure, err = r.restore(ctx, gr, h, wish)
		if restored || err != nil {
			return restored, failure, err
		}
	}
	if err := r.forgetRollback(ctx, gr); err != nil {
		return false, failure, err
	}
	return false, failure, r.trim(ctx, gr, h)
}

// keepSpec makes the revision of the present spec the newest one. The cache may
// be behind, so the API server is asked before anything is written, and always
// when live is true.
func (r *Reconciler) keepSpec(ctx context.Context, gr *topsv1.GcuResource, live bool) (*history, error) {
	if !live {
		h, err := r.readHistory(ctx, r.Client, gr)
		if err != nil || h.isKept() {
			return h, err
		}
	}
	h, err := r.readHistory(ctx, r.APIReader, gr)
	if err != nil || h.isKept() {
		return h, err
	}
	if known := h.find(h.current); known != nil {
		err = r.renumber(ctx, known, h.next())
	} else {
		err = r.createRevision(ctx, gr, h)
	}
	if err != nil {
		return nil, err
	}
	return r.readHistory(ctx, r.APIReader, gr)
}

// readChanged returns the components that the present spec changed, while no
// status tells of that spec.
func (r *Reconciler) readChanged(ctx context.Context, gr *topsv1.GcuResource) ([]string, error) {
	if told := gr.Status.ObservedGeneration; told == 0 || told == gr.Generation {
		return nil, nil
	}
	h, err := r.readHistory(ctx, r.APIReader, gr)
	if err != nil {
		return nil, err
	}
	return h.changed(gr)
}

func (r *Reconciler) readHistory(ctx context.Context, from client.Reader, gr *topsv1.GcuResource) (*history, error) {
	var list appsv1.ControllerRevisionList
	if err := from.List(ctx, &list, client.InNamespace(r.Namespace), client.MatchingLabels{topsv1.LabelGcuResource: gr.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing revisions of GcuResource %s: %w", gr.Name, err)
	}
	return newHistory(gr, list.Items)
}

// renumber makes an earlier revision the newest, as the DaemonSet controller
// does with equal templates.
func (r *Reconciler) renumber(ctx context.Context, revision *appsv1.ControllerRevision, number int64) error {
	after := revision.DeepCopy()
	after.Revision = number
	log.FromContext(ctx).Info("Renumbering the revision of a spec that is back", "revision", revision.Name, "number", number)
	if err := r.Patch(ctx, after, locked(revision), client.FieldOwner(topsv1.ManagedBy)); err != nil {
		return fmt.Errorf("renumbering revision %s: %w", revision.Name, err)
	}
	return nil
}

// createRevision stores the present spec. What a gr of the same name left
// behind, and the garbage collector has not taken yet, makes room.
func (r *Reconciler) createRevision(ctx context.Context, gr *topsv1.GcuResource, h *history) error {
	log.FromContext(ctx).Info("Keeping the spec as a revision", "revision", h.current)
	err := r.Create(ctx, h.revision(gr, r.Namespace), client.FieldOwner(topsv1.ManagedBy))
	if apierrors.IsAlreadyExists(err) {
		if err := r.removeLeftover(ctx, gr, h.current); err != nil {
			return err
		}
		err = r.Create(ctx, h.revision(gr, r.Namespace), client.FieldOwner(topsv1.ManagedBy))
	}
	if err != nil {
		return fmt.Errorf("keeping the spec as revision %s: %w", h.current, err)
	}
	return nil
}

func (r *Reconciler) removeLeftover(ctx context.Context, gr *topsv1.GcuResource, name string) error {
	var live appsv1.ControllerRevision
	err := r.APIReader.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: name}, &live)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading revision %s: %w", name, err)
	}
	if !leftover(gr, &live) {
		return fmt.Errorf("ControllerRevision %s/%s exists and is no spec of GcuResource %s: delete it", r.Namespace, name, gr.Name)
	}
	return r.deleteRevision(ctx, &live)
}

func (r *Reconciler) deleteRevision(ctx context.Context, revision *appsv1.ControllerRevision) error {
	log.FromContext(ctx).Info("Deleting revision of a spec", "revision", revision.Name, "number", revision.Revision)
	err := r.Delete(ctx, revision, client.Preconditions{UID: &revision.UID})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting revision %s: %w", revision.Name, err)
	}
	return nil
}

// restore writes the spec of a revision into the gr. The same write takes away
// the annotation that asked for it and notes what was restored, so there is
// nothing to resume: it is done, or it was not begun.
func (r *Reconciler) restore(ctx context.Context, gr *topsv1.GcuResource, h *history, wish string) (restored bool, failure *Failure, err error) {
	revision, failure := h.target(wish)
	if failure != nil {
		return false, failure, nil
	}
	spec, failure := specIn(revision)
	if failure != nil {
		return false, failure, nil
	}
	before := gr.DeepCopy()
	delete(gr.Annotations, topsv1.AnnotationRollbackTo)
	if revision.Name != h.current {
		gr.Spec = spec
		gr.Annotations[topsv1.AnnotationRolledBackTo] = revision.Name
	}
	log.FromContext(ctx).Info("Restoring an earlier spec", "revision", revision.Name, "present", h.current)
	err = r.Patch(ctx, gr, locked(before), client.FieldOwner(topsv1.ManagedBy))
	if apierrors.IsInvalid(err) {
		before.DeepCopyInto(gr)
		return false, refused(revision.Name, err), nil
	}
	if err != nil {
		return false, nil, fmt.Errorf("restoring revision %s: %w", revision.Name, err)
	}
	return true, nil, nil
}

// refused says that the API server does not take the spec of a revision.
func refused(name string, err error) *Failure {
	return &Failure{Reason: ReasonRefusedRevision, Message: fmt.Sprintf(
		"the spec of revision %s cannot be restored: %v: change the spec step by step, or remove annotation %s", name, err, topsv1.AnnotationRollbackTo)}
}

// forgetRollback removes the note that the spec was restored once it is another one.
func (r *Reconciler) forgetRollback(ctx context.Context, gr *topsv1.GcuResource) error {
	if _, ok := gr.Annotations[topsv1.AnnotationRolledBackTo]; !ok || rolledBack(gr) {
		return nil
	}
	before := gr.DeepCopy()
	delete(gr.Annotations, topsv1.AnnotationRolledBackTo)
	if err := r.Patch(ctx, gr, locked(before), client.FieldOwner(topsv1.ManagedBy)); err != nil {
		return fmt.Errorf("removing annotation %s: %w", topsv1.AnnotationRolledBackTo, err)
	}
	return nil
}

// trim deletes the oldest revisions beyond the limit, but for those that
// somebody may go back to.
func (r *Reconciler) trim(ctx context.Context, gr *topsv1.GcuResource, h *history) error {
	if len(h.revisions) <= maxRevisions {
		return nil
	}
	// The DaemonRollout of a gr has its name and is in the operator's namespace.
	var rollout topsv1.DaemonRollout
	err := r.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: gr.Name}, &rollout)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading DaemonRollout %s: %w", gr.Name, err)
	}
	protected := []string{gr.Annotations[topsv1.AnnotationRollbackTo]}
	if good := rollout.Status.LastKnownGood; good != nil {
		protected = append(protected, good.GcuResourceRevision)
	}
	var errs []error
	for _, revision := range h.surplus(protected...) {
		errs = append(errs, r.deleteRevision(ctx, revision))
	}
	return errors.Join(errs...)
}
