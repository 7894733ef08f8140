package daemonupdater

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
)

// rollbackRetry is how soon a gr is looked at again whose DaemonSets are not
// what its spec asks for yet.
const rollbackRetry = 5 * time.Second

// +kubebuilder:rbac:groups=apps,resources=daemonsets,verbs=patch
// +kubebuilder:rbac:groups=topsops.enflame.com,resources=gcuresources,verbs=get;list;watch;patch

// decideRollback looks for what a rollback needs, and decides.
func (r *Reconciler) decideRollback(ctx context.Context, o *observation, in rollout.Input, d rollout.Decision) (rollback, error) {
	good := o.rollout.Status.LastKnownGood
	if good == nil || !asksRollback(o, in, d) {
		return rollbackOf(o, in, d, false), nil
	}
	if o.group.Kind != kindGcuResource {
		return rollbackOf(o, in, d, keptIn(good, o.members)), nil
	}
	var revision appsv1.ControllerRevision
	err := r.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: good.GcuResourceRevision}, &revision)
	if client.IgnoreNotFound(err) != nil {
		return rollback{}, fmt.Errorf("looking for revision %s: %w", good.GcuResourceRevision, err)
	}
	return rollbackOf(o, in, d, err == nil), nil
}

// rollBack carries a stored rollback out. It changes nothing that is not what
// was observed, so it may be repeated: until the target has changed every pass
// decides the same. It returns how long to wait when somebody else is to act first.
func (r *Reconciler) rollBack(ctx context.Context, o *observation, in rollout.Input, rb rollback) (wait time.Duration, err error) {
	if rb.to == nil {
		return 0, nil
	}
	if o.group.Kind == kindGcuResource {
		return r.askForSpec(ctx, o, rb.to)
	}
	for i, m := range o.members {
		hash := targetIn(rb.to, m.key())
		if in.Members[i].Target == hash {
			continue
		}
		if err := r.undo(ctx, o, m, hash); err != nil {
			return 0, err
		}
	}
	return 0, nil
}

// undo gives a DaemonSet the template of an earlier revision, as kubectl rollout
// undo does. The DaemonSet controller finds the template among its revisions and
// makes that one the newest, so pods still at it are not restarted.
func (r *Reconciler) undo(ctx context.Context, o *observation, m member, hash string) error {
	live, err := r.unchanged(ctx, m)
	if err != nil {
		return err
	}
	revisions, err := r.liveRevisions(ctx, m, live)
	if err != nil {
		return err
	}
	revision := revisionWith(live, revisions, hash)
	if revision == nil || !sameTarget(m, live, revisions) {
		return errMoved
	}
	patch, err := undoPatch(live, revision)
	if err != nil {
		return err
	}
	if err := r.stillDecides(ctx, o); err != nil {
		return err
	}
	log.FromContext(ctx).Info("Rolling DaemonSet back", "DaemonSet", klog.KObj(live), "revision", hash)
	if err := r.Patch(ctx, live, client.RawPatch(types.StrategicMergePatchType, patch), client.FieldOwner(topsv1.ManagedBy)); err != nil {
		return fmt.Errorf("rolling DaemonSet %s back to %s: %w", m.key(), hash, err)
	}
	return nil
}

// unchanged reads a DaemonSet past the cache. It returns errMoved when it is not
// what was observed any more.
func (r *Reconciler) unchanged(ctx context.Context, m member) (*appsv1.DaemonSet, error) {
	live, same, err := r.readAgain(ctx, m)
	if err != nil {
		return nil, err
	}
	if !same || live.Annotations[topsv1.AnnotationRevision] != m.daemonSet.Annotations[topsv1.AnnotationRevision] {
		return nil, errMoved
	}
	return live, nil
}

// stillDecides returns errMoved when the ledger is not what this pass left: then
// another manager decides by now, because this one was paused past its lease.
func (r *Reconciler) stillDecides(ctx context.Context, o *observation) error {
	known := o.rollout
	if last, ok := r.written[o.group]; ok && slices.Contains(last.basedOn, known.ResourceVersion) {
		known = last.rollout
	}
	var live topsv1.DaemonRollout
	err := r.Live.Get(ctx, client.ObjectKeyFromObject(known), &live)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading DaemonRollout %s again: %w", client.ObjectKeyFromObject(known), err)
	}
	if err != nil || live.ResourceVersion != known.ResourceVersion {
		return errMoved
	}
	return nil
}

// undoPatch is a strategic merge patch that replaces the pod template by that of
// a revision: its data has the form {"spec":{"template":{…,"$patch":"replace"}}}.
// It fails when the DaemonSet changed since it was read.
func undoPatch(live *appsv1.DaemonSet, revision *appsv1.ControllerRevision) ([]byte, error) {
	var data struct {
		Spec struct {
			Template map[string]any `json:"template"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(revision.Data.Raw, &data); err != nil {
		return nil, fmt.Errorf("reading ControllerRevision %s/%s: %w", revision.Namespace, revision.Name, err)
	}
	if len(data.Spec.Template) == 0 {
		return nil, fmt.Errorf("ControllerRevision %s/%s holds no pod template", revision.Namespace, revision.Name)
	}
	data.Spec.Template["$patch"] = "replace"
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": live.UID, "resourceVersion": live.ResourceVersion},
		"spec":     map[string]any{"template": data.Spec.Template},
	})
	if err != nil {
		return nil, fmt.Errorf("encoding the template of ControllerRevision %s/%s: %w", revision.Namespace, revision.Name, err)
	}
	return patch, nil
}

// askForSpec asks the gcuresource controller, by annotation, to restore the spec
// of a good revision. It does so only while the DaemonSets are what the gr's
// present spec and annotations ask for: a newer wish of a person wins.
func (r *Reconciler) askForSpec(ctx context.Context, o *observation, to *topsv1.KnownGoodRevision) (wait time.Duration, err error) {
	owner := gcuResourceOwner(o.members[0].daemonSet)
	var gr topsv1.GcuResource
	if err := r.Live.Get(ctx, client.ObjectKey{Name: owner.Name}, &gr); err != nil {
		if apierrors.IsNotFound(err) {
			return 0, nil // its DaemonSets go too
		}
		return 0, fmt.Errorf("reading GcuResource %s: %w", owner.Name, err)
	}
	if _, asked := gr.Annotations[topsv1.AnnotationRollbackTo]; asked || gr.UID != owner.UID || gr.DeletionTimestamp != nil {
		return 0, nil
	}
	for _, m := range o.members {
		live, err := r.unchanged(ctx, m)
		if err != nil {
			return 0, err
		}
		if gr.Status.ObservedGeneration != gr.Generation || !carriedOver(&gr, live) {
			return rollbackRetry, nil
		}
	}
	if err := r.stillDecides(ctx, o); err != nil {
		return 0, err
	}
	before := gr.DeepCopy()
	gr.Annotations[topsv1.AnnotationRollbackTo] = to.GcuResourceRevision
	log.FromContext(ctx).Info("Asking for an earlier spec", "revision", to.GcuResourceRevision)
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.Patch(ctx, &gr, patch, client.FieldOwner(topsv1.ManagedBy)); err != nil {
		return 0, fmt.Errorf("asking GcuResource %s to go back to %s: %w", gr.Name, to.GcuResourceRevision, err)
	}
	return 0, nil
}

// carriedOver reports whether the upgrade annotations of a gr are on its DaemonSet.
func carriedOver(gr *topsv1.GcuResource, ds *appsv1.DaemonSet) bool {
	for _, key := range topsv1.UpgradeAnnotations {
		if gr.Annotations[key] != ds.Annotations[key] {
			return false
		}
	}
	return true
}
