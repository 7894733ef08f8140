package daemonupdater

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
)

// answerRequests writes the tasks that answer the nodes' requests.
func (r *Reconciler) answerRequests(ctx context.Context, o *observation, in rollout.Input, d rollout.Decision) error {
	return r.writeTasks(ctx, o, o.view.upgrades(), newTaskBoard(o, in, d).answer)
}

// answerOrphans answers the requests for a DaemonSet that is gone.
func (r *Reconciler) answerOrphans(ctx context.Context, g Group) error {
	if g.Kind != kindDaemonSet {
		return nil
	}
	var ds appsv1.DaemonSet
	if err := r.Get(ctx, client.ObjectKey{Namespace: g.Namespace, Name: g.Name}, &ds); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("getting DaemonSet %s: %w", g, err)
	}
	upgrades, err := r.nodeUpgrades(ctx)
	if err != nil {
		return err
	}
	now := wholeSecond(r.Clock())
	return r.writeTasks(ctx, &observation{group: g}, upgrades, func(u *topsv1.NodeUpgrade) ([]topsv1.UpgradeTask, bool) {
		return orphans(u, g, ds.UID, now)
	})
}

// writeTasks patches the NodeUpgrades whose tasks are to change.
func (r *Reconciler) writeTasks(ctx context.Context, o *observation, upgrades []*topsv1.NodeUpgrade, answer func(*topsv1.NodeUpgrade) ([]topsv1.UpgradeTask, bool)) error {
	return each(ctx, len(upgrades), func(i int) error {
		tasks, changed := answer(upgrades[i])
		if !changed {
			return nil
		}
		if err := r.confirmDone(ctx, o, upgrades[i], tasks); err != nil {
			return err
		}
		patch := client.MergeFromWithOptions(upgrades[i], client.MergeFromWithOptimisticLock{})
		err := r.Status().Patch(ctx, withTasks(upgrades[i], tasks), patch, client.FieldOwner(topsv1.ManagedBy))
		if apierrors.IsConflict(err) {
			r.dirty.add(o.group, upgrades[i].Name) // no event told of what its agent writes by the minute
		}
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("writing tasks of NodeUpgrade %s: %w", upgrades[i].Name, err)
		}
		return nil
	})
}

// confirmDone makes certain, past the cache, of what is about to be told for good:
// that a request is done. It returns errMoved when the cache is behind, and shows
// the pod or the revision before the one that was asked about.
func (r *Reconciler) confirmDone(ctx context.Context, o *observation, upgrade *topsv1.NodeUpgrade, tasks []topsv1.UpgradeTask) error {
	for i := range upgrade.Status.Requests {
		request := &upgrade.Status.Requests[i]
		task, shown := taskOf(tasks, request.ID), taskOf(upgrade.Status.Tasks, request.ID)
		if task == nil || task.State != topsv1.TaskDone || (shown != nil && shown.State.Final()) {
			continue
		}
		confirm := r.confirmAtTarget
		if task.Reason == reasonReplaced {
			confirm = r.confirmReplaced
		}
		if err := confirm(ctx, o, request); err != nil {
			return err
		}
	}
	return nil
}

// confirmReplaced returns errMoved when the pod of a request is still there.
func (r *Reconciler) confirmReplaced(ctx context.Context, _ *observation, request *topsv1.UpgradeRequest) error {
	var live corev1.Pod
	key := client.ObjectKey{Namespace: request.Pod.Namespace, Name: request.Pod.Name}
	err := r.Live.Get(ctx, key, &live)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("looking for pod %s: %w", key, err)
	}
	if err == nil && live.UID == request.Pod.UID {
		return fmt.Errorf("pod %s: %w", key, errMoved)
	}
	return nil
}

// confirmAtTarget returns errMoved when the target of a request's DaemonSet is
// another one by now.
func (r *Reconciler) confirmAtTarget(ctx context.Context, o *observation, request *topsv1.UpgradeRequest) error {
	for _, m := range o.members {
		if m.daemonSet.UID != request.DaemonSet.UID {
			continue
		}
		live, same, err := r.readAgain(ctx, m)
		if err != nil {
			return err
		}
		if !same {
			return fmt.Errorf("DaemonSet %s: %w", m.key(), errMoved)
		}
		revisions, err := r.liveRevisions(ctx, m, live)
		if err != nil {
			return err
		}
		if !sameTarget(m, live, revisions) {
			return fmt.Errorf("DaemonSet %s: %w", m.key(), errMoved)
		}
	}
	return nil
}
