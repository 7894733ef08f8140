package upgradeapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// remove deletes a gr; with policy foreground it answers when the gr is gone
// (contract statement 71).
func (a *API) remove(ctx context.Context, c call) (any, error) {
	policy, err := policyIn(c.body)
	if err != nil {
		return nil, err
	}
	asking, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	gr, err := a.settled(asking, c)
	if err != nil {
		return nil, err
	}
	if policy == policyForeground && !c.dryRun {
		select {
		case a.waits <- struct{}{}:
			defer func() { <-a.waits }()
		default:
			return nil, refuse(http.StatusTooManyRequests, "%d foreground deletions wait already: use policy background", maxWaits)
		}
	}
	if err := remove(asking, a.Client, gr, c.deleteOptions()...); err != nil {
		return nil, err
	}
	if err := a.free(asking, c); err != nil { // accepted since settled looked: it creates the gr again
		return nil, err
	}
	if policy == policyForeground && !c.dryRun {
		return nil, a.awaitGone(ctx, c, gr)
	}
	return nil, nil
}

// awaitGone waits until a gr is gone. The caller who goes away ends the wait and
// not the deletion.
func (a *API) awaitGone(ctx context.Context, c call, gr *topsv1.GcuResource) error {
	// The server's own bound is for answers that come at once.
	if err := c.deadlines.SetWriteDeadline(a.Clock.Now().Add(a.Deadline + defaultWrite)); err != nil {
		return fmt.Errorf("waiting for the deletion: %w", err)
	}
	last := gr
	err := wait.PollUntilContextCancel(ctx, a.Poll, true, func(ctx context.Context) (bool, error) {
		select {
		case <-a.stopping:
			return false, refuse(http.StatusServiceUnavailable, "the manager stops: the deletion of %s goes on", gr.Name)
		default:
		}
		looking, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		now, err := find(looking, a.Client, gr.Name)
		if err != nil {
			return false, nil // the deletion goes on, and so does the wait
		}
		if now != nil {
			last = now
		}
		return now == nil || now.UID != gr.UID, nil
	})
	if errors.Is(err, context.DeadlineExceeded) {
		return refuse(http.StatusGatewayTimeout, "%s is not gone after %s, its deletion goes on: %s", gr.Name, a.Deadline, lastMessage(last))
	}
	return err
}

// present returns a gr that may be changed: it exists, and is not being deleted.
func (a *API) present(ctx context.Context, c call) (*topsv1.GcuResource, error) {
	gr, err := a.settled(ctx, c)
	if err == nil && gr.DeletionTimestamp != nil {
		return nil, conflict("GcuResource %s is being deleted: wait until it is gone", c.name)
	}
	return gr, err
}

// settled returns a gr that no upgrade is about to delete and create again.
func (a *API) settled(ctx context.Context, c call) (*topsv1.GcuResource, error) {
	if err := a.free(ctx, c); err != nil {
		return nil, err
	}
	gr := &topsv1.GcuResource{}
	return gr, a.Client.Get(ctx, client.ObjectKey{Name: c.name}, gr)
}

// free returns an error while an upgrade is about to delete a gr and create it again.
func (a *API) free(ctx context.Context, c call) error {
	rec, _, err := a.recreationOf(ctx, c.name)
	if err == nil && rec != nil && rec.open() {
		return conflict("an upgrade of %s is under way, which deletes it and creates it again (request %s): wait until it is created", c.name, rec.request)
	}
	return err
}

// recreationOf returns the stored recreation of a gr, nil when there is none.
func (a *API) recreationOf(ctx context.Context, name string) (*recreation, *corev1.ConfigMap, error) {
	stored := &corev1.ConfigMap{}
	err := a.Client.Get(ctx, client.ObjectKey{Namespace: a.Namespace, Name: recreationName(name)}, stored)
	if apierrors.IsNotFound(err) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("reading the recreation of %s: %w", name, err)
	}
	rec, err := recreationIn(stored)
	return rec, stored, err
}

// pause lets the operator start no more nodes of a gr.
func (a *API) pause(ctx context.Context, c call) (any, error) {
	if err := noBody(c.body); err != nil {
		return nil, err
	}
	gr, err := a.present(ctx, c)
	if err != nil {
		return nil, err
	}
	return nil, a.annotate(ctx, c, gr, topsv1.AnnotationPaused, "true")
}

// resume takes a pause back, and forgives the failures of a rollout that is halted.
func (a *API) resume(ctx context.Context, c call) (any, error) {
	if err := noBody(c.body); err != nil {
		return nil, err
	}
	gr, err := a.present(ctx, c)
	if err != nil {
		return nil, err
	}
	rollout := &topsv1.DaemonRollout{}
	err = a.Client.Get(ctx, client.ObjectKey{Namespace: a.Namespace, Name: c.name}, rollout)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading DaemonRollout %s: %w", c.name, err)
	}
	// The pause goes last: who finds it gone knows that all of it was done.
	if meta.IsStatusConditionTrue(rollout.Status.Conditions, topsv1.RolloutHalted) {
		if err := a.annotate(ctx, c, rollout, topsv1.AnnotationResume, a.Clock.Now().UTC().Format(time.RFC3339)); err != nil {
			return nil, err
		}
	}
	return nil, a.annotate(ctx, c, gr, topsv1.AnnotationPaused, nil)
}

// rollback asks the operator to restore an earlier spec of a gr.
func (a *API) rollback(ctx context.Context, c call) (any, error) {
	to, err := rollbackIn(c.body)
	if err != nil {
		return nil, err
	}
	gr, err := a.present(ctx, c)
	if err != nil {
		return nil, err
	}
	kept, err := a.ownedBy(ctx, c.name, revisionKind, client.InNamespace(a.Namespace), client.MatchingLabels{topsv1.LabelGcuResource: c.name})
	if err != nil {
		return nil, err
	}
	known := to == topsv1.RollbackToPrevious
	for i := range kept.Items {
		known = known || kept.Items[i].GetName() == to
	}
	if !known {
		return nil, refuse(http.StatusNotFound, "revision %.100q of %s not found: GET its revisions", to, c.name)
	}
	if to == topsv1.RollbackToPrevious && len(kept.Items) < 2 {
		return nil, conflict("no spec of %s before the present one is kept", c.name)
	}
	return nil, a.annotate(ctx, c, gr, topsv1.AnnotationRollbackTo, to)
}

// annotate writes one annotation of an object, or removes it when value is nil.
// It fails when another object has taken its name.
func (a *API) annotate(ctx context.Context, c call, object client.Object, key string, value any) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": object.GetUID(), "annotations": map[string]any{key: value}}})
	if err != nil {
		return fmt.Errorf("encoding annotation %s: %w", key, err)
	}
	log.FromContext(ctx).Info("Writing annotation", "annotation", key, "value", value, "dryRun", c.dryRun)
	target := object.DeepCopyObject().(client.Object)
	return a.Client.Patch(ctx, target, client.RawPatch(types.MergePatchType, patch), c.patchOptions()...)
}
