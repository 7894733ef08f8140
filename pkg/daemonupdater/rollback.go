package daemonupdater

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/access"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/pass"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/report"
	"github.com/topsops/gcu-operator/pkg/denial"
	"github.com/topsops/gcu-operator/pkg/podreplace"
)

// rollbackStep returns a halted group to its last known good revision.
type rollbackStep struct {
	access.Cluster
	ledgers ledgerStore
}

// decide reads what the decision about a rollback needs, and decides.
func (s rollbackStep) decide(ctx context.Context, p *pass.Pass) (report.Rollback, error) {
	good := p.Rollout.Status.LastKnownGood
	if good == nil || !report.WantsRollback(p.State, p.In, p.Decision) {
		return report.RollbackOf(p.State, p.In, p.Decision, false), nil
	}
	if p.Group.Kind != observed.KindGcuResource {
		return s.permitted(ctx, p, report.RollbackOf(p.State, p.In, p.Decision, report.StoredRevision(good, p.Members))), nil
	}
	var revision appsv1.ControllerRevision
	err := s.Get(ctx, client.ObjectKey{Namespace: s.ledgers.namespace, Name: good.GcuResourceRevision}, &revision)
	if denial.IgnoreNotFound(err) != nil {
		return report.Rollback{}, fmt.Errorf("looking for revision %s: %w", good.GcuResourceRevision, err)
	}
	return report.RollbackOf(p.State, p.In, p.Decision, err == nil), nil
}

// permitted returns a rollback of DaemonSets, without effect if the API server would deny it. One that is stored already is
// carried out: it may be half done.
func (s rollbackStep) permitted(ctx context.Context, p *pass.Pass, rb report.Rollback) report.Rollback {
	if p.Rollout.Status.Rollback != nil {
		return rb
	}
	if err := s.restore(ctx, p, rb, client.DryRunAll); denial.ByAdmission(err) || apierrors.IsForbidden(err) {
		return report.DeniedRollback(err)
	}
	return rb // other errors show when it is carried out
}

// carryOut carries out a stored rollback of a DaemonSet; for a gr the gcuresource controller deploys the good revision of
// the spec. It changes only DaemonSets that are as observed, so it may be repeated: until the target has changed, every
// pass decides the same.
func (s rollbackStep) carryOut(ctx context.Context, p *pass.Pass, rb report.Rollback) error {
	if p.Group.Kind == observed.KindGcuResource {
		return nil
	}
	return s.restore(ctx, p, rb)
}

// restore gives the DaemonSets of a group the templates of a rollback, if there is one.
func (s rollbackStep) restore(ctx context.Context, p *pass.Pass, rb report.Rollback, options ...client.PatchOption) error {
	if rb.To == nil {
		return nil
	}
	for i, m := range p.Members {
		hash := report.TargetIn(rb.To.Targets, m.Key())
		if p.In.Members[i].Target == hash {
			continue
		}
		if err := s.restoreTemplate(ctx, p, m, hash, options); err != nil {
			return err
		}
	}
	return nil
}

// restoreTemplate gives a DaemonSet the template of an earlier revision, like kubectl rollout undo. The
// DaemonSet controller finds the template among its revisions and makes that revision the newest,
// so pods still at it are not restarted.
func (s rollbackStep) restoreTemplate(ctx context.Context, p *pass.Pass, m observed.Member, hash string, options []client.PatchOption) error {
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
	if _, err := s.ledgers.stillDecides(ctx, p); err != nil {
		return err
	}
	if len(options) == 0 { // no dry run
		log.FromContext(ctx).Info("Rolling DaemonSet back", "DaemonSet", klog.KObj(live), "revision", hash)
	}
	options = append(options, client.FieldOwner(topsv1.ManagedBy))
	if err := s.Patch(ctx, live, client.RawPatch(types.StrategicMergePatchType, patch), options...); err != nil {
		return fmt.Errorf("rolling DaemonSet %s back to %s: %w", m.Key(), hash, err)
	}
	return nil
}
