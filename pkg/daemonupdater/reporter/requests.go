// Package reporter writes the reports of package report about the nodes of a group: conditions of pods, tasks that
// answer requests on nodes, and the result of the plan.
package reporter

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/access"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/metrics"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/pass"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/report"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/watch"
	"github.com/topsops/gcu-operator/pkg/denial"
	"github.com/topsops/gcu-operator/pkg/podreplace"
)

// Reporter writes reports.
type Reporter struct {
	access.Cluster
	// Changed receives the nodes whose NodeUpgrade changed before a write.
	Changed *watch.ChangedNodes
	// Metrics counts granted requests.
	Metrics *metrics.Metrics
	// Denied retries denied conditions of pods.
	Denied access.RequestKind
}

// Answer answers the requests for the DaemonSets of a group.
func (r Reporter) Answer(ctx context.Context, p *pass.Pass) error {
	answers := report.RequestResults{State: p.State, Fleet: p.Fleet.Fleet, Input: &p.In, Decision: &p.Decision, Refused: p.Refused, PinRequestsBlockedBy: p.PinRequestsBlockedBy}
	return r.writeTasks(ctx, p.State, p.Fleet.Reported.Asking(), answers.Tasks)
}

// AnswerOrphans answers the requests for DaemonSets that are gone.
func (r Reporter) AnswerOrphans(ctx context.Context, g observed.Group, now time.Time) error {
	upgrades, err := r.Orphans(ctx, g)
	if err != nil {
		return err
	}
	return r.writeTasks(ctx, &observed.State{Group: g}, observed.ByName(upgrades), func(u *topsv1.NodeUpgrade) ([]topsv1.UpgradeTask, bool) {
		return report.OrphanTasks(u, func(ref topsv1.NamespacedRef) bool { return r.IsGone(ctx, ref) }, now)
	})
}

// writeTasks patches the NodeUpgrades whose tasks change.
func (r Reporter) writeTasks(ctx context.Context, s *observed.State, upgrades []*topsv1.NodeUpgrade, answer func(*topsv1.NodeUpgrade) ([]topsv1.UpgradeTask, bool)) error {
	return access.InParallel(ctx, len(upgrades), func(i int) error {
		tasks, changed := answer(upgrades[i])
		if !changed {
			return nil
		}
		if err := r.confirmFinal(ctx, s, upgrades[i], tasks); err != nil {
			return err
		}
		patch := client.MergeFromWithOptions(upgrades[i], client.MergeFromWithOptimisticLock{})
		err := r.Status().Patch(ctx, report.WithTasks(upgrades[i], tasks), patch, client.FieldOwner(topsv1.ManagedBy), access.StrictFields)
		if denial.IsConflict(err) {
			r.Changed.Add(s.Group, upgrades[i].Name) // the agent's reports, one a minute, trigger no pass
		}
		if apierrors.IsInvalid(err) && !denial.ByAdmission(err) {
			log.FromContext(ctx).Error(err, "Answering the requests of a node failed", "Node", upgrades[i].Name)
			return nil // only this object is invalid: other nodes go on
		}
		if err != nil {
			return denial.IgnoreNotFound(fmt.Errorf("writing tasks of NodeUpgrade %s: %w", upgrades[i].Name, err))
		}
		for _, waited := range report.NewlyStarted(upgrades[i], tasks) {
			r.Metrics.Started(s.Group, waited)
		}
		return nil
	})
}

// confirmFinal confirms live the facts of answers that are about to become final. It returns
// podreplace.ErrChanged if the cache is stale and shows an old pod or revision.
func (r Reporter) confirmFinal(ctx context.Context, s *observed.State, upgrade *topsv1.NodeUpgrade, tasks []topsv1.UpgradeTask) error {
	replaced, byTarget := report.NewlyFinal(upgrade, tasks)
	for _, request := range replaced {
		if ours, err := r.confirmReplaced(ctx, upgrade.Name, request); err != nil {
			return err
		} else if !ours {
			report.RejectInvalid(tasks, request)
		}
	}
	for _, request := range byTarget {
		if err := r.confirmTarget(ctx, s, request); err != nil {
			return err
		}
	}
	return nil
}

// confirmReplaced returns podreplace.ErrChanged if the pod of a request still exists, other than by a finalizer alone. ours
// is false if it exists and is not a pod of the DaemonSet on that node.
func (r Reporter) confirmReplaced(ctx context.Context, node string, request *topsv1.UpgradeRequest) (ours bool, err error) {
	var live corev1.Pod
	key := client.ObjectKey{Namespace: request.Pod.Namespace, Name: request.Pod.Name}
	err = r.Live.Get(ctx, key, &live)
	switch {
	case apierrors.IsNotFound(err) || err == nil && live.UID != request.Pod.UID:
		return true, nil
	case err != nil:
		return false, fmt.Errorf("looking for pod %s: %w", key, err)
	case daemonset.NodeName(&live) != node || daemonset.Owner(&live) == nil || daemonset.Owner(&live).UID != request.DaemonSet.UID:
		return false, nil
	case daemonset.HasLeft(&live):
		return true, nil
	}
	return true, fmt.Errorf("pod %s: %w", key, podreplace.ErrChanged)
}

// confirmTarget returns podreplace.ErrChanged if the target of a request's DaemonSet has changed.
func (r Reporter) confirmTarget(ctx context.Context, s *observed.State, request *topsv1.UpgradeRequest) error {
	for _, m := range s.Members {
		if m.DaemonSet.UID != request.DaemonSet.UID {
			continue
		}
		live, same, err := r.LiveDaemonSet(ctx, m)
		if err != nil {
			return err
		}
		if !same {
			return fmt.Errorf("DaemonSet %s: %w", m.Key(), podreplace.ErrChanged)
		}
		revisions, err := r.LiveRevisions(ctx, live)
		if err != nil {
			return err
		}
		if !m.SameTarget(live, revisions) {
			return fmt.Errorf("DaemonSet %s: %w", m.Key(), podreplace.ErrChanged)
		}
	}
	return nil
}
