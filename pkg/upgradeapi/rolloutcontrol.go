package upgradeapi

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"time"

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
	return nil, r.annotate(ctx, c, gr, map[string]any{topsv1.AnnotationPaused: "true"})
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
	return nil, r.annotate(ctx, c, gr, map[string]any{topsv1.AnnotationPaused: nil})
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
	return r.annotate(ctx, c, rollout, changes)
}

// rollback requests that the operator restore an earlier spec of a gr.
func (r *rolloutControl) rollback(ctx context.Context, c call) (any, error) {
	to, err := request.ReadRollback(c.body)
	if err != nil {
		return nil, err
	}
	gr, err := r.present(ctx, c.name)
	if err != nil {
		return nil, err
	}
	kept, err := r.revisions(ctx, c.name)
	if err != nil {
		return nil, err
	}
	var names []string
	for i := range kept.Items {
		names = append(names, kept.Items[i].GetName())
	}
	if err := request.Restorable(c.name, to, names); err != nil {
		return nil, err
	}
	return nil, r.annotate(ctx, c, gr, map[string]any{topsv1.AnnotationRollbackTo: to})
}

// annotate sets annotations of an object, and removes those whose value is nil. It fails with a conflict if another object has
// taken the name, or if the DaemonRollout was changed: what is written of it may depend on its other annotations.
func (r *rolloutControl) annotate(ctx context.Context, c call, object client.Object, changes map[string]any) error {
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
	if _, is := object.(*topsv1.DaemonRollout); is {
		metadata["resourceVersion"] = object.GetResourceVersion()
	}
	patch, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return fmt.Errorf("encoding annotations: %w", err)
	}
	target := object.DeepCopyObject().(client.Object)
	return writer.Patch(ctx, target, client.RawPatch(types.MergePatchType, patch), c.patchOptions()...)
}
