package daemonupdater

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/access"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/report"
	"github.com/topsops/gcu-operator/pkg/podreplace"
)

// rollbackRetry is when to check a gr again whose DaemonSets do not match its spec yet.
const rollbackRetry = 5 * time.Second

// rollbackStep returns a halted group to its last known good revision.
type rollbackStep struct {
	access.Cluster
	ledgers ledgerStore
}

// decide reads what a rollback needs, and decides.
func (s rollbackStep) decide(ctx context.Context, p *pass) (report.Rollback, error) {
	good := p.Rollout.Status.LastKnownGood
	if good == nil || !report.AsksRollback(p.State, p.in, p.decision) {
		return report.RollbackOf(p.State, p.in, p.decision, false), nil
	}
	if p.Group.Kind != observed.KindGcuResource {
		return report.RollbackOf(p.State, p.in, p.decision, report.StoredRevision(good, p.Members)), nil
	}
	var revision appsv1.ControllerRevision
	err := s.Get(ctx, client.ObjectKey{Namespace: s.ledgers.namespace, Name: good.GcuResourceRevision}, &revision)
	if client.IgnoreNotFound(err) != nil {
		return report.Rollback{}, fmt.Errorf("looking for revision %s: %w", good.GcuResourceRevision, err)
	}
	return report.RollbackOf(p.State, p.in, p.decision, err == nil), nil
}

// carryOut carries out a stored rollback. It changes only what is as observed, so it may be
// repeated: until the target has changed, every pass decides the same. It returns how long to
// wait if another controller has to act first.
func (s rollbackStep) carryOut(ctx context.Context, p *pass, rb report.Rollback) (wait time.Duration, err error) {
	if rb.To == nil {
		return 0, nil
	}
	if p.Group.Kind == observed.KindGcuResource {
		return s.askForSpec(ctx, p, rb.To)
	}
	for i, m := range p.Members {
		hash := report.TargetIn(rb.To, m.Key())
		if p.in.Members[i].Target == hash {
			continue
		}
		if err := s.restoreTemplate(ctx, p, m, hash); err != nil {
			return 0, err
		}
	}
	return 0, nil
}

// restoreTemplate gives a DaemonSet the template of an earlier revision, like kubectl rollout undo. The
// DaemonSet controller finds the template among its revisions and makes that revision the newest,
// so pods still at it are not restarted.
func (s rollbackStep) restoreTemplate(ctx context.Context, p *pass, m observed.Member, hash string) error {
	live, err := s.UnchangedDaemonSet(ctx, m)
	if err != nil {
		return err
	}
	revisions, err := s.LiveRevisions(ctx, live)
	if err != nil {
		return err
	}
	revision := report.RevisionWith(live, revisions, hash)
	if revision == nil || !m.SameTarget(live, revisions) {
		return podreplace.ErrChanged
	}
	patch, err := report.TemplatePatch(live, revision)
	if err != nil {
		return err
	}
	if err := s.ledgers.stillDecides(ctx, p); err != nil {
		return err
	}
	log.FromContext(ctx).Info("Rolling DaemonSet back", "DaemonSet", klog.KObj(live), "revision", hash)
	if err := s.Patch(ctx, live, client.RawPatch(types.StrategicMergePatchType, patch), client.FieldOwner(topsv1.ManagedBy)); err != nil {
		return fmt.Errorf("rolling DaemonSet %s back to %s: %w", m.Key(), hash, err)
	}
	return nil
}

// askForSpec asks the gcuresource controller, by annotation, to restore the spec of a good
// revision. It does so only while the DaemonSets match the current spec and annotations of the
// gr: a newer spec wins.
func (s rollbackStep) askForSpec(ctx context.Context, p *pass, to *topsv1.KnownGoodRevision) (wait time.Duration, err error) {
	owner := daemonset.GcuResourceOwner(p.Members[0].DaemonSet)
	var gr topsv1.GcuResource
	if err := s.Live.Get(ctx, client.ObjectKey{Name: owner.Name}, &gr); err != nil {
		if apierrors.IsNotFound(err) {
			return 0, nil // its DaemonSets are deleted too
		}
		return 0, fmt.Errorf("reading GcuResource %s: %w", owner.Name, err)
	}
	if _, asked := gr.Annotations[topsv1.AnnotationRollbackTo]; asked || gr.UID != owner.UID || gr.DeletionTimestamp != nil {
		return 0, nil
	}
	for _, m := range p.Members {
		live, err := s.UnchangedDaemonSet(ctx, m)
		if err != nil {
			return 0, err
		}
		if gr.Status.ObservedGeneration != gr.Generation || !report.CarriedOver(&gr, live) {
			return rollbackRetry, nil
		}
	}
	if err := s.ledgers.stillDecides(ctx, p); err != nil {
		return 0, err
	}
	before := gr.DeepCopy()
	gr.Annotations[topsv1.AnnotationRollbackTo] = to.GcuResourceRevision
	log.FromContext(ctx).Info("Requesting an earlier spec", "revision", to.GcuResourceRevision)
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := s.Patch(ctx, &gr, patch, client.FieldOwner(topsv1.ManagedBy)); err != nil {
		return 0, fmt.Errorf("requesting a rollback of GcuResource %s to %s: %w", gr.Name, to.GcuResourceRevision, err)
	}
	return 0, nil
}
