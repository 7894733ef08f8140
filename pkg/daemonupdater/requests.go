package daemonupdater

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
	"github.com/topsops/gcu-operator/pkg/daemonupdater/report"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/watch"
	"github.com/topsops/gcu-operator/pkg/podreplace"
)

// requestAnswerer writes the tasks that answer requests on nodes.
type requestAnswerer struct {
	access.Cluster
	changed *watch.ChangedNodes
	metrics *metrics.Metrics
}

// answer answers the requests for the DaemonSets of a group.
func (a requestAnswerer) answer(ctx context.Context, p *pass) error {
	answers := report.Answers{State: p.State, Fleet: p.fleet.Fleet, Input: &p.in, Decision: &p.decision, Refused: p.refused, AsksWait: p.asksWait}
	return a.write(ctx, p.State, p.fleet.reported.Asking(), answers.Tasks)
}

// answerOrphans answers the requests for DaemonSets that are gone.
func (a requestAnswerer) answerOrphans(ctx context.Context, g observed.Group, now time.Time) error {
	upgrades, err := a.Orphans(ctx, g)
	if err != nil {
		return err
	}
	return a.write(ctx, &observed.State{Group: g}, observed.ByName(upgrades), func(u *topsv1.NodeUpgrade) ([]topsv1.UpgradeTask, bool) {
		return report.OrphanTasks(u, func(ref topsv1.NamespacedRef) bool { return a.IsGone(ctx, ref) }, now)
	})
}

// write patches the NodeUpgrades whose tasks change.
func (a requestAnswerer) write(ctx context.Context, s *observed.State, upgrades []*topsv1.NodeUpgrade, answer func(*topsv1.NodeUpgrade) ([]topsv1.UpgradeTask, bool)) error {
	return access.InParallel(ctx, len(upgrades), func(i int) error {
		tasks, changed := answer(upgrades[i])
		if !changed {
			return nil
		}
		if err := a.confirmFinal(ctx, s, upgrades[i], tasks); err != nil {
			return err
		}
		patch := client.MergeFromWithOptions(upgrades[i], client.MergeFromWithOptimisticLock{})
		err := a.Status().Patch(ctx, report.WithTasks(upgrades[i], tasks), patch, client.FieldOwner(topsv1.ManagedBy), access.Whole)
		if apierrors.IsConflict(err) {
			a.changed.Add(s.Group, upgrades[i].Name) // its agent writes reports every minute, which cause no event
		}
		if apierrors.IsInvalid(err) {
			log.FromContext(ctx).Error(err, "Answering the requests of a node failed", "Node", upgrades[i].Name)
			return nil // about this object, so that other nodes go on
		}
		if err != nil {
			return client.IgnoreNotFound(fmt.Errorf("writing tasks of NodeUpgrade %s: %w", upgrades[i].Name, err))
		}
		for _, waited := range report.NewlyGranted(upgrades[i], tasks) {
			a.metrics.Granted(s.Group, waited)
		}
		return nil
	})
}

// confirmFinal confirms live what is about to be answered for good. It returns
// podreplace.ErrChanged if the cache is stale and shows an old pod or revision.
func (a requestAnswerer) confirmFinal(ctx context.Context, s *observed.State, upgrade *topsv1.NodeUpgrade, tasks []topsv1.UpgradeTask) error {
	replaced, byTarget := report.NewlyFinal(upgrade, tasks)
	for _, request := range replaced {
		if ours, err := a.confirmReplaced(ctx, upgrade.Name, request); err != nil {
			return err
		} else if !ours {
			report.Misdirect(tasks, request)
		}
	}
	for _, request := range byTarget {
		if err := a.confirmTarget(ctx, s, request); err != nil {
			return err
		}
	}
	return nil
}

// confirmReplaced returns podreplace.ErrChanged if the pod of a request still exists, and false if
// it exists and is not the DaemonSet's on that node.
func (a requestAnswerer) confirmReplaced(ctx context.Context, node string, request *topsv1.UpgradeRequest) (ours bool, err error) {
	var live corev1.Pod
	key := client.ObjectKey{Namespace: request.Pod.Namespace, Name: request.Pod.Name}
	err = a.Live.Get(ctx, key, &live)
	switch {
	case apierrors.IsNotFound(err) || err == nil && live.UID != request.Pod.UID:
		return true, nil
	case err != nil:
		return false, fmt.Errorf("looking for pod %s: %w", key, err)
	case daemonset.NodeName(&live) != node || daemonset.Owner(&live) == nil || daemonset.Owner(&live).UID != request.DaemonSet.UID:
		return false, nil
	}
	return true, fmt.Errorf("pod %s: %w", key, podreplace.ErrChanged)
}

// confirmTarget returns podreplace.ErrChanged if the target of a request's DaemonSet has changed.
func (a requestAnswerer) confirmTarget(ctx context.Context, s *observed.State, request *topsv1.UpgradeRequest) error {
	for _, m := range s.Members {
		if m.DaemonSet.UID != request.DaemonSet.UID {
			continue
		}
		live, same, err := a.LiveDaemonSet(ctx, m)
		if err != nil {
			return err
		}
		if !same {
			return fmt.Errorf("DaemonSet %s: %w", m.Key(), podreplace.ErrChanged)
		}
		revisions, err := a.LiveRevisions(ctx, live)
		if err != nil {
			return err
		}
		if !m.SameTarget(live, revisions) {
			return fmt.Errorf("DaemonSet %s: %w", m.Key(), podreplace.ErrChanged)
		}
	}
	return nil
}
