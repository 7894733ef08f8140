package daemonupdater

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/access"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/report"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/watch"
	"github.com/topsops/gcu-operator/pkg/podreplace"
)

// requestAnswerer writes the tasks that answer requests on nodes.
type requestAnswerer struct {
	access.Cluster
	changed *watch.ChangedNodes
}

// answer answers the requests for the DaemonSets of a group.
func (a requestAnswerer) answer(ctx context.Context, p *pass) error {
	answers := report.Answers{State: p.State, Fleet: p.fleet.Fleet, Input: &p.in, Decision: &p.decision}
	return a.write(ctx, p.State, p.fleet.reported.Asking(), answers.Tasks)
}

// answerOrphans answers the requests for a DaemonSet that is gone.
func (a requestAnswerer) answerOrphans(ctx context.Context, g observed.Group, now time.Time) error {
	if g.Kind != observed.KindDaemonSet {
		return nil
	}
	var ds appsv1.DaemonSet
	if err := a.Get(ctx, client.ObjectKey{Namespace: g.Namespace, Name: g.Name}, &ds); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("getting DaemonSet %s: %w", g, err)
	}
	var upgrades topsv1.NodeUpgradeList
	if err := a.List(ctx, &upgrades); err != nil {
		return fmt.Errorf("listing NodeUpgrades: %w", err)
	}
	return a.write(ctx, &observed.State{Group: g}, observed.ByName(upgrades.Items), func(u *topsv1.NodeUpgrade) ([]topsv1.UpgradeTask, bool) {
		return report.OrphanTasks(u, g, ds.UID, now)
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
		err := a.Status().Patch(ctx, report.WithTasks(upgrades[i], tasks), patch, client.FieldOwner(topsv1.ManagedBy))
		if apierrors.IsConflict(err) {
			a.changed.Add(s.Group, upgrades[i].Name) // its agent writes reports every minute, which cause no event
		}
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("writing tasks of NodeUpgrade %s: %w", upgrades[i].Name, err)
		}
		return nil
	})
}

// confirmFinal confirms live what is about to be answered for good. It returns
// podreplace.ErrChanged if the cache is stale and shows an old pod or revision.
func (a requestAnswerer) confirmFinal(ctx context.Context, s *observed.State, upgrade *topsv1.NodeUpgrade, tasks []topsv1.UpgradeTask) error {
	replaced, byTarget := report.NewlyFinal(upgrade, tasks)
	for _, request := range replaced {
		if err := a.confirmReplaced(ctx, request); err != nil {
			return err
		}
	}
	for _, request := range byTarget {
		if err := a.confirmTarget(ctx, s, request); err != nil {
			return err
		}
	}
	return nil
}

// confirmReplaced returns podreplace.ErrChanged if the pod of a request still exists.
func (a requestAnswerer) confirmReplaced(ctx context.Context, request *topsv1.UpgradeRequest) error {
	var live corev1.Pod
	key := client.ObjectKey{Namespace: request.Pod.Namespace, Name: request.Pod.Name}
	err := a.Live.Get(ctx, key, &live)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("looking for pod %s: %w", key, err)
	}
	if err == nil && live.UID == request.Pod.UID {
		return fmt.Errorf("pod %s: %w", key, podreplace.ErrChanged)
	}
	return nil
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
