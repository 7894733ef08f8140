package daemonupdater

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/topsops/gcu-operator/pkg/daemonupdater/access"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/deletion"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/metrics"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/pass"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/pkg/podreplace"
)

// podDeleter deletes the pods that a decision names.
type podDeleter struct {
	access.Cluster
	metrics *metrics.Metrics
	// Denied deletions and fences are retried later.
	deletions, fences access.RequestKind
	concurrency       *deletion.Concurrency
	clock             func() time.Time
}

// due returns the pods that a decision deletes, without those that this process deleted recently, which the cache may not show, and those whose
// denial is not due for a retry. unready is Decision.Unready without the nodes of these, because nothing has to be confirmed for them.
func (d podDeleter) due(p *pass.Pass) (due []rollout.Pod, unready map[string][]int) {
	unready = maps.Clone(p.Decision.Unready)
	for _, pod := range p.Decision.Delete {
		if d.deletions.IsDue(p.Group, pod.UID, p.In.Now) {
			due = append(due, pod)
		} else {
			delete(unready, pod.Node)
		}
	}
	return due, unready
}

// delete deletes pods, each as named in the ledger, as many at once as the concurrency allows. It skips
// the pods of DaemonSets that recheck found changed. A failed call does not prevent the others.
func (d podDeleter) delete(ctx context.Context, p *pass.Pass, pods []rollout.Pod, unchanged map[int]bool) (err error) {
	pods = slices.DeleteFunc(pods, func(pod rollout.Pod) bool {
		return slices.ContainsFunc(p.Decision.DependsOn(&pod), func(member int) bool { return !unchanged[member] })
	})
	for next := 0; next < len(pods) && ctx.Err() == nil; {
		batch, began := pods[next:min(len(pods), next+d.concurrency.Limit())], d.clock()
		err = errors.Join(err, access.InParallel(ctx, len(batch), func(i int) error { return d.deleteOne(ctx, p, &batch[i]) }))
		d.concurrency.Observe(len(batch), d.clock().Sub(began))
		next += len(batch)
	}
	for _, same := range unchanged {
		if err == nil && !same {
			return podreplace.ErrChanged
		}
	}
	return err
}

// recheck reports, per index of a member that the deletions of pods depend on, whether the live DaemonSet is still the
// observed one and still controlled. It checks the newest revision only once per fleet: another
// revision means another generation, and so another fleet.
func (d podDeleter) recheck(ctx context.Context, p *pass.Pass, pods []rollout.Pod) (map[int]bool, error) {
	unchanged := map[int]bool{}
	var members []int
	for i := range pods {
		members = append(members, p.Decision.DependsOn(&pods[i])...)
	}
	for _, member := range members {
		if _, done := unchanged[member]; done {
			continue
		}
		m := p.Members[member]
		live, same, err := d.LiveDaemonSet(ctx, m)
		if err != nil {
			return nil, err
		}
		if same {
			if same, err = d.isNewest(ctx, p, member, live); err != nil {
				return nil, err
			}
		}
		unchanged[member] = same
	}
	return unchanged, nil
}

// isNewest confirms live that the observed target of a member is the newest revision of its DaemonSet.
func (d podDeleter) isNewest(ctx context.Context, p *pass.Pass, member int, live *appsv1.DaemonSet) (bool, error) {
	if !p.Fleet.Confirmed[member] {
		revisions, err := d.LiveRevisions(ctx, live)
		if err != nil {
			return false, err
		}
		p.Fleet.Confirmed[member] = p.Members[member].SameTarget(live, revisions)
	}
	return p.Fleet.Confirmed[member], nil
}

// confirmTarget returns podreplace.ErrChanged if the target, read live, is not the newest: every node seems to be updated
// until the cache shows the newest revision. The target is read once per fleet. One that differs from the ledger's is read in
// every pass: a manager with a stale cache must not take an earlier target for a new one, because it would drop what the ledger
// has about the newest, such as a halt.
func (d podDeleter) confirmTarget(ctx context.Context, p *pass.Pass) error {
	known := p.Rollout.Status.Revision == "" || p.Rollout.Status.Revision == p.In.Revision
	if p.In.Blocked != nil || known && !p.In.Upgrades() {
		return nil
	}
	for i, m := range p.Members {
		if known && p.Fleet.Confirmed[i] {
			continue
		}
		live, _, err := d.LiveDaemonSet(ctx, m)
		if err != nil {
			return err
		}
		if live.UID != m.DaemonSet.UID || live.Generation != m.DaemonSet.Generation {
			return podreplace.ErrChanged
		}
		if same, err := d.isNewest(ctx, p, i, live); err != nil || !same {
			return cmp.Or(err, podreplace.ErrChanged)
		}
	}
	return nil
}

func (d podDeleter) deleteOne(ctx context.Context, p *pass.Pass, pod *rollout.Pod) error {
	ds := p.Members[pod.Member].DaemonSet
	reason := metrics.Outdated
	if !pod.Available {
		reason = metrics.OutdatedUnavailable
	}
	log.FromContext(ctx).Info("Deleting Pod", "Pod", klog.KRef(ds.Namespace, pod.Name), "DaemonSet", klog.KObj(ds), "Node", pod.Node, "reason", reason)
	named := podreplace.Pod(ds.Namespace, pod.Name, pod.UID, pod.Version)
	deleted, err := d.Replacer().Delete(ctx, named)
	if deleted {
		d.deletions.Deleted(p.Group, pod.Node, pod.UID, p.In.Now)
		d.metrics.PodDeleted(p.Group, reason)
	}
	if !podreplace.IsDeniedOrBroken(err) {
		return err
	}
	d.deletions.Postpone(ctx, p.Group, pod.Node, pod.UID, err, p.In.Now, "Deletion denied", "Pod", klog.KObj(named))
	return unlessDenied(err)
}

// fence writes to the pods of nodes that give back a slot without using it. A denied fence is retried later: until the pod
// has another version, the node keeps its slot.
func (d podDeleter) fence(ctx context.Context, p *pass.Pass) error {
	pods := slices.DeleteFunc(slices.Clone(p.Decision.Fence), func(pod rollout.Pod) bool { return !d.fences.IsDue(p.Group, pod.UID, p.In.Now) })
	return access.InParallel(ctx, len(pods), func(i int) error { return d.fenceOne(ctx, p, &pods[i]) })
}

func (d podDeleter) fenceOne(ctx context.Context, p *pass.Pass, pod *rollout.Pod) error {
	ds := p.Members[pod.Member].DaemonSet
	log.FromContext(ctx).Info("Fencing Pod before its node gives back an unused slot", "Pod", klog.KRef(ds.Namespace, pod.Name))
	named := podreplace.Pod(ds.Namespace, pod.Name, pod.UID, pod.Version)
	err := d.Replacer().Fence(ctx, named, p.In.Now, "its node gives its slot back without replacing the pod")
	if !podreplace.IsDeniedOrBroken(err) {
		d.fences.Allowed(p.Group, pod.UID)
		return err
	}
	d.fences.Postpone(ctx, p.Group, pod.Node, pod.UID, err, p.In.Now, "Fence denied", "Pod", klog.KObj(named))
	return unlessDenied(err)
}

// unlessDenied returns an error that fails the pass, nil for a denial, which does not.
func unlessDenied(err error) error {
	if podreplace.IsDenied(err) {
		return nil
	}
	return err
}
