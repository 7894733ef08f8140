// Package gatekeeper carries out the decisions of package gating about pods at the scheduling gate of the
// admission policy gcu-operator-gate: it removes the gate, or creates a pod of an earlier revision.
package gatekeeper

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/access"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/gating"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/pass"
	"github.com/topsops/gcu-operator/pkg/denial"
	"github.com/topsops/gcu-operator/pkg/podreplace"
)

// Gatekeeper releases pods from the gate, or creates earlier ones in their place.
type Gatekeeper struct {
	access.Cluster
	// Releases and Restores that are denied are retried later.
	Releases, Restores access.RequestKind
}

// Handle decides about the pods of a group at the gate by its ledger as stored, and carries the decisions out. The revisions are read
// live, because a node without an earlier revision gets the newest.
func (k Gatekeeper) Handle(ctx context.Context, p *pass.Pass, ledger *topsv1.DaemonRolloutStatus) error {
	revisions := map[types.UID][]*appsv1.ControllerRevision{}
	waiting := p.Fleet.AtGate()
	actions := make([]gating.Action, 0, len(waiting))
	for _, w := range waiting {
		facts := p.GateFacts(w, ledger)
		uid := w.DaemonSet.UID
		if _, read := revisions[uid]; !read && !facts.Uncontrolled {
			i := slices.IndexFunc(p.Members, func(m observed.Member) bool { return m.DaemonSet.UID == uid })
			live, same, err := k.LiveDaemonSet(ctx, p.Members[i])
			if err != nil {
				return err
			}
			if !same {
				return podreplace.ErrChanged
			}
			if revisions[uid], err = k.LiveRevisions(ctx, live); err != nil {
				return err
			}
		}
		facts.Revisions = revisions[uid]
		actions = append(actions, gating.Decide(w, &facts))
	}
	return access.InParallel(ctx, len(actions), func(i int) error { return k.try(ctx, p, &actions[i]) })
}

// try carries out an action that is due. One that is denied is retried later, and prevents neither the others nor the end of
// the group. It does not delay the other kind: a node may get a slot meanwhile.
func (k Gatekeeper) try(ctx context.Context, p *pass.Pass, a *gating.Action) error {
	kind, other := k.Restores, k.Releases
	if a.Release {
		kind, other = k.Releases, k.Restores
	}
	other.Allowed(p.Group, a.Pod.UID)
	if !kind.IsDue(p.Group, a.Pod.UID, p.In.Now) {
		return nil
	}
	err := k.carryOut(ctx, a)
	if podreplace.IsDeniedOrBroken(err) && !access.IsStale(err) {
		kind.Postpone(ctx, p.Group, a.Node.Name, a.Pod.UID, err, p.In.Now, "Write for a Pod at the gate denied", "Pod", klog.KObj(a.Pod))
		return nil
	}
	if err == nil {
		kind.Allowed(p.Group, a.Pod.UID)
	}
	return err
}

func (k Gatekeeper) carryOut(ctx context.Context, a *gating.Action) error {
	logger := log.FromContext(ctx).WithValues("Pod", klog.KObj(a.Pod), "DaemonSet", klog.KObj(a.DaemonSet), "Node", a.Node.Name, "reason", a.Why)
	switch {
	case a.Release:
		logger.Info("Releasing Pod from the gate")
		return k.release(ctx, a.Pod)
	case a.Restore == nil:
		return nil
	}
	var live corev1.Pod
	if err := k.Live.Get(ctx, client.ObjectKeyFromObject(a.Pod), &live); err != nil {
		return denial.IgnoreNotFound(err)
	}
	if live.UID != a.Pod.UID || live.DeletionTimestamp != nil || !daemonset.AwaitsUpgrade(&live) {
		return podreplace.ErrChanged
	}
	logger.Info("Creating Pod in place of the one at the gate", "revision", daemonset.RevisionHash(a.Restore))
	if err := k.Create(ctx, a.Restore); err != nil && !denial.IsAlreadyExists(err) {
		return fmt.Errorf("creating Pod %s/%s: %w", a.Restore.Namespace, a.Restore.Name, err)
	}
	return nil
}

// Release removes the gate of pods whose DaemonSet is not controlled any more.
func (k Gatekeeper) Release(ctx context.Context, pods []*corev1.Pod) error {
	return access.InParallel(ctx, len(pods), func(i int) error { return k.release(ctx, pods[i]) })
}

// release removes the gate of a pod as it was seen.
func (k Gatekeeper) release(ctx context.Context, pod *corev1.Pod) error {
	gates := slices.DeleteFunc(slices.Clone(pod.Spec.SchedulingGates), func(g corev1.PodSchedulingGate) bool { return g.Name == topsv1.GateAwaitingUpgrade })
	data, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID, "resourceVersion": pod.ResourceVersion}, "spec": map[string]any{"schedulingGates": gates}})
	if err != nil {
		return fmt.Errorf("encoding the gates of Pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	named := podreplace.Pod(pod.Namespace, pod.Name, pod.UID, pod.ResourceVersion)
	if err := k.Patch(ctx, named, client.RawPatch(types.MergePatchType, data)); denial.IgnoreNotFound(err) != nil {
		return fmt.Errorf("releasing Pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}
