package daemonupdater

import (
	"context"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/metrics"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/report"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/pkg/podreplace"
)

// podDeleter deletes the pods that a decision names.
type podDeleter struct {
	access
	metrics *metrics.Metrics
	deleted *deletedPods
}

// due returns the deletions that this process has not made yet; the cache may not show those it
// has made.
func (d podDeleter) due(deletions []rollout.Deletion) []rollout.Deletion {
	return slices.DeleteFunc(slices.Clone(deletions), func(deletion rollout.Deletion) bool { return d.deleted.has(deletion.UID) })
}

// delete deletes pods, each as named in the ledger. It spares the pods of DaemonSets that recheck
// found changed. A failed call does not prevent the others.
func (d podDeleter) delete(ctx context.Context, p *pass, deletions []rollout.Deletion, unchanged map[int]bool) error {
	err := inParallel(ctx, len(deletions), func(i int) error {
		if !unchanged[deletions[i].Member] {
			return nil
		}
		return d.deleteOne(ctx, p, &deletions[i])
	})
	for _, same := range unchanged {
		if err == nil && !same {
			return podreplace.ErrChanged
		}
	}
	return err
}

// recheck reports, per member index in the deletions, whether the live DaemonSet is still the
// observed one and still controlled. It checks the newest revision once per fleet only: another
// revision means another generation, and so another fleet.
func (d podDeleter) recheck(ctx context.Context, p *pass, deletions []rollout.Deletion) (map[int]bool, error) {
	unchanged := map[int]bool{}
	for i := range deletions {
		member := deletions[i].Member
		if _, done := unchanged[member]; done {
			continue
		}
		m := p.Members[member]
		live, same, err := d.liveDaemonSet(ctx, m)
		if err != nil {
			return nil, err
		}
		if same && !p.fleet.confirmed[member] {
			revisions, err := d.liveRevisions(ctx, m, live)
			if err != nil {
				return nil, err
			}
			same = m.SameTarget(live, revisions)
			p.fleet.confirmed[member] = same
		}
		unchanged[member] = same
	}
	return unchanged, nil
}

func (d podDeleter) deleteOne(ctx context.Context, p *pass, deletion *rollout.Deletion) error {
	ds := p.Members[deletion.Member].DaemonSet
	reason := metrics.Outdated
	if deletion.WasUnavailable {
		reason = metrics.OutdatedUnavailable
	}
	log.FromContext(ctx).Info("Deleting Pod", "Pod", klog.KRef(ds.Namespace, deletion.Pod), "DaemonSet", klog.KObj(ds), "Node", deletion.Node, "reason", reason)
	deleted, err := d.replacer().Delete(ctx, namedPod(ds.Namespace, deletion.Pod, deletion.UID, deletion.Version))
	if deleted {
		d.deleted.add(deletion.UID, p.Group, deletion.Node)
		d.metrics.PodDeleted(p.Group, reason)
	}
	return err
}

// namedPod names a pod at one resourceVersion.
func namedPod(namespace, name string, uid types.UID, version string) topsv1.NamedPod {
	return topsv1.NamedPod{NamespacedRef: topsv1.NamespacedRef{Namespace: namespace, Name: name, UID: uid}, ResourceVersion: version}
}

// fence writes to the pods of nodes that give back a slot without using it.
func (d podDeleter) fence(ctx context.Context, p *pass) error {
	pods := p.decision.Fence
	return inParallel(ctx, len(pods), func(i int) error {
		ds := p.Members[pods[i].Member].DaemonSet
		log.FromContext(ctx).Info("Fencing Pod, its node gives a slot back unused", "Pod", klog.KRef(ds.Namespace, pods[i].Name))
		pod := namedPod(ds.Namespace, pods[i].Name, pods[i].UID, pods[i].Version)
		return d.replacer().Fence(ctx, pod, p.in.Now, "its node gives its slot back without replacing the pod")
	})
}

// deletedPods records which pods this process deleted until the cache shows it, so that no pod is
// deleted twice. This only saves requests; correctness does not depend on it.
type deletedPods struct {
	mu   sync.Mutex
	uids map[types.UID]deletedPod
}

// deletedPod is the group and node of a deleted pod.
type deletedPod struct {
	group observed.Group
	node  string
}

func (d *deletedPods) has(uid types.UID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, ok := d.uids[uid]
	return ok
}

func (d *deletedPods) add(uid types.UID, g observed.Group, node string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.uids == nil {
		d.uids = map[types.UID]deletedPod{}
	}
	d.uids[uid] = deletedPod{g, node}
}

// prune drops the pods of a group that the cache shows as terminating or not at all. nodes is nil
// if the group is gone.
func (d *deletedPods) prune(g observed.Group, nodes *report.Nodes) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for uid, pod := range d.uids {
		if pod.group == g && (nodes == nil || !nodes.Runs(pod.node, uid)) {
			delete(d.uids, uid)
		}
	}
}
