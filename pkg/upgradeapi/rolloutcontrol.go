package upgradeapi

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/askedby"
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
	return nil, r.annotate(ctx, c, gr, topsv1.AnnotationPaused, "true", nil)
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
	rollout := &topsv1.DaemonRollout{}
	err = r.Get(ctx, client.ObjectKey{Namespace: r.namespace, Name: c.name}, rollout)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading DaemonRollout %s: %w", c.name, err)
	}
	// The pause is removed last: if it is gone, everything is done.
	unpaused := gr.Annotations[topsv1.AnnotationPaused] == ""
	stopped := meta.IsStatusConditionTrue(rollout.Status.Conditions, topsv1.RolloutHalted) ||
		rollout.Status.FailedNodes > 0 && unpaused // which may use up the budget
	if rollout.Status.Rollback != nil {
		stopped = unpaused
	}
	if rollout.BelongsTo(topsv1.GcuResourceKind, c.name) && stopped {
		if err := authorize(ctx, r.access, c, onRollout("update", r.namespace, c.name), onRollout("patch", r.namespace, c.name)); err != nil {
			return nil, err
		}
		others := map[string]any{}
		if rb := rollout.Status.Rollback; rb != nil && len(rollout.Approvals()) > 0 { // what failed needs other approvals
			others[topsv1.AnnotationApprovedWaves] = rollout.ApprovalsWithout(rb.From)
		}
		if err := r.annotate(ctx, c, rollout, topsv1.AnnotationResume, r.clock.Now().UTC().Format(time.RFC3339), others); err != nil {
			return nil, err
		}
	}
	return nil, r.annotate(ctx, c, gr, topsv1.AnnotationPaused, nil, nil)
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
	return nil, r.annotate(ctx, c, gr, topsv1.AnnotationRollbackTo, to, nil)
}

// annotate sets an annotation of an object, or removes it if value is nil, and sets others with it. It fails if
// another object has taken the name.
func (r *rolloutControl) annotate(ctx context.Context, c call, object client.Object, key string, value any, others map[string]any) error {
	ctx, writer, err := r.writer(ctx, c.user)
	if err != nil {
		return err
	}
	changed := ""
	if value != nil {
		changed = fmt.Sprint(value)
	}
	annotations := authorship(c.user, askedby.VerbOf(map[string]string{key: object.GetAnnotations()[key]}, map[string]string{key: changed}), r.clock.Now())
	annotations[key] = value
	maps.Copy(annotations, others)
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": object.GetUID(), "annotations": annotations}})
	if err != nil {
		return fmt.Errorf("encoding annotation %s: %w", key, err)
	}
	log.FromContext(ctx).Info("Writing annotation", "annotation", key, "value", value, "dryRun", c.dryRun)
	target := object.DeepCopyObject().(client.Object)
	return writer.Patch(ctx, target, client.RawPatch(types.MergePatchType, patch), c.patchOptions()...)
}
