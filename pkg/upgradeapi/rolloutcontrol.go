package upgradeapi

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/askedby"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/denial"
	"github.com/topsops/gcu-operator/pkg/gcuresource/revision"
	"github.com/topsops/gcu-operator/pkg/upgradeapi/request"
)

// rolloutControl serves pause, resume and rollback: each writes an annotation that the
// operator acts on.
type rolloutControl struct {
	*cluster
	access Access
	clock  clock.PassiveClock
}

// pause stops the rollout of a gr from starting further nodes.
func (r *rolloutControl) pause(ctx context.Context, c call) (any, error) {
	if err := request.RejectBody(c.body); err != nil {
		return nil, err
	}
	gr, err := r.present(ctx, c.name)
	if err != nil {
		return nil, err
	}
	return nil, r.annotate(ctx, c, gr, "", map[string]any{topsv1.AnnotationPaused: "true"})
}

// resume removes a pause; clears the failures of a rollout that is halted, or was not paused; and ends the rejection of a revision
// unless the gr was paused: the pause may be there only to look into what was rolled back.
// For the latter two the caller needs the rights on the DaemonRollout that a write of its own would need.
func (r *rolloutControl) resume(ctx context.Context, c call) (any, error) {
	if err := request.RejectBody(c.body); err != nil {
		return nil, err
	}
	gr, err := r.present(ctx, c.name)
	if err != nil {
		return nil, err
	}
	paused, err := daemonset.Paused(gr.Annotations)
	unpaused := err == nil && !paused // an invalid value stops the rollout too
	// The pause is removed last: if it is gone, everything is done.
	err = retry.OnError(retry.DefaultBackoff, denial.IsConflict, func() error { return r.clearFailures(ctx, c, unpaused) })
	if err != nil {
		return nil, err
	}
	return nil, r.annotate(ctx, c, gr, "", map[string]any{topsv1.AnnotationPaused: nil})
}

// clearFailures resumes the DaemonRollout of a gr if it is stopped. It fails with a conflict if the DaemonRollout changes
// meanwhile, for example by an approval.
func (r *rolloutControl) clearFailures(ctx context.Context, c call, unpaused bool) error {
	rollout := &topsv1.DaemonRollout{}
	err := r.Get(ctx, client.ObjectKey{Namespace: r.namespace, Name: c.name}, rollout)
	if denial.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading DaemonRollout %s: %w", c.name, err)
	}
	stopped := meta.IsStatusConditionTrue(rollout.Status.Conditions, topsv1.RolloutHalted) ||
		rollout.Status.FailedNodes > 0 && unpaused // which may use up the budget
	if rollout.Status.Rollback != nil {
		stopped = unpaused
	}
	if !rollout.BelongsTo(topsv1.GcuResourceKind, c.name) || !stopped {
		return nil
	}
	if err := authorize(ctx, r.access, c, onRollout("update", r.namespace, c.name), onRollout("patch", r.namespace, c.name)); err != nil {
		return err
	}
	changes := map[string]any{topsv1.AnnotationResume: r.clock.Now().UTC().Format(time.RFC3339Nano)}
	if approvals, ok := rollout.ApprovalsAfterRejection(); ok {
		changes[topsv1.AnnotationApprovedWaves] = approvals
	}
	return r.annotate(ctx, c, rollout, rollout.ResourceVersion, changes) // the approvals depend on the others
}

// rollback requests that the operator restore an earlier spec of a gr. The annotation names its revision: previous would be another one
// after a change of the spec.
func (r *rolloutControl) rollback(ctx context.Context, c call) (any, error) {
	to, err := request.ReadRollback(c.body)
	if err != nil {
		return nil, err
	}
	gr, err := r.present(ctx, c.name)
	if err != nil {
		return nil, err
	}
	return nil, r.whileUnchanged(ctx, gr, func(gr *topsv1.GcuResource) error {
		target, asked, err := r.restorable(ctx, gr, to)
		if err != nil || asked {
			return err
		}
		return repeatable(r.annotate(ctx, c, gr, gr.ResourceVersion, map[string]any{topsv1.AnnotationRollbackTo: target}), target)
	})
}

// repeatable returns the error of a write of a rollback. One that may have been stored all the same is repeated by the revision's name: previous
// would restore what it has replaced.
func repeatable(err error, target string) error {
	if err == nil {
		return nil
	}
	if status, message := failure(err); status >= http.StatusInternalServerError {
		return request.Refuse(status, "the rollback may have been requested: repeat it only as {\"to\": %q}: %s", target, message)
	}
	return err
}

// restorable returns the revision that a rollback of a gr restores, and whether it has already been asked for.
func (r *rolloutControl) restorable(ctx context.Context, gr *topsv1.GcuResource, to string) (target string, asked bool, err error) {
	var list appsv1.ControllerRevisionList
	if err := r.List(ctx, &list, client.InNamespace(r.namespace), client.MatchingLabels{topsv1.LabelGcuResource: gr.Name}); err != nil {
		return "", false, fmt.Errorf("listing the revisions of %s: %w", gr.Name, err)
	}
	history, err := revision.NewHistory(gr, list.Items)
	if err != nil {
		return "", false, err
	}
	return request.Restorable(gr, history, to)
}

// annotate sets annotations of an object, and removes those whose value is nil. It fails with a conflict if another object has
// taken the name, or if the object is no longer at the given version, "" for any.
func (r *rolloutControl) annotate(ctx context.Context, c call, object client.Object, version string, changes map[string]any) error {
	ctx, writer, err := r.writer(ctx, c.user)
	if err != nil {
		return err
	}
	before, after := map[string]string{}, map[string]string{}
	for key, value := range changes {
		log.FromContext(ctx).Info("Writing annotation", "annotation", key, "value", value, "dryRun", c.dryRun)
		before[key] = object.GetAnnotations()[key]
		if value != nil {
			after[key] = fmt.Sprint(value)
		}
	}
	annotations := authorship(c.user, askedby.VerbOf(before, after), r.clock.Now())
	maps.Copy(annotations, changes)
	metadata := map[string]any{"uid": object.GetUID(), "annotations": annotations}
	if version != "" {
		metadata["resourceVersion"] = version
	}
	patch, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return fmt.Errorf("encoding annotations: %w", err)
	}
	target := object.DeepCopyObject().(client.Object)
	return writer.Patch(ctx, target, client.RawPatch(types.MergePatchType, patch), c.patchOptions()...)
}
